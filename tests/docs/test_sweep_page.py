"""The commands of docs/sweep.md work when they are pasted, and its tables are those of a sweep."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from hpabatch.cli import main
from hpabatch.engine.columns.simulate import MEASURES
from hpabatch.jobs.sweep_files import TABLES, read_sweep
from tests.cli.histories import data_of_a_day, last_day

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sweep.md").read_text()
SIMULATED = ("cluster", "namespace", "hpa", "setting")


def commands() -> list[str]:
    """Return the page's commands on the demo data, in its order."""
    blocks = re.findall(r"```\n(hpabatch .*?)```", PAGE, re.DOTALL)
    text = "".join(blocks).replace("\\\n", " ")
    return [line for line in text.splitlines() if line.startswith("hpabatch ")]


@pytest.mark.compiled
def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                           capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    data_of_a_day(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"```yaml (\S+\.yaml)\n(.*?)```", PAGE, re.DOTALL):
        Path(name).write_text(text)
    found = commands()
    assert len(found) >= 3
    for line in found:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as left:
            main()
        told = capsys.readouterr()
        assert left.value.code in (0, 3), (line, told.err)
    names: dict[str, Any] = {}
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(snippet, names)
    assert names["best"].height > 0


@pytest.mark.compiled
def test_every_column_of_every_table_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "sweep")
    arguments = ["--grid", "max=+1", "--where", "hpa = 'checkout'", "--for", "1h", "--out", out]
    monkeypatch.setattr(sys, "argv", ["hpabatch", "sweep", str(last_day()), *arguments])
    with pytest.raises(SystemExit):
        main()
    result = read_sweep(out)
    for name in TABLES:
        part = PAGE.partition(f"### {name}")[2].partition("\n### ")[0]
        assert part, name
        for column in getattr(result, name).columns:
            if name == "results" and column in MEASURES.names:
                continue  # (docs/output.md has them)
            if name == "settings" and column == "max":
                continue  # (one column per field)
            assert f"`{column}`" in part, (name, column)
    measures = [c for c in result.results.columns if c in MEASURES.names and c not in SIMULATED]
    assert set(measures) == set(MEASURES.names) - set(SIMULATED)
