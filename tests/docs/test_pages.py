"""The pages: relative links lead to files and anchors, and the index is complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


def prose(page: Path) -> str:
    """Return a page without its code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> list[str]:
    """Return the targets of a page's relative links and pictures."""
    found = re.findall(r"\]\(([^)\s]+)\)", prose(page))
    return [link for link in found if not re.match(r"[a-z]+:", link)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip().lower())
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        again = found.count(anchor)
        found += [anchor, f"{anchor}-{again}"] if again else [anchor]
    return set(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_names_every_page() -> None:
    pages = {path.name for path in DOCS.iterdir() if path.suffix in (".md", ".ipynb")}
    assert pages - {"index.md"} <= set(links(DOCS / "index.md"))


def test_the_index_has_the_groups_of_the_command_line() -> None:
    groups = ["Get data in", "Look", "Ask what if", "Decide live", "Look after data"]
    assert re.findall(r"^## (.*)$", prose(DOCS / "index.md"), re.MULTILINE) == [
        *groups,
        "Reference",
    ]
