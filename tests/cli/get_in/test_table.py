"""`hpabatch import table` at the command line: rows on stdout, talk on stderr, exit codes."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.commands import Run, runner
from tests.importers.tables import BEGIN_S, POD_MAP, merged, write_csv, write_map

HEAD = "ts,app,pod,cpu,mem\n"
ROWS = "".join(f"{BEGIN_S + 30 * k},cart,cart-{k % 2},0.25,1000\n" for k in range(10))


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the command in this process, as the program would."""
    return runner("import", capfdbinary, monkeypatch)


@pytest.fixture
def table(tmp_path: Path) -> tuple[str, Path]:
    content = merged(POD_MAP, {"hpas": {"template": {"max": 5, "cpu": "50%"}}})
    return write_csv(tmp_path, HEAD + ROWS + "x,cart,cart-1,1,1\n"), write_map(tmp_path, content)


def test_an_import_tells_what_it_did_and_assumed(
    run: Run, tmp_path: Path, table: tuple[str, Path]
) -> None:
    source, path = table
    done = run("table", source, "--map", path, "--out", tmp_path / "h", "-v")
    assert done.code == 0, done.stderr
    talk = done.stderr
    assert "assumed: container 'app' (no columns.container)" in talk
    assert "assumed: an HPA's minReplicas is 1" in talk
    assert "left out: 1 row: no such time (the first is row " in talk
    assert "2 pods, " in talk
    assert talk.endswith(f"\nnext: hpabatch replay {tmp_path / 'h'}\n")
    lines = done.lines
    assert lines[0].split() == [
        "CLUSTER", "NAMESPACE", "KIND", "TARGET", "PODS", "REPLICAS_MIN", "REPLICAS_MAX",
        "CHANGES", "HPA",
    ]  # fmt: skip
    assert lines[1].split()[:5] == ["default", "shop", "Deployment", "cart", "2"]


def test_an_import_without_hpas_tells_how_to_replay_it(run: Run, tmp_path: Path) -> None:
    source, path = write_csv(tmp_path, HEAD + ROWS), write_map(tmp_path, POD_MAP)
    done = run("table", source, "--map", path, "--out", tmp_path / "h")
    replay = f"hpabatch replay {tmp_path / 'h'} --hpas hpas.yaml"
    assert done.stderr.endswith(f"next: kubectl get hpa -A -o yaml > hpas.yaml; {replay}\n")


def test_every_form_of_output(run: Run, tmp_path: Path, table: tuple[str, Path]) -> None:
    source, path = table
    for form in ("json", "csv", "parquet"):
        done = run("table", source, "--map", path, "--dry-run", "-o", form)
        assert done.code == 0, done.stderr
        if form == "json":
            found = json.loads(done.stdout)
            assert found["dropped"] == {"no such time": 1}
            assert found["dry_run"] is True
            assert found["first_rows"]["pod_metrics"][0]["cpu_milli"] == 250
            assert any(text.startswith("lives.keep") for text in found["assumed"])
        else:
            read = pl.read_csv if form == "csv" else pl.read_parquet
            assert read(io.BytesIO(done.data))["pods"].to_list() == [2]
    assert sorted(item.name for item in tmp_path.iterdir()) == ["map.yaml", "usage.csv"]


def test_a_dry_run_shows_first_rows(run: Run, table: tuple[str, Path]) -> None:
    source, path = table
    done = run("table", source, "--map", path, "--dry-run")
    assert "first rows of pod_metrics (-v: of all tables):" in done.stdout
    assert "nothing is written (--dry-run); it would be 2 pods" in done.stderr
    assert done.stderr.endswith(
        "\nnext: the same command with --out history/ instead of --dry-run\n"
    )


def test_refusals_and_their_exit_codes(run: Run, tmp_path: Path, table: tuple[str, Path]) -> None:
    source, path = table
    bad = write_map(tmp_path, {"level": "pod"}, "bad.yaml")
    out = tmp_path / "h"
    for code, told, arguments in (
        (2, "expected a mapping of at least time", [source, "--map", bad]),
        (2, "no such file", [tmp_path / "none.csv", "--map", path]),
        (2, "cannot be read: No such file", [source, "--map", tmp_path / "none.yaml"]),
    ):
        done = run("table", *arguments, "--out", out)
        assert done.code == code
        assert done.stderr.startswith("error: ")
        assert told in done.stderr
    for arguments in ([], ["--out", out, "--dry-run"]):
        done = run("table", source, "--map", path, *arguments)
        assert done.code == 2
        assert "--out, or only look with --dry-run" in done.stderr


