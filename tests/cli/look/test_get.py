"""`hpabatch get` at the command line: whom it shows, when, in which form, and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import polars as pl
import pytest
import yaml

from tests.cli.commands import Run, runner
from tests.engine.naive_align import Row, Tables
from tests.engine.small_history import (
    STEP,
    T0,
    hpa_row,
    pass_row,
    pod_row,
    recorder_rows,
    request_row,
    scale_row,
    start_row,
    state_row,
    usage_row,
    write_history,
)
from tests.engine.told import CPU, HITS, hits, web

AT = "--sync-period", "10s", "--phase", "0s", "--k8s", "1.38"
HOUR_AGO = T0 - 3_600_000
BORN = T0 + 3 * STEP


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner("get", capsysbinary, monkeypatch)


def api(cpu_milli: int) -> Row:
    """Return further rows of a workload `api` of one pod and its HPA, by table."""
    return {
        "pods": [pod_row("api-0")],
        "pod_states": [state_row("api-0")],
        "pod_requests": [request_row("api-0")],
        "pod_metrics": [usage_row("api-0", T0 + k * STEP, cpu_milli) for k in range(7)],
        "scales": [scale_row("api", T0 - STEP, 1)],
        "hpas": [hpa_row("api", "api", [CPU, HITS], max_replicas=9, created=BORN, valid_from=BORN)],
    }


def two_hpas() -> Tables:
    """Return tables of the HPAs `one` (60 %, from the fourth tick on 75 %) and `api` of 50 %.

    `api` is there from that tick on.
    """
    levels = [60] * 3 + [75] * 4
    usage = [
        usage_row(pod, T0 + k * STEP, level)
        for k, level in enumerate(levels)
        for pod in ("web-0", "web-1")
    ]
    tables = web(pod_metrics=usage, object_metrics=hits(250))
    tables["hpas"][0] |= {"created": HOUR_AGO}
    for name, rows in api(50).items():
        tables[name] = tables[name] + rows
    return tables


@pytest.fixture
def history(tmp_path: Path) -> Path:
    (tmp_path / "history").mkdir()
    return write_history(two_hpas(), tmp_path / "history")


# ---- what it shows -------------------------------------------------------------------------------

WIDE = """\
NAMESPACE   NAME   REFERENCE        TARGETS                   MINPODS   MAXPODS   REPLICAS   AGE
shop        api    Deployment/api   cpu: 50%/50%, 250m/100m   1         9         1          30s
shop        one    Deployment/web   cpu: 75%/50%              1         5         2          61m
"""


def test_the_table_of_all(run: Run, history: Path) -> None:
    done = run(history, *AT)
    assert (done.code, done.stderr, done.stdout) == (0, "", WIDE)


def test_of_one_namespace_the_column_is_left_out(run: Run, history: Path) -> None:
    assert run(history, "one", "-n", "shop", *AT).stdout == (
        "NAME   REFERENCE        TARGETS        MINPODS   MAXPODS   REPLICAS   AGE\n"
        "one    Deployment/web   cpu: 75%/50%   1         5         2          61m\n"
    )


def test_at_the_passes_of_a_live_loop(run: Run, tmp_path: Path) -> None:
    """The last pass came before the load rose, and before `api` was made."""
    tables = two_hpas()
    passes = [pass_row(T0 + at, start=at == 0) for at in (0, 10_007, 25_003)]
    tables |= {"passes": passes, "provenance": recorder_rows("c1")}
    folder = write_history(tables, tmp_path)
    passes_of = "--k8s", "1.38", "--instants", "passes", "-o", "csv"
    done = run(folder, "--at", "2026-10-06 23:59:29", *passes_of)
    assert (done.code, done.stderr) == (0, "")
    rows = pl.read_csv(io.BytesIO(done.data)).select("name", "targets", "age").rows()
    assert rows == [("one", "cpu: 60%/50%", "60m")]
    late = run(folder, *passes_of)
    assert late.code == 3
    assert late.stderr.startswith("skipped: shop/api: no sync of it until 2026-10-07T00:00:00Z")
    rows = pl.read_csv(io.BytesIO(late.data)).select("name", "targets").rows()
    assert rows == [("one", "cpu: 60%/50%")]


def test_json_and_yaml_are_the_objects_with_their_status(run: Run, history: Path) -> None:
    one = json.loads(run(history, "one", "-o", "json", *AT).stdout)
    assert (one["kind"], one["apiVersion"]) == ("HorizontalPodAutoscaler", "autoscaling/v2")
    assert one["metadata"] == {
        "name": "one", "namespace": "shop", "uid": "hpa-one",
        "creationTimestamp": "2026-10-06T22:59:00Z",
    }  # fmt: skip
    assert one["status"]["desiredReplicas"] == 3
    assert [c["type"] for c in one["status"]["conditions"]] == [
        "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero",
    ]  # fmt: skip
    both = json.loads(run(history, "-o", "json", *AT).stdout)
    assert (both["kind"], [item["metadata"]["name"] for item in both["items"]]) == (
        "List", ["api", "one"],
    )  # fmt: skip
    assert both["items"][1] == one
    text = run(history, "-o", "yaml", *AT).stdout
    assert list(yaml.safe_load_all(text)) == both["items"]


# ---- whom it shows -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["onn"], "onn: there is no such HPA; did you mean shop/one"),
        (["zzzzzz"], "zzzzzz: there is no such HPA; there is shop/api, shop/one"),
        (["--at", "soon"], "--at: expected a time such as 2026-10-07T14:03:00Z"),
        (
            ["--at", "2026-10-06 23:58"],
            "--at: expected a time from 2026-10-06T23:59:00Z to 2026-10-07T00:00:00Z, which the "
            "history has, got 2026-10-06T23:58:00Z",
        ),
        (
            ["--at", "2026-10-06 23:59:00.500", "--phase", "1s"],
            "no sync until 2026-10-06T23:59:00.500Z: the first is at 2026-10-06T23:59:01Z",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_shown(run: Run, history: Path, arguments: list[str], told: str) -> None:
    done = run(history, *AT, *arguments)
    assert (done.code, done.data) == (2, b"")
    assert done.stderr.startswith(f"error: {told}")
    assert done.stderr.count("\n") == 1


def test_hpas_that_are_not_there_at_the_instant(run: Run, tmp_path: Path) -> None:
    hpas = [
        hpa_row("gone", "web", [CPU], valid_to=T0 + 15_000),
        hpa_row("late", "web", [CPU], valid_from=BORN + 1),
        hpa_row("one", "web", [CPU], valid_to=T0 + 6 * STEP),
    ]
    history = write_history(web(hpas=hpas), tmp_path)

    def at(clock: str, *names: str) -> tuple[int, str, list[str]]:
        done = run(history, *names, "--at", f"2026-10-06 {clock}", *AT)
        return done.code, done.stderr, [line.split()[1] for line in done.lines[1:]]

    assert at("23:59:10") == (0, "", ["gone", "one"])
    # As kubectl, it shows of all those that there are; a name that is asked for is missed.
    assert at("23:59:15") == (0, "", ["one"])
    told = "skipped: shop/gone: there was no such HPA at 2026-10-06T23:59:15Z; "
    told += "it was there from 2026-10-06T23:57:30Z until 2026-10-06T23:59:15Z: "
    told += "choose a time with --at\n"
    assert at("23:59:15", "gone", "one") == (3, told, ["one"])
    assert at("23:59:15", "gone") == (3, told, [])
    reason = "no sync of it until 2026-10-06T23:59:31Z, so there is no status to show"
    told = f"skipped: shop/late: {reason}\n"
    assert at("23:59:31") == (3, told, ["one"])
    assert at("23:59:40") == (0, "", ["late", "one"])
    done = run(history, "--where", "hpa = 'one'", *AT)
    assert (done.code, done.data, done.stderr) == (
        0, b"", "there was no HPA at 2026-10-07T00:00:00Z\n",
    )  # fmt: skip
    empty = run(history, "--where", "hpa = 'one'", "-o", "csv", *AT).stdout
    assert empty == "cluster,namespace,name,reference,targets,minpods,maxpods,replicas,age\n"


def test_hpas_that_cannot_be_replayed(run: Run, tmp_path: Path) -> None:
    hpas = [hpa_row("one", "web", [CPU]), hpa_row("bad", "web", [CPU], max_replicas=0)]
    history = write_history(web(hpas=hpas), tmp_path)
    reason = "spec.maxReplicas: Invalid value: 0: must be greater than 0"
    done = run(history, *AT)
    assert (done.code, [line.split()[1] for line in done.lines]) == (3, ["NAME", "one"])
    assert done.stderr == f"skipped: shop/bad: the API server of 1.38 refuses it: {reason}\n"
    # Who did not ask for it is not told of it.
    assert (run(history, "one", *AT).code, run(history, "one", *AT).stderr) == (0, "")
    done = run(history, "--where", "hpa = 'one'", *AT)
    assert (done.code, done.stderr) == (0, "")
    done = run(history, "bad", *AT)
    assert (done.code, done.data) == (3, b"")
    assert done.stderr.splitlines()[0] == "error: no HPA can be replayed"
    assert done.stderr.splitlines()[1].startswith("skipped: shop/bad: ")


# ---- several clusters and versions ---------------------------------------------------------------


def clusters(folder: Path, **versions: tuple[str, ...]) -> Path:
    """Write the history of `one` once for each cluster; (version, …) are those recorded of it."""
    tables = web()
    for name, rows in tables.items():
        tables[name] = [row | {"cluster": cluster} for cluster in versions for row in rows]
    tables["controller"] = [
        start_row(T0 + k, event="observed", version=version, cluster=cluster)
        for cluster, texts in versions.items()
        for k, version in enumerate(texts)
    ]
    folder.mkdir(exist_ok=True)
    return write_history(tables, folder)


def test_every_cluster_in_the_layout_of_its_own_version(run: Run, tmp_path: Path) -> None:
    history = clusters(tmp_path, c1=("v1.26.3",), c2=("1.36.1-gke.5",), c3=())
    done = run(history, *AT[:4])
    assert (done.code, done.stderr) == (0, "")
    shown = [line.split()[3:-4] if line.startswith("shop") else line for line in done.lines]
    assert shown[::4] == ["cluster c1", "cluster c2", "cluster c3"]
    assert shown[2::4] == [["50%/50%"], ["cpu:", "50%/50%"], ["cpu:", "50%/50%"]]
    assert shown[3::4] == ["", ""]
    csv = pl.read_csv(io.BytesIO(run(history, "-o", "csv", *AT[:4]).data))
    assert csv.select("cluster", "targets").rows() == [
        ("c1", "50%/50%"), ("c2", "cpu: 50%/50%"), ("c3", "cpu: 50%/50%"),
    ]  # fmt: skip
    alone = run(history, "c1/shop/one", *AT[:4])
    assert alone.lines[0].startswith("NAMESPACE")
    told = run(history, "c4/shop/one", *AT[:4]).stderr
    assert all(f"c{k}/shop/one" in told for k in (1, 2, 3))
    # Manifests are checked by one version.
    file = tmp_path / "one.yaml"
    file.write_text(run(history, "c2/shop/one", "-o", "yaml", *AT[:4]).stdout)
    done = run(history, "--hpas", file, *AT[:4])
    assert done.code == 2
    assert "run different Kubernetes versions (1.26, 1.36, 1.37): name one with" in done.stderr
    assert run(history, "--hpas", file, *AT).lines[0] == "cluster c1"
