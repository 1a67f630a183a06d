"""The commands of docs/sweep.md work when they are pasted, and its tables are those of a sweep."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from hpabatch.cli import main
from tests.cli.histories import data_of_a_day

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sweep.md").read_text()


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
