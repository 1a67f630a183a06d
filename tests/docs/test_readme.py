"""README.md: its length, commands, extract of docs/proof.md, columns and tree."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.readme import extract, replace_part
from tests.core_install import core_environment

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def block(start: str) -> str:
    """Return the code block that begins with a text."""
    (found,) = re.findall(rf"^```\n({re.escape(start)}.*?)^```", README, re.DOTALL | re.MULTILINE)
    return str(found)


def test_it_is_short() -> None:
    assert len(README.splitlines()) < 150


@pytest.mark.compiled
def test_the_commands_for_a_csv_work_when_they_are_pasted(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(sys.prefix)
    script = block("cat > own.csv")
    assert script.count("hpabatch ") == 4
    ran = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=core_environment(tmp_path),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "build" / "own").is_dir()
    (decision,) = re.findall(r"The last command prints the decision, `(.*?)`", README)
    assert f"{decision}: the metrics' own proposal was applied\n" in ran.stdout


def test_its_speed_is_an_extract_of_the_page() -> None:
    lines = extract((ROOT / "docs" / "proof.md").read_text())
    assert replace_part(README, "speed", lines) == README


def columns_of(text: str) -> set[str]:
    """Return the heads of the tables in a page's screens, those that begin with HPA."""
    heads = re.findall(r"^HPA  .*$", text, re.MULTILINE)
    assert heads
    return {name for line in heads for name in re.split("  +", line.strip())}


def test_the_columns_of_the_screens_are_in_the_glossary() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text().partition("## Columns on the screens")[2]
    rows = [line.split("|")[1] for line in lines.splitlines() if line.startswith("| ")]
    explained = {name.strip() for cell in rows for name in cell.split(",")}
    assert columns_of(README) <= explained | {"HPA"}


def named_files() -> list[str]:
    """Return the files of the package that the list of places to change names."""
    part = (ROOT / "CONTRIBUTING.md").read_text().partition("Places to change")[2]
    found = []
    for word in re.findall(r"`([a-z0-9_/{},]+/[a-z0-9_{},]*(?:\.py)?)`", part):
        before, brace, rest = word.partition("{")
        names, _, after = rest.partition("}")
        found += [before + name + after for name in names.split(",")] if brace else [word]
    return [
        name
        for name in found
        if not name.startswith(("docs/", "tests/", "hpabatch/", "benchmarks/"))
    ]


def test_the_architecture_names_what_there_is() -> None:
    files = named_files()
    assert len(files) > 15
    folders = re.findall(r"^  (\w+)/ ", README, re.MULTILINE)
    package = {
        path.name for path in (ROOT / "hpabatch").iterdir() if (path / "__init__.py").exists()
    }
    assert set(folders) == package
    assert [name for name in files if not (ROOT / "hpabatch" / name).exists()] == []
