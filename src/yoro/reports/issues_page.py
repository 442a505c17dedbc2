"""The page of label issues: every image to review, and why."""

from __future__ import annotations

from yoro.data.thumbnails import thumbnail_of
from yoro.reports.page import render
from yoro.trust.label_issues import KINDS, Issues

MOST = 100  # pictures of one kind on a page
TOLD = {  # title and description of each kind
    "label": ("Probably wrong labels", "As many as are expected to be wrong, the least likely label first."),
    "hard photo": ("Hard photos", "Another class is more probable, but most of these labels are right."),
    "outlier": ("Outliers", "Far from every class (out-of-distribution); the farthest first."),
    "duplicate": ("Duplicates", "The same image again."),
    "near duplicate": ("Near duplicates", "Nearly the same response; the most similar first."),
}


def issues_html(issues: Issues, source: str) -> str:
    """The whole page, to be written as UTF-8; it asks for no other file and runs no script."""
    pictures = issues.left_out.pictures
    parts = []
    for kind in KINDS:
        found = issues.of(kind)
        title, about = TOLD[kind]
        shown = [
            (issue, thumbnail_of(pictures.get(issue.name)), thumbnail_of(pictures.get(issue.like)))
            for issue in found[:MOST]
        ]
        parts.append((title, about, len(found), shown))
    return render("issues.html", title="Label issues", source=source, total=len(issues.names), parts=parts)
