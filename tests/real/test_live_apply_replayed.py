"""`hpabatch live --apply` scales as a replay of its own recording says."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

import hpabatch
from hpabatch.history.reader import open_history
from tests.real.api_writes import Json
from tests.real.applying import Applying, Ground, queue_metric
from tests.real.cluster import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

SPACE = "load"
EVERY_MS = 2000
LEVELS = (300, 290, 120, 400, 10)
PASSES_A_LEVEL = 2
PODS = 3
"""Of every target at first: what the first level asks for."""


def _rules(up: Json, down: Json) -> Json:
    return {"behavior": {"scaleUp": up, "scaleDown": down}}


def _policies(window_s: int, *policies: tuple[str, int, int], select: str = "Max") -> Json:
    listed = [{"type": t, "value": v, "periodSeconds": s} for t, v, s in policies]
    return {"stabilizationWindowSeconds": window_s, "policies": listed, "selectPolicy": select}


# No window or period is a multiple of the time between passes, which come some ms early or late.
SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bounded": {"minReplicas": 3, "maxReplicas": 12},
    "slow": _rules(_policies(0, ("Pods", 2, 5)), _policies(0, ("Pods", 1, 3))),
    "shares": _rules(
        _policies(3, ("Percent", 50, 5), ("Pods", 3, 7), select="Min"),
        _policies(7, ("Percent", 30, 7), ("Pods", 4, 3)),
    ),
    "up": _rules(_policies(3, ("Percent", 100, 5)), {"selectPolicy": "Disabled"}),
}


@pytest.fixture(scope="module")
def ground(scaled: Ground) -> Ground:
    scaled.namespaces(SPACE)
    return scaled


class Run(NamedTuple):
    """A loop's own recording; by HPA and instant of a pass the size after it."""

    store: Path
    sizes: dict[str, dict[datetime, int]]


@pytest.fixture(scope="module")
def run(ground: Ground, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return what an applying loop did under a load in steps."""
    folder = tmp_path_factory.mktemp("run")
    for name, spec in SPECS.items():
        ground.deployment(SPACE, name, PODS)
        spec = {"maxReplicas": 60, "metrics": [queue_metric("10")], **spec}
        ground.document(folder / "hpas", SPACE, name, **spec)
    ground.levels(external={"queue": 10 * PODS})
    one = Applying(
        folder / "one", ground.writer.folder / "kubeconfig", "--manifests", str(folder / "hpas"),
        "--flag=downscale-stabilization=5s", "--lease=30s",  # (nobody else wants it)
        every=f"{EVERY_MS}ms", store=folder / "store",
    )  # fmt: skip
    try:
        one.until(one.leads)
        for level in LEVELS:
            _wait_for_passes(one, PASSES_A_LEVEL)
            ground.levels(external={"queue": level})
        _wait_for_passes(one, PASSES_A_LEVEL)
        assert one.end()[0] == 0
    finally:
        one.kill()
    assert one.logged("failed") == []
    return Run(folder / "store", _sizes(one, folder / "store"))


def _wait_for_passes(one: Applying, count: int) -> None:
    """Wait until some passes are over and the next is far: each sees one level only."""
    end = one.metrics()["hpabatch_passes_total"] + count
    one.until(lambda: one.metrics()["hpabatch_passes_total"] >= end)
    time.sleep(0.3 * EVERY_MS / 1000)


def _sizes(one: Applying, store: Path) -> dict[str, dict[datetime, int]]:
    """Return the sizes after every pass: those of the log of writes, all of which were made."""
    passes = open_history(store).read("passes")["ts"].to_list()
    found = {}
    for name in SPECS:
        size, of = PODS, {}
        written = {
            int(w["id"].partition("-")[0]): w for w in one.logged("will") if w["hpa"] == name
        }
        for at in passes:
            line = written.pop(round(1000 * at.timestamp()), None)
            if line is not None:
                assert line["from"] == size
                size = line["to"]
            of[at] = size
        assert not written
        found[name] = of
    return found


def test_each_decision_is_that_of_a_replay(run: Run) -> None:
    """At the same instants, from what the loop saw."""
    decided = hpabatch.open(run.store).replay(instants="passes", events="decided").decisions
    first = min(decided["ts"])  # in which it only looks
    for name in SPECS:
        rows = decided.filter((pl.col("hpa") == name) & (pl.col("ts") > first))
        again = dict(zip(rows["ts"], rows["desired"], strict=True))
        assert again == {at: size for at, size in run.sizes[name].items() if at > first}
    assert sum(len(set(sizes.values())) for sizes in run.sizes.values()) > 15
