"""`hpabatch replay` at the command line: what it writes, says and refuses."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from hpabatch.jobs.parquet import EVIDENCE_KEY
from tests.cli.commands import Run, runner
from tests.cli.histories import (
    DEMO,
    MANIFESTS,
    START,
    drop_rows,
    edit,
    small,
    table,
)

PROGRAM = [sys.executable, "-c", "from hpabatch.cli import main; main()", "replay"]


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner("replay", capsysbinary, monkeypatch)


@pytest.fixture
def history(tmp_path: Path) -> Path:
    return small(tmp_path / "history")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "decisions.parquet"


def leftovers(out: Path) -> list[str]:
    """Return what lies beside --out, finished or not."""
    return sorted(p.name for p in out.parent.iterdir()) if out.parent.exists() else []


# ---- what it writes ------------------------------------------------------------------------------


# The badly set HPAs of the demo, each with words of its rule.
WORST = {
    "platform/audit": "the selector is ambiguous: audit, audit-memory scale",
    "ingest/enricher": "metrics invalid for 504 h",
    "payments/settlement": "metrics invalid for 504 h, in which it could not act: missing resource",
    "search/ranker": "a metric failed for 504 h",
    "payments/ledger": "minReplicas = maxReplicas",
    "search/crawler": "scaling down is disabled",
    "batch/etl": "maxReplicas 6 held it for",
    "shop/web-assets": "minReplicas 8 held it",
    "shop/sessions": "never asked for fewer",
    "payments/api": "maxReplicas 8 held it for",
    "search/suggest": "changed its direction",
    "payments/gateway": "within the tolerance, and its metrics never asked for more",
}


@pytest.mark.compiled
def test_the_demo(run: Run, out: Path) -> None:
    done = run(DEMO, "--out", out, "--top", "12")
    assert done.code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("31 HPAs, 3,749,729 decisions: 99.9% match the recorded size")
    assert ", from 2026-09-17T00:00:00Z to 2026-10-07T23:59:30Z" in lines[2]
    assert any(
        line.startswith("rules of Kubernetes 1.38 (proved against upstream's code)")
        for line in lines
    )
    assert "… and 11 more: --output csv shows all" in lines
    worst = [re.fullmatch(r" ?\d+  (\S+) +(.*)", line) for line in lines]
    told = {found[1]: found[2] for found in worst if found}
    assert next(iter(told)) == "platform/audit"
    assert told.keys() == WORST.keys()
    assert [hpa for hpa, words in WORST.items() if words not in told[hpa]] == []
    assert lines[-3] == f"decisions: {out}"
    assert lines[-2].startswith(
        "in short: the rules decide what was recorded; look at platform/audit first: the selector "
    )
    assert lines[-1] == f"next: hpabatch explain {DEMO} platform/audit"
    assert "\x1b" not in done.stdout
    assert (
        "search/ranker: Pods metric gpu_utilization: no sample of it (for the pods of its target)"
        in done.stderr
    )
    assert leftovers(out) == [out.name]

    written = pl.read_parquet(out)
    assert written.height == 3_749_729
    assert written.columns[:4] == ["cluster", "namespace", "hpa", "ts"]
    assert (key := written[:, :4]).equals(key.sort(key.columns))
    evidence = json.loads(pl.read_parquet_metadata(out)[EVIDENCE_KEY])
    assert evidence["k8s"] == "1.38"
    assert evidence["max_age"] == "150000 ms (estimated)"
    assert len(evidence["sha256:pod_metrics"]) == 64


# ---- manifests -----------------------------------------------------------------------------------


def test_manifests_instead_of_recorded_hpas(run: Run, out: Path, tmp_path: Path) -> None:
    history = small(tmp_path / "history", "shop")
    (history / "hpas.parquet").unlink()
    done = run(history, "--hpas", MANIFESTS / "shop.yaml", "--out", out, "-o", "json")
    assert done.code == 0, done.stderr
    assert {h["hpa"] for h in json.loads(done.stdout)["hpas"]} >= {"cart", "web-assets"}


def test_a_bad_manifest_does_not_stop_the_others(run: Run, out: Path, tmp_path: Path) -> None:
    history = small(tmp_path / "history", "batch")
    text = (MANIFESTS / "batch.yaml").read_text()
    bad = tmp_path / "bad.yaml"
    bad.write_text(re.sub(r"maxReplicas: \d+", "maxReplicas: 0", text, count=1))
    done = run(history, "--hpas", bad, "--out", out, "-o", "json")
    assert done.code == 3
    assert "bad.yaml:" in done.stderr
    assert "spec.maxReplicas: Invalid value: 0: must be greater than 0" in done.stderr
    assert len(json.loads(done.stdout)["hpas"]) == 4
    (tmp_path / "broken.yaml").write_text("a: [")
    done = run(history, "--hpas", bad, "--hpas", tmp_path / "broken.yaml", "--out", out)
    assert done.code == 2  # wins over 3
    assert "broken.yaml:" in done.stderr
    assert out.exists()


def test_a_manifest_given_twice_counts_once(run: Run, history: Path, out: Path) -> None:
    file = MANIFESTS / "batch.yaml"
    done = run(history, "--hpas", file, "--hpas", file, "--out", out)
    assert done.code == 3
    assert re.search(r"batch.yaml:\d+: batch/etl: given twice, first at .*: only that", done.stderr)
    assert pl.read_parquet(out).height == 395


@pytest.mark.parametrize(("text", "code"), [("a: [", 2), ("kind: Service", 2), (None, 2)])
def test_no_manifest_at_all(
    run: Run, history: Path, out: Path, tmp_path: Path, text: str | None, code: int
) -> None:
    path = tmp_path / "none.yaml"
    if text is not None:
        path.write_text(text)
    done = run(history, "--hpas", path, "--out", out)
    assert done.code == code
    assert f"error: --hpas {path}: no HPA to replay; nothing is written" in done.stderr
    assert leftovers(out) == []


# ---- bad histories -------------------------------------------------------------------------------


def no_samples(history: Path) -> None:
    for file in history.glob("*_metrics.parquet"):
        drop_rows(history, file.stem, pl.lit(value=True))


BREAK: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "missing table": (
        lambda h: (h / "pods.parquet").unlink(),
        ("the table pods (a pod's life) is missing", "add pods.parquet"),
    ),
    "NaN": (
        lambda h: edit(h, "pod_metrics", cpu_milli=pl.lit(float("nan"))),
        ("pod_metrics.parquet", "cpu_milli", "NaN"),
    ),
    "no samples": (
        no_samples,
        ("the history holds no sample of any metric, so there is nothing to replay",),
    ),
}


@pytest.mark.parametrize("name", BREAK)
def test_a_broken_history(run: Run, history: Path, out: Path, name: str) -> None:
    breaking, told = BREAK[name]
    breaking(history)
    done = run(history, "--out", out)
    assert done.code == 2
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1].startswith("error: ")
    for text in told:
        assert text in done.stderr
    assert leftovers(out) == []


def test_an_hpa_without_history(run: Run, history: Path, out: Path) -> None:
    drop_rows(history, "scales", pl.col("target") == "etl")
    done = run(history, "--out", out, "-o", "json")
    assert done.code == 3
    assert "skipped: demo/batch/etl: its target Deployment/etl has no row in the" in done.stderr
    assert [s["hpa"] for s in json.loads(done.stdout)["skipped"]] == ["etl"]
    assert "etl" not in pl.read_parquet(out)["hpa"]


# ---- bad arguments -------------------------------------------------------------------------------


def test_without_out_the_summary_is_the_same(run: Run, history: Path, out: Path) -> None:
    kept, told = run(history, "--out", out, "-o", "csv"), run(history, "-o", "csv")
    assert (told.code, told.stdout) == (0, kept.stdout)
    assert "decisions: not kept; --out FILE keeps them" in run(history).stdout
    assert not list(Path(tempfile.gettempdir()).glob("hpabatch-replay-*"))


def test_out_is_checked_before_anything_is_read(run: Run, history: Path) -> None:
    before = (history / "hpas.parquet").read_bytes()
    edit(history, "pod_metrics", cpu_milli=pl.lit(-5))
    done = run(history, "--out", history / "hpas.parquet")
    assert done.code == 2
    assert "is in the input table hpas" in done.stderr
    assert (history / "hpas.parquet").read_bytes() == before


# ---- interruptions and terminals -----------------------------------------------------------------


def on_terminal(arguments: list[str], columns: int) -> tuple[int, str]:
    """Run the command with stdout and stderr on a terminal; return exit code and all it showed."""
    parent, child = pty.openpty()
    environment = os.environ | {"COLUMNS": str(columns), "LINES": "24", "TERM": "xterm"}
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdin=child, stdout=child, stderr=child, env=environment
    )
    os.close(child)
    shown = b""
    while True:
        try:
            part = os.read(parent, 1 << 16)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(parent)
    return process.wait(timeout=60), shown.decode()


def test_a_terminal_of_80_columns(history: Path, out: Path) -> None:
    code, shown = on_terminal([str(history), "--out", str(out)], 80)
    assert code == 0, shown
    assert "\x1b[1m" in shown
    after = shown[shown.index("5 HPAs") :]
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", after).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("batch/thumbnails") for line in lines)


# ---- versions ------------------------------------------------------------------------------------


def without_zero(history: Path) -> None:
    """Leave out the HPA whose minReplicas 0 no version before 1.37 takes."""
    drop_rows(history, "hpas", pl.col("name") == "thumbnails")
    drop_rows(history, "scales", pl.col("target") == "thumbnails")


def test_clusters_of_different_versions(
    run: Run, history: Path, out: Path, monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:  # fmt: skip
    for file in history.glob("*.parquet"):
        rows = pl.read_parquet(file)
        moved = rows.with_columns(cluster=pl.lit("other"))
        if file.stem == "controller":
            rows = rows.with_columns(version=pl.lit("1.32.2"))
            moved = moved.with_columns(version=pl.lit("1.38"))
        pl.concat([rows, moved]).write_parquet(file)
    without_zero(history)
    done = run(history, "--out", out)
    assert (done.code, done.stderr) == (0, "")
    assert "\nrules of Kubernetes 1.32, 1.38 (1.32 from sources; 1.38 proved)" in done.stdout
    frame = pl.read_parquet(out)
    for cluster, k8s in (("demo", "1.32"), ("other", "1.38")):
        mine = out.with_name(f"{cluster}.parquet")
        alone = run(history, "--out", mine, "--k8s", k8s, "--where", f"cluster = '{cluster}'")
        assert alone.code == 0
        assert pl.read_parquet(mine).equals(frame.filter(pl.col("cluster") == cluster))
    sentence = "run different Kubernetes versions (1.32, 1.38): name one with --k8s, or take"
    refused = run(history, "--hpas", MANIFESTS / "batch.yaml", "--out", out)
    assert refused.code == 2
    assert sentence in refused.stderr
    refused = runner("simulate", capsysbinary, monkeypatch)(history)
    assert (refused.code, sentence in refused.stderr) == (2, True)


# ---- on request ---------------------------------------------------------------------------------


def test_score(run: Run, history: Path, out: Path) -> None:
    done = run(history, "--out", out, "--score", "-o", "json")
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    assert [h["hpa"] for h in found["score"]["hpas"]] == [h["hpa"] for h in found["hpas"]]
    alone = run(history, "--out", out.with_name("alone.parquet"), "-o", "json")
    assert json.loads(alone.stdout)["hpas"] == found["hpas"]
    assert out.read_bytes() == out.with_name("alone.parquet").read_bytes()
    table_form = run(history, "--out", out, "--score").stdout
    assert "Controller score: " in table_form


def test_the_passes_of_a_live_loop(run: Run, history: Path, out: Path) -> None:
    done = run(history, "--out", out, "--instants", "passes")
    assert done.code == 2
    assert "no passes of a live loop were recorded" in done.stderr
    cluster = table(history, "scales")["cluster"][0]
    at = [START + timedelta(seconds=s, milliseconds=7) for s in (60, 75, 91, 600)]
    times = pl.Series(at, dtype=pl.Datetime("ms", "UTC"))
    rows = pl.DataFrame({"cluster": cluster, "ts": times, "start": [True, False, False, True]})
    rows.write_parquet(history / "passes.parquet")
    row = {"cluster": cluster, "subject": "pod_metrics", "valid_from": times[0], "valid_to": None}
    types: dict[str, Any] = dict.fromkeys(("cluster", "subject", "method"), pl.String())
    types |= dict.fromkeys(("valid_from", "valid_to"), pl.Datetime("ms", "UTC"))
    told = pl.DataFrame([row | {"method": "recorder"}], schema=types)
    told.write_parquet(history / "provenance.parquet")
    done = run(history, "--out", out, "--instants", "passes", "-o", "json")
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["evidence"]["max_age"] == "none (recorded)"
    assert found["evidence"]["instants"].startswith("passes of a live loop for 5 of 5 HPAs")
    written = pl.read_parquet(out)
    assert written["ts"].unique().sort().to_list() == at
    assert written.height == 4 * written["hpa"].n_unique()
    shown = run(history, "--out", out, "--instants", "passes")
    assert "max age none (recorded)" in shown.stdout
    idle = run(
        history, "--out", out, "--instants", "passes", "--sync-period", "30s", "--phase", "1s"
    )
    assert "for 5 of 5 HPAs; without effect: sync period, phase" in idle.stdout