def test_other_rows_are_replaced_only_if_asked(
    run: Run, tmp_path: Path, table: tuple[str, Path]
) -> None:
    source, path = table
    assert run("table", source, "--map", path, "--out", tmp_path / "h").code == 0
    write_csv(tmp_path, HEAD + ROWS.replace("0.25", "0.5"))
    done = run("table", source, "--map", path, "--out", tmp_path / "h")
    assert (done.code, done.data) == (3, b"")
    assert "other rows of the same workloads: 10 samples of shop/cart from" in done.stderr
    assert done.stderr.endswith("name another store, or replace them with --replace\n")
    assert run("table", source, "--map", path, "--out", tmp_path / "h", "--replace").code == 0


def test_an_interruption_says_how_to_go_on(
    run: Run, tmp_path: Path, table: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("hpabatch.importers.table.run.import_table", stop)
    done = run("table", table[0], "--map", table[1], "--out", tmp_path / "h")
    assert done.code == 130
    assert "files that were read to their end are kept, and what was written; repeat" in done.stderr


def test_init_proposes_a_map_and_the_next_command(run: Run, tmp_path: Path) -> None:
    source = write_csv(tmp_path, HEAD + ROWS)
    place = tmp_path / "new map.yaml"
    done = run("table", source, "--init")
    assert done.code == 0
    assert done.stdout.startswith("# Proposed by hpabatch import table --init from all 10 rows")
    assert done.stdout.endswith("\n")
    assert "save it: repeat the command with --map map.yaml" in done.stderr
    text = done.stdout
    done = run("table", source, "--init", "--map", place)
    assert (done.code, done.stdout) == (0, "")
    assert place.read_text() == text
    assert f"next: hpabatch import table {source} --map '{place}' --dry-run" in done.stderr
    assert run("table", source, "--map", place, "--dry-run").code == 0
    for told, arguments in (
        ("--init replaces no map", ["--init", "--map", place]),
        ("--init and --out: expected one of them", ["--init", "--out", tmp_path / "h"]),
        ("--init and --dry-run: expected one of them", ["--init", "--dry-run"]),
        ("a map is YAML; leave --output out", ["--init", "-o", "json"]),
        ("`hpabatch import table INPUT --init` proposes one", ["--dry-run"]),
    ):
        done = run("table", source, *arguments)
        assert (done.code, done.stdout) == (2, "")
        assert told in done.stderr


def test_a_preview_fits_a_screen(run: Run, tmp_path: Path) -> None:
    """Also of many workloads, with long names; -v shows all of it."""
    names = [f"{'service-with-a-long-name' * 3}-{k}" for k in range(40)]
    rows = [f"{BEGIN_S + 30 * m},{name},{name}-{'x' * 9},0.25,1000\n"
            for m in range(3) for name in names]  # fmt: skip
    content = merged(POD_MAP, {"hpas": {"template": {"max": 5, "cpu": "50%"}}})
    content["columns"]["workload"] = {"sql": "TRIM(" * 30 + "app" + ")" * 30}
    source, path = write_csv(tmp_path, HEAD + "".join(rows)), write_map(tmp_path, content)
    done = run("table", source, "--map", path, "--dry-run")
    assert done.code == 0
    assert len(done.lines) + len(done.stderr.splitlines()) <= 24
    assert done.stderr.count("assumed:") == 1
    assert "and 37 more: --output csv shows all" in done.stdout
    whole = run("table", source, "--map", path, "--dry-run", "-v")
    assert whole.stderr.count("assumed:") > 5
    assert "first rows of pod_states:" in whole.stdout
    assert len(whole.lines) > 50
    assert len(run("table", source, "--map", path, "--dry-run", "-o", "csv").lines) == 41
