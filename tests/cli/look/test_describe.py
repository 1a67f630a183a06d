"""`hpabatch describe` at the command line: texts and objects at an instant, events and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Run, runner
from tests.engine.naive_align import Tables
from tests.engine.small_history import (
    STEP,
    T0,
    fetch_row,
    hpa_row,
    write_history,
)
from tests.engine.told import CPU, NOT_ZERO, WITHIN, valid, web, written

AT = "--sync-period", "10s", "--phase", "0s", "--k8s", "1.38"
METADATA: dict[str, Any] = {
    "created": T0 - 3_600_000,
    "labels": {"team": "x", "app": "web"},
    "annotations": {"note": "kept"},
}

HEAD = """\
Name:                                                  one
Namespace:                                             shop
Labels:                                                app=web
                                                       team=x
Annotations:                                           note: kept
CreationTimestamp:                                     Tue, 06 Oct 2026 22:59:00 +0000
Reference:                                             Deployment/web
Metrics:                                               ( current / target )
  resource cpu on pods  (as a percentage of request):  75% (75m) / 50%
Min replicas:                                          1
Max replicas:                                          5
Deployment pods:                                       2 current / 3 desired
Conditions:
  Type            Status  Reason              Message
  ----            ------  ------              -------
"""
ERROR = (
    "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch "
    "metrics from resource metrics API: the server is busy"
)


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Run:
    return runner("describe", capsysbinary, monkeypatch)


def failing_api() -> Tables:
    """Return tables of `one`, which wants 3 of 2 replicas but at the third and fourth tick.

    The API fails then. `two` on the same pods comes at the last tick.
    """
    fetches = [
        fetch_row("one", 0, T0 + 2 * STEP, "error") | {"error": "the server is busy"},
        fetch_row("one", 0, T0 + 4 * STEP, "ok"),
    ]
    tables = web(cpu_milli=75, metric_fetches=fetches)
    tables["hpas"] = [
        hpa_row("one", "web", [CPU], **METADATA),
        hpa_row("two", "web", [CPU], valid_from=T0 + 6 * STEP),
    ]
    return tables


@pytest.fixture
def history(tmp_path: Path) -> Path:
    (tmp_path / "history").mkdir()
    return write_history(failing_api(), tmp_path / "history")


def squeezed(lines: list[str]) -> list[list[str]]:
    """Return the cells of each line: what two or more blanks part."""
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def events_of(text: str) -> list[list[str]]:
    """Return the cells of each event."""
    lines = squeezed(text.splitlines())
    first = next(k for k, line in enumerate(lines) if line[0] == "Events:")
    return lines[first + 3 :]


def test_the_whole_text(run: Run, history: Path) -> None:
    done = run(history, "shop/one", "--at", "2026-10-06 23:59:14", *AT)
    assert (done.code, done.stderr) == (0, "")
    head, events = done.stdout.split("Events:\n")
    assert head.startswith(HEAD)
    conditions = head.removeprefix(HEAD).splitlines()
    assert squeezed(conditions) == [list(row) for row in (written(3), valid(), WITHIN, NOT_ZERO)]
    assert {line.index("the ") for line in conditions} == {HEAD.splitlines()[-2].index("Message")}
    assert squeezed(events.splitlines()) == [
        ["Type", "Reason", "Age", "From", "Message"],
        ["----", "------", "----", "----", "-------"],
        [
            "Normal", "SuccessfulRescale", "4s (x2 over 14s)", "horizontal-pod-autoscaler",
            "New size: 3; reason: cpu resource utilization (percentage of request) above target",
        ],
    ]  # fmt: skip


def test_a_metric_that_fails(run: Run, history: Path) -> None:
    done = run(history, "one", "--at", "2026-10-06 23:59:35", *AT)
    lines = squeezed(done.lines)
    assert ["resource cpu on pods", "(as a percentage of request):", "<unknown> / 50%"] in lines
    assert ["Deployment pods:", "2 current / 3 desired"] in lines
    message = f"the HPA was unable to compute the replica count: {ERROR}"
    assert ["ScalingActive", "False", "FailedGetResourceMetric", message] in lines
    assert [line[:3] for line in events_of(done.stdout)] == [
        ["Normal", "SuccessfulRescale", "25s (x2 over 35s)"],
        ["Warning", "FailedGetResourceMetric", "5s (x2 over 15s)"],
        ["Warning", "FailedComputeMetricsReplicas", "5s (x2 over 15s)"],
    ]


@pytest.mark.parametrize(
    ("back", "counts"), [("1h", [5, 2, 2]), ("40s", [1, 1, 3]), ("1ms", [1]), ("0s", [])]
)
def test_events_of_the_last_time(run: Run, history: Path, back: str, counts: list[int]) -> None:
    # It rescales at all ticks but the third and fourth, at 40 s and 30 s before the last.
    done = run(history, "one", "--events-for", back, "-o", "json", *AT)
    (item,) = json.loads(done.stdout)["items"]
    assert sorted(event["count"] for event in item["events"]) == sorted(counts)
    text = run(history, "one", "--events-for", back, *AT).stdout
    if counts:
        assert len(events_of(text)) == len(counts)
    else:
        assert text.splitlines()[-1].split() == ["Events:", "<none>"]


def test_json(run: Run, history: Path) -> None:
    done = run(history, "one", "two", "--at", "2026-10-07", "-o", "json", *AT)
    assert (done.code, done.stderr) == (0, "")
    one, two = json.loads(done.stdout)["items"]
    assert list(one) == ["cluster", "sync", "k8s", "hpa", "error", "events"]
    assert (one["cluster"], one["sync"], one["k8s"]) == ("c1", "2026-10-07T00:00:00Z", "1.38")
    assert one["hpa"]["metadata"]["annotations"] == {"note": "kept"}
    text = "pods by selector app=web are controlled by more than one HPA (e.g. [shop/one shop/two])"
    # The first of both does not know of the other yet.
    assert one["error"] is None
    assert two["error"] == (
        "failed to compute desired number of replicas based on listed metrics for "
        f"Deployment/shop/web: {text}"
    )
    assert two["events"][0] == {
        "type": "Warning", "reason": "AmbiguousSelector", "message": text, "count": 1,
        "firstTimestamp": "2026-10-07T00:00:00Z", "lastTimestamp": "2026-10-07T00:00:00Z",
    }  # fmt: skip
    early = run(history, "one", "--at", "2026-10-06 23:59:25", "-o", "json", *AT)
    (item,) = json.loads(early.stdout)["items"]
    assert item["error"].endswith(ERROR)
    assert item["sync"] == "2026-10-06T23:59:20Z"


def test_several_are_parted_as_kubectl_parts_them(run: Run, history: Path) -> None:
    both = run(history, "one", "two", *AT).stdout
    one, two = (run(history, name, *AT).stdout for name in ("one", "two"))
    assert both == f"{one}\n\n{two}"
    assert one.endswith("\n")


def test_hpas_that_are_not_there_at_the_instant(run: Run, history: Path) -> None:
    done = run(history, "one", "two", "--at", "2026-10-06 23:59:30", *AT)
    assert done.code == 3
    told = "skipped: shop/two: there was no such HPA at 2026-10-06T23:59:30Z; it was there from "
    assert done.stderr == told + "2026-10-07T00:00:00Z: choose a time with --at\n"
    assert done.stdout.count("Name: ") == 1
    done = run(history, "two", "--at", "2026-10-06 23:59:30", "-o", "json", *AT)
    assert (done.code, json.loads(done.stdout)) == (3, {"items": []})
    assert run(history, "two", "--at", "2026-10-06 23:59:30", *AT).data == b""


def test_texts_that_no_terminal_can_show(run: Run, tmp_path: Path) -> None:
    # JSON can hold half a character, which no encoding has; Go's decoder replaces it.
    hpa = hpa_row("one", "web", [CPU], labels={"a": "\ud800"}, annotations={"b": "x\x1b[2Jy"})
    history = write_history(web(hpas=[hpa]), tmp_path)
    done = run(history, "one", *AT)
    assert done.code == 0
    assert ["Labels:", "a=\ufffd"] in squeezed(done.lines)
    assert "\x1b" not in done.stdout
    (item,) = json.loads(run(history, "one", "-o", "json", *AT).stdout)["items"]
    assert item["hpa"]["metadata"]["labels"] == {"a": "\ufffd"}


def test_warnings_of_the_recordings_beginning_are_doubted(run: Run, tmp_path: Path) -> None:
    """Without the samples of before, the first syncs find no metrics."""
    tables = web(cpu_milli=75)
    tables["hpas"] = [hpa_row("one", "web", [CPU], **METADATA)]
    other = tables["pod_metrics"][0] | {"target": "db", "uid": "db-0"}
    late = [row for row in tables["pod_metrics"] if row["ts"] > T0 + 2 * STEP]
    tables["pod_metrics"] = [other, *late]
    (tmp_path / "history").mkdir()
    history = write_history(tables, tmp_path / "history")
    done = run(history, *AT)
    assert ["Warning", "FailedGetResourceMetric"] in [line[:2] for line in events_of(done.stdout)]
    assert done.stderr.startswith("note: warnings of the first syncs (from 2026-10-06T23:5")
    assert "of one may be of the recording only" in done.stderr.replace("shop/", "")
    assert run(history, "--events-for", "1ms", *AT).stderr == ""
