"""HPAs with their scales and size changes, beside what the twins of `test_decide` compare."""

from __future__ import annotations

from typing import Any

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

    def passed(self) -> None:
        self.lanes.drop_gone()
        self.lanes.close_pass()

    def lane(self, name: str = "web") -> Lane:
        found = self.lanes.get(("shop", name))
        assert found is not None
        return found


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


def test_targets_of_bad_versions_have_scales_of_their_own() -> None:
    """An apiVersion of two slashes stands as the group, as `cluster.apis.discovery` has it."""
    case = Case()
    ref = {"apiVersion": "apps/v1/extra", "kind": "Deployment", "name": "web"}
    case.hpa(scaleTargetRef=ref)
    case.scale(3)
    assert case.lane().scale is None
    at = ScaleKey("apps/v1/extra", "Deployment", "shop", "web")
    thing = ScaleObject(at, error="unexpected", code=codes.SCALE_BAD_VERSION)
    case.put(Kind.scale, at, thing)
    assert case.lane().scale == thing


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
