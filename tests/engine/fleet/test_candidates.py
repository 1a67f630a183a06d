"""Tests of replayable HPAs: specs over time, refusals, manifests."""

from __future__ import annotations

import pytest

from hpabatch.engine.fleet.candidates import (
    Candidate,
    Skipped,
    candidates_from_history,
    candidates_from_manifests,
)
from hpabatch.engine.fleet.pod_columns import request_of_rows
from hpabatch.model.objects.hpa import HPA
from hpabatch.model.requests import NEWEST_RULES
from hpabatch.model.versions import PROFILES
from tests.engine.naive_align import Row
from tests.engine.small_history import METRICS, T0, hpa_row, to_frame

PROFILE = PROFILES["1.38"]


def read(*rows: Row) -> tuple[list[Candidate], list[Skipped]]:
    frame = to_frame("hpas", list(rows)).sort("cluster", "namespace", "name", "uid", "valid_from")
    return candidates_from_history(frame, lambda _: PROFILE)


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({"maxReplicas": 0}, "spec.maxReplicas"),
        ({"minReplicas": 9}, "spec.maxReplicas"),
        ({"maxReplicas": "many"}, "spec.maxReplicas"),
        ({"metrics": "cpu"}, "spec.metrics"),
        ({"metrics": [{"type": "Resource"}]}, "spec.metrics[0].resource"),
        ({"scaleTargetRef": {"kind": "Deployment"}}, "spec.scaleTargetRef.name"),
        ({"behavior": {"scaleUp": {"selectPolicy": "Both"}}}, "selectPolicy"),
    ],
)
def test_a_refused_spec_is_skipped_with_its_field(spec: Row, what: str) -> None:
    found, skipped = read(hpa_row("bad", "web", METRICS[:1], spec=spec), hpa_row("ok", "web", []))
    assert [c.name for c in found] == ["ok"]
    assert [(s.hpa, what in s.reason) for s in skipped] == [("bad", True)]


@pytest.mark.parametrize(
    ("spec", "decided"),
    [
        ({"metrics": [{"type": "Odd"}]}, True),
        ({"metrics": [{"type": "Resource"}]}, True),
        ({"minReplicas": 0}, True),
        ({"maxReplicas": 0}, False),
        ({"metrics": "cpu"}, False),
    ],
)
def test_what_a_server_had_is_decided_whatever_one_says_today(spec: Row, decided: bool) -> None:
    frame = to_frame("hpas", [hpa_row("old", "web", METRICS[:1], spec=spec)])
    for profile in (PROFILES["1.26"], PROFILE):
        of = {"c1": profile}.__getitem__
        found, skipped = candidates_from_history(frame, of, {"c1"})
        assert (len(found), len(skipped)) == ((1, 0) if decided else (0, 1))
        assert not candidates_from_history(frame, lambda _: PROFILES["1.26"], {"c2"})[0]


def test_a_text_that_is_no_spec_is_skipped() -> None:
    for text in ("[]", "{", '{"apiVersion": "v9", "kind": "HorizontalPodAutoscaler"}'):
        found, skipped = read(hpa_row("bad", "web", METRICS[:1]) | {"spec": text})
        assert (found, len(skipped)) == ([], 1)
        assert "hpas.spec" in skipped[0].reason


def test_only_the_time_with_the_last_target_is_replayed() -> None:
    names = ("web", "api", "web", "web")
    rows = [
        hpa_row("one", name, METRICS[:1], valid_from=T0 + k, valid_to=T0 + k + 1)
        for k, name in enumerate(names)
    ]
    found, skipped = read(*rows)
    assert [period.from_ms for period in found[0].periods] == [T0 + 2, T0 + 3]
    assert [s.reason.split(";")[0] for s in skipped] == ["its target was Deployment/api before"]


def test_a_manifest_is_replayed_in_every_cluster_that_has_its_target() -> None:
    spec = read(hpa_row("one", "web", METRICS[:1]))[0][0].spec
    manifests = [
        HPA(name="b", namespace="shop", spec=spec),
        HPA(name="a", namespace="shop", spec=spec),
        HPA(name="lost", spec=spec),
    ]
    targets = [(c, "shop", "Deployment", "web") for c in ("c2", "c1")]
    found, skipped = candidates_from_manifests(manifests, targets)
    assert [(c.cluster, c.name) for c in found] == [
        ("c1", "a"),
        ("c1", "b"),
        ("c2", "a"),
        ("c2", "b"),
    ]
    assert [(s.namespace, s.hpa) for s in skipped] == [("default", "lost")]
    assert "not in the history's scales table for namespace default" in skipped[0].reason


def test_a_request_is_of_rows_of_every_kind_in_the_order_of_their_index() -> None:
    app, late = ("app", "app", 0, 100, 3), ("late", "sidecar", 2, 20, 3)
    big, mesh = ("big", "init", 1, 900, 3), ("mesh", "sidecar", 0, 10, 3)
    rows = (app, late, big, mesh, ("", "overhead", 0, 7, None), ("", "pod", 0, None, 5))
    # Where the pod has a request of its own: of cpu, the init container beside `mesh`, and 7.
    wanted = {("cpu", ""): (1, 917), ("memory", ""): (1, 5)}
    wanted |= {("cpu", "mesh"): (1, 10), ("cpu", "big"): (0, 0)}
    for (resource, container), found in wanted.items():
        assert request_of_rows(rows, resource, container, NEWEST_RULES) == found
    assert request_of_rows(rows[:-1], "cpu", "", NEWEST_RULES) == (1, 130)
