"""The documentation as a site: it is built without a warning, and asks nobody for anything."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from child import finish

ROOT = Path(__file__).parents[1]
ROOTS = {"index", "changelog", "contributing", "reporting", "conduct"}  # pages that stand at the root of the repository


class Asked(HTMLParser):
    """What a browser would fetch to show a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.places: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        key = {"link": "href", "script": "src", "img": "src", "iframe": "src"}.get(tag)
        if key and given.get(key) and given.get("rel") != "canonical":
            self.places.append(given[key])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = finish("-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", folder, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_of_the_documentation_is_on_the_site(site):
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} | ROOTS
    assert pages <= {path.stem for path in site.glob("*.html")}
    named = set(re.findall(r": (\w+)\.md", (ROOT / "mkdocs.yml").read_text()))
    assert named == pages
    assert (
        "one forward-only pass" in (site / "index.html").read_text()
        or "one forward" in (site / "index.html").read_text()
    )


def test_the_site_asks_nobody_for_anything_and_lacks_nothing(site):
    for page in site.glob("*.html"):
        for place in Asked(page.read_text()).places:
            assert not re.match(r"(https?:)?//", place), (page.name, place)
            if not place.startswith("data:"):
                assert (site / place.partition("?")[0].lstrip("/")).is_file(), (page.name, place)
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text(errors="replace")), style


def test_pictures_of_the_pages_are_there_and_small():
    named = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        named |= {Path(place).name for place in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text())}
    drawn = {path.name for path in (ROOT / "docs" / "images").iterdir()}
    assert named == drawn
    assert all((ROOT / "docs" / "images" / name).stat().st_size < 200_000 for name in drawn)
    makers = [ROOT / "docs" / "make_pictures.py", *(ROOT / "benchmarks" / name for name in ("accuracy.py", "desk.py"))]
    made = "".join(maker.read_text() for maker in makers)
    assert all(name in made for name in drawn)
