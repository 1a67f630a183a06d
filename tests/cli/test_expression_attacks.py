"""Conditions and computed columns open nothing: no file, no FIFO, no connection."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpabatch.cli import main
from tests.cli.histories import last_day
from tests.importers.tables import POD_MAP, merged, write_map

TABLE = "ts,app,pod,cpu,mem\n1790000000,web,web-1,0.1,1000\n"


class Traps:
    """A FIFO and an HTTP server that note whether anybody opens them."""

    def __init__(self, folder: Path) -> None:
        self.fifo = folder / "fifo.csv"
        self.opened: list[str] = []
        os.mkfifo(self.fifo)
        traps = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                traps.opened.append(self.path)
                self.send_error(404)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/x"
        self.threads = [
            threading.Thread(target=self.server.serve_forever),
            threading.Thread(target=self._write),
        ]
        for thread in self.threads:
            thread.start()

    def _write(self) -> None:
        """Wait for a reader; the reader of the end is the test itself."""
        with self.fifo.open("w"):
            self.opened.append("fifo")

    def close(self) -> list[str]:
        """Return what was opened before."""
        found = list(self.opened)
        os.close(os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK))
        self.server.shutdown()
        self.server.server_close()
        for thread in self.threads:
            thread.join()
        return found


@pytest.fixture
def traps(tmp_path: Path) -> Iterator[Traps]:
    made = Traps(tmp_path)
    yield made
    assert made.close() == []


def attacks(traps: Traps) -> dict[str, str]:
    """Return expressions, each with a part of its message."""
    subquery = "subqueries and tables are not possible"
    found = {
        f"NULL IN (SELECT * FROM read_csv('{traps.fifo}'))": subquery,
        f"NULL IN (SELECT * FROM read_csv('{traps.url}.csv'))": subquery,
        f"NULL IN (SELECT * FROM read_parquet('{traps.url}.parquet'))": subquery,
        f"EXISTS (SELECT 1 FROM '{traps.fifo}')": subquery,
        f"(SELECT 1 FROM read_json('{traps.url}.json')) = 1": subquery,
        f"NULL = ANY(SELECT * FROM read_csv('{traps.fifo}'))": "unknown function 'ANY'",
        f"read_csv('{traps.fifo}')": "unknown function 'read_csv'",
        f"NULL = 1 UNION SELECT * FROM read_csv('{traps.fifo}')": "got 'UNION'",
        "LPAD(x, 2000000000, 'x') = 'x'": "unknown function 'LPAD'",
        "(" * 50_000: "levels of nesting",
        "x" * 1_000_000: "xxx",
        "NULL = '": "the end of the string",
        "NULL /*": "the end of the comment",
        "NULL\x00": "unexpected character '\\x00'",
        "SUM(x) > 1": "it looks at other rows",
        "+".join(["1"] * 8000) + " > 1": "400 operators",
    }  # fmt: skip
    return found


def refusal(
    capfd: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch, *arguments: object
) -> str:
    patch.setattr("sys.argv", ["hpabatch", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        main()
    told = capfd.readouterr()
    assert left.value.code == 2
    assert told.out == ""
    assert len(told.err) < 2000
    return told.err


Place = Callable[[Path, str], list[object]]


def where_option(folder: Path, text: str) -> list[object]:
    return ["replay", last_day(), "--out", folder / "out.parquet", "--where", text]


def plant(folder: Path, text: str) -> list[object]:
    path = folder / "plant.yaml"
    path.write_text(yaml.safe_dump([{"where": text, "capacity": "80% of request"}]))
    return ["fit", last_day(), "--plant", path, "--where", "hpa = 'etl'"]


def scenario(folder: Path, text: str) -> list[object]:
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump([{"where": text, "growth": 2}]))
    return ["simulate", last_day(), "--scenario", path, "--where", "hpa = 'etl'", "--for", "10m"]


def map_where(folder: Path, text: str) -> list[object]:
    return _import(folder, {"where": text})


def map_sql(folder: Path, text: str) -> list[object]:
    return _import(folder, {"columns": {"workload": {"sql": text}}})


def _import(folder: Path, said: dict[str, Any]) -> list[object]:
    (folder / "usage.csv").write_text(TABLE)
    path = write_map(folder, merged(POD_MAP, said))
    return ["import", "table", folder / "usage.csv", "--map", path, "--out", folder / "history"]


@pytest.mark.parametrize("place", [where_option, plant, scenario, map_where, map_sql])
def test_nothing_is_opened(
    place: Place,
    traps: Traps,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = {path.name for path in tmp_path.iterdir()}
    everywhere = place in (where_option, map_where)
    texts = attacks(traps)
    if not everywhere:  # the others share the parser; each still has one of a kind
        texts = dict(list(texts.items())[:3])
    for text, told in texts.items():
        said = refusal(capfd, monkeypatch, *place(tmp_path, text))
        assert told in said
        assert "at character" in said or "has no column" in said
    # A fault that shows at the first rows leaves what an import can be resumed from.
    new = {path.name for path in tmp_path.iterdir() if "history" not in path.name} - left
    assert new <= {"plant.yaml", "scenario.yaml", "usage.csv", "map.yaml"}
