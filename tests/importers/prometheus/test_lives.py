"""Lives of pods: when they were there, whose they are, and how one window goes on from another."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.pods.lives import (
    OWNED,
    POD_ROWS,
    continued_pods,
    owned_pods,
)
from tests.effort import effort
from tests.importers.prometheus.ksm import CUTS, SPAN, at, facts, found_pods, owned_by, pod, steady
from tests.importers.prometheus.made import Series

BEATS = range(300, 4201, 30)


def lives(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    """Return (uid, created s, gone s)."""
    assert frame.schema == POD_ROWS
    picked = frame.select("uid", "created", "gone").rows()
    return [(uid, created // 1000, gone and gone // 1000) for uid, created, gone in picked]


def one(frame: pl.DataFrame) -> dict[str, Any]:
    assert frame.height == 1
    return frame.row(0, named=True)


def test_a_whole_life() -> None:
    info = {"node": "n1", "created_by_kind": "ReplicaSet", "created_by_name": "web-x"}
    findings = Findings()
    row = one(
        found_pods(
            [
                # It has no node before it is scheduled.
                (pod(created_by_kind="ReplicaSet", created_by_name="web-x"), steady(1000, 1000)),
                (pod(**info), steady(1030, 2020)),
            ],
            owners=[pod(**owned_by("ReplicaSet", "web-x"))],
            sets=[{"namespace": "shop", "replicaset": "web-x", **owned_by("Deployment", "web")}],
            created=[(pod(), 990)],
            started=[(pod(), 1005)],
            deleted=[(pod(), at((1990, 2015), (2020, 2015)))],
            heartbeats=BEATS,
            findings=findings,
        )
    )
    assert row == {
        "uid": "u1",
        "pod": "web-1",
        "namespace": "shop",
        "origin": "recorded",
        "target": "web",
        "target_kind": "Deployment",
        "owner": "ReplicaSet/web-x",
        "labels": "{}",
        "created": 990_000,
        "started": 1_005_000,
        "deletion_requested": 1_990_000,
        "gone": 2_040_000,
        "node": "n1",
        "first": 1_000_000,
        "last": 2_020_000,
        "uid_made": False,
    }
    assert not findings.counts


def test_a_pod_that_is_still_there_is_not_gone() -> None:
    assert lives(found_pods([(pod(), steady(630, 4200))], heartbeats=BEATS)) == [("u1", 630, None)]
    # The exporter is silent from then on: nobody knows.
    outage = [beat for beat in BEATS if beat <= 2000]
    seen = [(pod(), steady(630, 1980))]
    assert lives(found_pods(seen, heartbeats=outage)) == [("u1", 630, None)]
    assert lives(found_pods(seen, heartbeats=[])) == [("u1", 630, None)]
    # And gone with the first sign of life after it.
    again = [*outage, *range(3000, 4201, 30)]
    assert lives(found_pods(seen, heartbeats=again)) == [("u1", 630, 3000)]


def test_heartbeats_of_another_shard_kill_nobody() -> None:
    seen = [(pod(), steady(630, 4170))]
    beats = [beat + 17 for beat in BEATS if beat < 4180]
    assert lives(found_pods(seen, heartbeats=beats)) == [("u1", 630, None)]


def test_names_recur() -> None:
    info = [
        (pod("db-0", "u1"), steady(630, 990)),
        (pod("db-0", "u2"), steady(1020, 1500)),
        (pod("db-0", "u3"), steady(3000, 4200)),
        (pod("db-1", "u4"), steady(630, 4200)),
    ]
    created = [(pod("db-0", "u1"), 100), (pod("db-0", "u2"), 1001), (pod("db-0", "u3"), 2990)]
    frame = found_pods(info, created=[*created, (pod("db-1", "u4"), 500)], heartbeats=BEATS)
    assert lives(frame) == [
        *(("u1", 100, 1001), ("u2", 1001, 1530), ("u3", 2990, None), ("u4", 500, None))
    ]
    # The exporter was away when the first one went.
    silent = found_pods(info, created=[*created, (pod("db-1", "u4"), 500)], heartbeats=[])
    assert lives(silent)[:2] == [("u1", 100, 1001), ("u2", 1001, 2990)]


def test_a_deletion_that_was_seen_late_counts_from_its_own_time() -> None:
    row = one(found_pods([(pod(), steady(630, 4200))], deleted=[(pod(), steady(630, 990, 600))]))
    assert row["deletion_requested"] == 600_000


def test_no_life_ends_before_it_begins() -> None:
    """The API server's clock, which says `created`, may be ahead of Prometheus' clock."""
    row = one(
        found_pods(
            [(pod(), steady(900, 990))],
            created=[(pod(), 2000)],
            deleted=[(pod(), at((960, 985), (990, 985)))],
            heartbeats=BEATS,
        )
    )
    assert (row["created"], row["deletion_requested"], row["gone"]) == (2_000_000,) * 3


def test_what_is_not_recorded_is_assumed_and_told() -> None:
    findings = Findings()
    row = one(
        found_pods(
            [(pod(created_by_kind="StatefulSet", created_by_name="db"), steady(900, 990))],
            findings=findings,
        )
    )
    assert (row["created"], row["started"], row["labels"]) == (900_000, None, "{}")
    assert (row["owner"], row["target"]) == ("StatefulSet/db", "db")
    assert [kind for kind, _ in findings.counts] == ["assumed"]
    bare = one(found_pods([(pod(created_by_kind="<none>", created_by_name=""), steady(900, 990))]))
    assert (bare["owner"], bare["target"], bare["target_kind"]) == (None, None, None)


def test_an_old_exporter_gives_no_uids() -> None:
    nameless = pod("db-0", None)
    findings = Findings()
    facts: dict[str, Any] = {
        "created": [(nameless, 890)],
        "started": [(nameless, 895)],
        "owners": [{**nameless, **owned_by("StatefulSet", "db")}],
        "deleted": [(nameless, steady(960, 990, 1000))],
    }
    row = one(found_pods([(nameless, steady(900, 990))], findings=findings, **facts))
    assert row["uid_made"] is True
    assert (row["created"], row["started"], row["target"]) == (890_000, 895_000, "db")
    assert row["deletion_requested"] == 960_000
    assert sum(findings.counts.values()) == 1
    later = one(found_pods([(nameless, steady(900, 1500))], **facts))
    assert later["uid"] == row["uid"]
    other = one(found_pods([(nameless, steady(900, 990))], created=[(nameless, 891)]))
    assert other["uid"] != row["uid"]


@st.composite
def clusters(draw: st.DrawFn) -> list[tuple[Series, int, int | None]]:
    """Return pods' infos, creation (s) and when deletion was asked for (s)."""
    found = []
    for name in ("db-0", "db-1"):
        now = draw(st.integers(100, 900))
        for life in range(draw(st.integers(1, 3))):
            length = draw(st.integers(0, 40)) * 30
            uid = f"{name}-{life}"
            begin = -(-now // 30) * 30
            asked = draw(st.none() | st.integers(begin, begin + length))
            found.append(((pod(name, uid), steady(begin, begin + length)), now, asked))
            now = begin + length + draw(st.integers(31, 600))
    return found


@settings(max_examples=effort(20), deadline=None)
@given(clusters(), CUTS)
def test_windows_cut_anywhere_see_the_same_lives(
    cluster: list[tuple[Series, int, int | None]], cuts: list[int]
) -> None:
    def window(span: Span) -> tuple[pl.DataFrame, list[int]]:
        inside = [s for s in range(0, 4201, 30) if span.from_ms < 1000 * s <= span.until_ms]
        shown = [
            (labels, [(ts, 9e9) for ts, _ in points if asked is not None and ts >= 1000 * asked])
            for (labels, points), _, asked in cluster
        ]
        info = [one for one, *_ in cluster]
        created = [(one[0], begun) for one, begun, _ in cluster]
        frame = found_pods(info, created=created, deleted=shown, heartbeats=inside, span=span)
        return frame, [1000 * s for s in inside]

    bounds = [600_000, *(1000 * s for s in sorted(cuts)), 4_200_000]
    spans = [Span(a, b, 300_000) for a, b in pairwise(bounds)]
    known, _ = window(spans[0])
    for span in spans[1:]:
        frame, beats = window(span)
        known = continued_pods(known, frame, beats, span)
    whole, _ = window(SPAN)
    assert known.drop("first").equals(whole.drop("first"))


def owned(*owners: dict[str, str], sets: tuple[dict[str, str], ...] = ()) -> tuple[Any, Findings]:
    findings = Findings()
    found = owned_pods(
        facts([(one, 1.0) for one in owners]), facts([(one, 1.0) for one in sets]), findings
    )
    assert found.schema == OWNED
    rows = {row[1]: row[3:] for row in found.rows()}
    assert len(rows) == found.height
    return rows, findings


def of_set(name: str, kind: str, owner: str) -> dict[str, str]:
    return {"namespace": "shop", "replicaset": name, **owned_by(kind, owner)}


def test_behind_a_replicaset_stands_what_controls_it() -> None:
    rows, findings = owned(
        pod("a", **owned_by("ReplicaSet", "web-x1")),
        pod("b", "u2", **owned_by("ReplicaSet", "roll-x2")),
        pod("c", "u3", **owned_by("ReplicaSet", "alone")),
        sets=(
            of_set("web-x1", "Deployment", "web"),
            of_set("roll-x2", "Rollout", "roll"),
            {"namespace": "shop", "replicaset": "alone", **owned_by("", "", "")},
            {**of_set("web-x1", "Deployment", "other"), "namespace": "elsewhere"},
        ),
    )
    assert rows == {
        "a": ("ReplicaSet/web-x1", "Deployment", "web"),
        "b": ("ReplicaSet/roll-x2", "Rollout", "roll"),
        "c": ("ReplicaSet/alone", "ReplicaSet", "alone"),
    }
    assert not findings.counts


def test_of_several_owners_the_controller_counts() -> None:
    rows, _ = owned(
        pod("a", **owned_by("AAA", "first", "false")),
        pod("a", **owned_by("StatefulSet", "db", "true"), job="x"),
        pod("a", **owned_by("StatefulSet", "db", "true"), job="y"),
    )
    assert rows == {"a": ("StatefulSet/db", "StatefulSet", "db")}


def test_a_deployment_is_read_off_a_name_that_can_be_one() -> None:
    rows, findings = owned(
        pod("a", **owned_by("ReplicaSet", "web-front-7d4b9c6f5d")),
        pod("b", "u2", **owned_by("ReplicaSet", "web-front-7d4b9c6f5d")),
        pod("c", "u3", **owned_by("ReplicaSet", "mine-alone")),
    )
    assert rows["a"] == ("ReplicaSet/web-front-7d4b9c6f5d", "Deployment", "web-front")
    assert rows["b"] == rows["a"]
    # There are no vowels in hashes.
    assert rows["c"] == ("ReplicaSet/mine-alone", "ReplicaSet", "mine-alone")
    assert list(findings.counts.values()) == [1]
