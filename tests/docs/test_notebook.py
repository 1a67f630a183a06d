"""The notebook runs as it stands, in a kernel of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.cli.histories import data_of_a_day

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def notebook() -> Any:
    return nbformat.read(DOCS / "notebook.ipynb", as_version=4)  # type: ignore[no-untyped-call]


def code(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_it_is_kept_without_output(notebook: Any) -> None:
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code(notebook))
    assert len(code(notebook)) <= 8


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore")  # of the kernel's own packages
def test_every_cell_runs_and_shows_something(notebook: Any, tmp_path: Path) -> None:
    from nbclient import NotebookClient

    data_of_a_day(tmp_path / "data")
    (tmp_path / "docs").mkdir()
    place = {"metadata": {"path": str(tmp_path / "docs")}}
    client = NotebookClient(notebook, timeout=120, resources=place)
    client.execute()
    shown = ["".join(str(output) for output in cell.outputs) for cell in code(notebook)]
    assert all(shown)
    assert "minReplicas = maxReplicas = 4: it can never act" in shown[2]
    assert "forced" not in shown[3]
    assert "max_replicas" in shown[3]
