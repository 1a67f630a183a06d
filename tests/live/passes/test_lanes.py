"""HPAs with their scales and size changes: what comes in which order, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from hpabatch.cluster.objects.types import Change, HpaObject, Kind, ScaleKey, ScaleObject
from hpabatch.layout import codes
from hpabatch.live.passes.lanes import Lane, Lanes
from hpabatch.live.passes.result import Problem
from hpabatch.model.versions import profile_for
from tests.live.documents import Json, document_of, hpa_of

KEY = ("shop", "web")


class Case:
    """One namespace, told change by change; a change comes each second."""

    def __init__(self, k8s: str = "1.37") -> None:
        self.lanes = Lanes(profile_for(k8s))
        self.now_ms = 0

    def put(self, kind: Kind, key: Any, thing: Any) -> None:
        self.now_ms += 1000
        self.lanes.apply(Change(kind, key, thing, self.now_ms))

    def hpa(
        self, name: str = "web", target: str = "web", uid: str = "u", problem: str = "", **spec: Any
    ) -> None:
        ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
        metric = {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization"}},
        }
        base: Json = {
            "scaleTargetRef": ref,
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [metric],
        }
        hpa = hpa_of(document_of("shop", name, uid, base | spec))
        self.put(Kind.hpa, ("shop", name), HpaObject("shop", name, hpa, problem))

    def gone(self, name: str = "web") -> None:
        self.put(Kind.hpa, ("shop", name), None)

    def scale(self, size: int | None, name: str = "web", selector: str = "app=web") -> None:
        """Tell of a size; None: the scale cannot be read."""
        at = ScaleKey("apps", "Deployment", "shop", name)
        thing = ScaleObject(at, size or 0, size or 0, selector)
        if size is None:
            thing = ScaleObject(at, error="no", code=codes.SCALE_GET_FAILED)
        self.put(Kind.scale, at, thing)

    def no_scale(self, name: str = "web") -> None:
        self.put(Kind.scale, ScaleKey("apps", "Deployment", "shop", name), None)

    def passed(self) -> None:
        self.lanes.drop_gone()
        self.lanes.close_pass()

    def lane(self, name: str = "web") -> Lane:
        found = self.lanes.get(("shop", name))
        assert found is not None
        return found


def test_a_scale_may_be_known_before_its_hpa() -> None:
    case = Case()
    case.scale(3)
    case.scale(4)
    case.hpa()
    lane = case.lane()
    assert (lane.replicas, lane.status_replicas, lane.selector) == (4, 4, codes.SELECTOR_OK)
    assert lane.found == (1000, 3)
    assert lane.changes == []


def test_changes_of_the_size_are_kept_until_the_pass() -> None:
    case = Case()
    case.hpa()
    case.scale(3)
    case.scale(3)
    case.scale(5)
    case.scale(2)
    assert case.lane().changes == [(4000, 3, 5), (5000, 5, 2)]
    case.passed()
    assert case.lane().changes == []


def test_two_hpas_on_one_scale_both_see_its_changes() -> None:
    case = Case()
    case.hpa("a")
    case.hpa("b")
    case.scale(1)
    case.scale(2)
    assert case.lane("a").changes == case.lane("b").changes == [(4000, 1, 2)]
    case.gone("a")
    case.passed()
    case.scale(3)
    assert case.lane("b").changes == [(6000, 2, 3)]


def test_a_scale_that_cannot_be_read_keeps_its_size_for_the_next_change() -> None:
    case = Case()
    case.hpa()
    case.scale(3)
    case.scale(None)
    assert case.lane().replicas == 3
    assert case.lane().changes == []
    case.scale(5)
    assert case.lane().changes == [(4000, 3, 5)]


def test_a_scale_that_vanished_and_came_again() -> None:
    case = Case()
    case.hpa()
    case.scale(3)
    case.no_scale()
    assert case.lane().scale is None
    case.scale(4)
    assert case.lane().changes == [(4000, 3, 4)]


def test_another_target_has_its_own_size_and_pods() -> None:
    case = Case()
    case.scale(7, "other", "app=other")
    case.hpa()
    case.scale(3)
    case.passed()
    case.scale(4)
    case.hpa(target="other")
    case.scale(9)
    lane = case.lane()
    assert (lane.target, lane.replicas, lane.found) == ("Deployment/other", 7, (1000, 7))
    assert lane.changes == [(4000, 3, 4)]
    assert lane.before is not None
    assert lane.before.scale_target_ref.name == "web"
    case.hpa(target="nowhere")
    assert (case.lane().scale, case.lane().replicas) == (None, None)


def test_the_spec_of_the_last_pass_is_kept_over_any_number_of_edits() -> None:
    case = Case()
    case.hpa(maxReplicas=5)
    case.hpa(maxReplicas=6)
    assert case.lane().before is None  # no pass has seen the first
    case.passed()
    case.hpa(maxReplicas=7)
    case.hpa(maxReplicas=8)
    lane = case.lane()
    assert lane.before is not None
    assert (lane.before.max_replicas, lane.spec.max_replicas) == (6, 8)
    case.passed()
    assert case.lane().before is None
    case.hpa(maxReplicas=8)
    assert case.lane().before is None


def test_made_anew_between_two_passes_it_is_another_object_with_the_same_memory() -> None:
    case = Case()
    case.hpa(uid="one")
    case.passed()
    case.gone()
    case.hpa(uid="two")
    lane = case.lane()
    assert (lane.recreated, lane.fresh, lane.gone) == (True, False, False)
    case.passed()
    assert not case.lane().recreated


def test_made_anew_before_any_pass_it_is_just_new() -> None:
    case = Case()
    case.hpa(uid="one")
    case.gone()
    assert case.lanes.get(KEY) is None
    case.hpa(uid="two")
    assert (case.lane().recreated, case.lane().fresh) == (False, True)


def test_deleted_over_a_pass_it_is_forgotten() -> None:
    case = Case()
    case.hpa(uid="one")
    case.passed()
    case.gone()
    case.passed()
    assert case.lanes.get(KEY) is None
    case.hpa(uid="two")
    assert case.lane().fresh


def test_one_that_is_refused_and_mended() -> None:
    case = Case()
    case.hpa()
    case.passed()
    case.hpa(problem="its spec is wrong")
    assert list(case.lanes.problems) == [Problem("shop", "web", "its spec is wrong")]
    case.hpa(maxReplicas=9)
    assert list(case.lanes.problems) == []
    assert (case.lane().gone, case.lane().recreated, case.lane().fresh) == (False, False, False)
    case.hpa(problem="again")
    case.passed()
    assert case.lanes.get(KEY) is None
    case.gone()
    assert list(case.lanes.problems) == []


def test_problems_of_new_ones_are_told_and_forgotten_too() -> None:
    case = Case()
    case.hpa(problem="bad")
    assert [problem.text for problem in case.lanes.problems] == ["bad"]
    case.hpa(problem="worse")
    assert [problem.text for problem in case.lanes.problems] == ["worse"]
    assert list(case.lanes) == []


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        ("app=web", codes.SELECTOR_OK),
        ("", codes.SELECTOR_MISSING),
        ("a in (", codes.SELECTOR_INVALID),
    ],
)
def test_selectors_of_scales(selector: str, code: int) -> None:
    case = Case()
    case.hpa()
    case.scale(1, selector="app=before")
    case.scale(1, selector=selector)
    lane = case.lane()
    assert lane.selector == code
    assert bool(lane.selector_error) == (code == codes.SELECTOR_INVALID)
    assert (lane.selects is not None) == (code == codes.SELECTOR_OK)


def test_targets_of_bad_versions_have_scales_of_their_own() -> None:
    """An apiVersion of two slashes stands as the group, as `cluster.apis.scales` has it."""
    case = Case()
    ref = {"apiVersion": "apps/v1/extra", "kind": "Deployment", "name": "web"}
    case.hpa(scaleTargetRef=ref)
    case.scale(3)
    assert case.lane().scale is None
    at = ScaleKey("apps/v1/extra", "Deployment", "shop", "web")
    thing = ScaleObject(at, error="unexpected", code=codes.SCALE_BAD_VERSION)
    case.put(Kind.scale, at, thing)
    assert case.lane().scale == thing


def test_lanes_come_in_the_order_of_their_names() -> None:
    case = Case()
    for name in ("c", "a", "b"):
        case.hpa(name)
    assert [lane.key[1] for lane in case.lanes] == ["a", "b", "c"]


def test_what_an_earlier_loop_knew_of_a_size_becomes_a_change() -> None:
    case = Case()
    case.hpa()
    case.scale(4)
    case.scale(5)
    case.lanes.recall_size(case.lane(), 3)
    assert case.lane().changes == [(2000, 3, 4), (3000, 4, 5)]
    other = Case()
    other.hpa()
    other.scale(None)
    other.lanes.recall_size(other.lane(), 3)
    other.scale(6)
    assert other.lane().changes == [(3000, 3, 6)]


def test_of_changes_in_one_ms_their_sum_counts() -> None:
    case = Case()
    case.hpa()

    at = ScaleKey("apps", "Deployment", KEY[0], "web")

    def sizes(seen_ms: int, *replicas: int) -> None:
        for count in replicas:
            thing = ScaleObject(at, count, count, "app=web")
            case.lanes.apply(Change(Kind.scale, at, thing, seen_ms))

    sizes(5000, 1, 2)
    assert (case.lane().found, case.lane().changes) == ((5000, 2), [])
    sizes(6000, 9, 4)
    sizes(7000, 8, 4)
    assert case.lane().changes == [(6000, 2, 4)]


def test_sizes_of_targets_that_nobody_names_are_forgotten() -> None:
    case = Case()
    for k in range(300):
        name = f"web-{k}"
        case.hpa(name, target=name)
        case.scale(k, name)
        if k % 3 == 0:
            case.no_scale(name)
            case.gone(name)
        elif k % 3 == 1:
            case.gone(name)
            case.no_scale(name)
        else:
            case.passed()
            case.hpa(name, target="nowhere")
            case.no_scale(name)
            case.gone(name)
    case.passed()
    tables = (case.lanes._sizes, case.lanes._found, case.lanes._of_scale, case.lanes._scales)
    assert [len(table) for table in tables] == [0, 0, 0, 0]
