"""Tests of the pod that a row belongs to."""

from __future__ import annotations

from typing import Any

import polars as pl

from hpabatch.importers.prometheus.client.samples import Findings
from hpabatch.importers.prometheus.pods.lives import TABLE_COLUMNS
from hpabatch.importers.prometheus.reading.assign import assign_pods
from tests.importers.prometheus.ksm import found_pods, owned_by, pod, steady

INFO = [
    (pod("db-0", "u1"), steady(630, 990)),
    (pod("db-0", "u2"), steady(1020, 1500)),
    (pod("web-1", "u3"), steady(630, 4200)),
]
PODS = found_pods(
    INFO,
    created=[(pod("db-0", "u1"), 620), (pod("db-0", "u2"), 1001), (pod("web-1", "u3"), 10)],
    owners=[pod("db-0", uid, **owned_by("StatefulSet", "db")) for uid in ("u1", "u2")],
    heartbeats=range(300, 4201, 30),
)


def assigned(*rows: tuple[str, str | None, int], pods: pl.DataFrame = PODS) -> tuple[Any, Findings]:
    """Return (number, uid, target) of rows that were kept; rows are pod, uid, s."""
    findings = Findings()
    frame = pl.DataFrame(
        [("shop", name, uid, 1000 * s, n) for n, (name, uid, s) in enumerate(rows)],
        schema={
            **dict.fromkeys(("namespace", "pod", "pod_uid"), pl.String),
            "ts": pl.Int64,
            "n": pl.Int64,
        },
        orient="row",
    )
    found = assign_pods(frame, pods, findings)
    assert found.columns == ["namespace", "pod", "ts", "n", "uid", "target"]
    return found.select("n", "uid", "target").rows(), findings


def test_by_uid_whatever_the_time() -> None:
    rows, findings = assigned(("db-0", "u2", 1600), ("web-1", "u3", 5), ("db-0", "u1", 700))
    assert rows == [(0, "u2", "db"), (1, "u3", None), (2, "u1", "db")]
    assert not findings.counts


def test_by_name_and_time() -> None:
    rows, findings = assigned(
        *(("db-0", None, s) for s in (619, 620, 1000, 1001, 1530, 1531)), ("db-9", None, 700)
    )
    assert rows == [(1, "u1", "db"), (2, "u1", "db"), (3, "u2", "db"), (4, "u2", "db")]
    assert findings.counts == {("no pod", "namespace shop"): 3}


def test_another_uid_is_another_pod() -> None:
    rows, findings = assigned(("db-0", "other", 700), ("db-0", "u1", 700), ("web-1", None, 900))
    assert rows == [(1, "u1", "db"), (2, "u3", None)]
    assert sum(findings.counts.values()) == 1


def test_uids_that_we_made_stand_for_any() -> None:
    made = found_pods([(pod("db-0", None), steady(630, 990))], created=[(pod("db-0", None), 620)])
    rows, _ = assigned(("db-0", "real", 700), ("db-0", None, 700), pods=made)
    assert [uid for _, uid, _ in rows] == made["uid"].to_list() * 2
    # Unless nobody says so.
    table = made.select(TABLE_COLUMNS)
    assert assigned(("db-0", "real", 700), pods=table)[0] == []


def test_without_rows_or_pods() -> None:
    assert assigned()[0] == []
    assert assigned(("db-0", None, 700), pods=PODS.clear())[0] == []
