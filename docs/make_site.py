"""What the site of the documentation needs besides these pages: the README, the changes and how to contribute."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that stand at the root of the repository, with links as they are here."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=moved((ROOT / name).read_text())))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Without links to what is no page."""
    return re.sub(r"\[([^\]]+)\]\((?:(?:\.\./|examples/)[^)]*|CITATION\.cff)\)", r"`\1`", markdown)


def moved(text: str) -> str:
    """Links of a page at the root, as seen from the pages."""
    text = text.replace("](docs/", "](").replace('src="docs/', 'src="')
    for name, page in PAGES.items():
        text = text.replace(f"]({name}", f"]({page}")
    return text
