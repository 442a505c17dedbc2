"""The page about issues: every image that should be looked at, with what speaks against it."""

from __future__ import annotations

from collections.abc import Mapping

from yoro.data.examples import Example
from yoro.reports.gallery import small
from yoro.reports.page import render
from yoro.trust.label_issues import KINDS, LABEL, Issues

MOST = 100  # pictures of one kind on a page
TOLD = {  # what each kind is, and in which order it stands
    "label": ("Labels to look at", "By the model without the image, the least likely first."),
    "outlier": ("Images like no class", "Far stranger than the others; the strangest first."),
    "duplicate": ("Images that are there twice", "The same file again."),
    "near duplicate": ("Images that are there in another form", "Nearly the same response; the most alike first."),
}


def issues_html(issues: Issues, source: str) -> str:
    """The whole page, to be written as UTF-8; it asks for no other file and runs no script."""
    pictures = issues.left_out.pictures
    parts = []
    for kind in KINDS:
        found = issues.of(kind)
        title, about = TOLD[kind]
        if kind == LABEL:
            about += f" It prefers another class for {sum(issue.score > 0 for issue in found)} of them."
        shown = [(issue, _picture(pictures, issue.name), _picture(pictures, issue.like)) for issue in found[:MOST]]
        parts.append((title, about, len(found), shown))
    return render("issues.html", title="What to look at", source=source, total=len(issues.names), parts=parts)


def _picture(pictures: Mapping[str, Example], name: str) -> bytes | None:
    return small(pictures.get(name))
