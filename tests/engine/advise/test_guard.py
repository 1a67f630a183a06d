"""Safeguards: the floor of minReplicas, HPAs that others write, HPAs that were edited since."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpabatch.engine.advise.bounds import parse_bounds
from hpabatch.engine.advise.frames import advice_frame, certificate
from hpabatch.engine.advise.objective import RecommendOptions, parse_goal
from hpabatch.engine.advise.request import JudgeRules
from hpabatch.engine.advise.run import (
    Recommendation,
    Recommendations,
    edits_since,
    recommend,
    with_objects,
    withhold_edited,
)
from hpabatch.engine.sweep.context import Context
from hpabatch.errors import HistoryError, UsageError
from hpabatch.inputs.cluster_objects import ClusterObjects, read_objects
from hpabatch.model.availability import Availability, Budget, Spread
from hpabatch.model.owners import Metadata
from hpabatch.model.versions import profile_for
from hpabatch.report.recommend_files import recommendation_files
from tests.importers.cluster_made import START_MS, Json, hpa, spec_of, workload, write_objects
from tests.sweeps import SPEC, SweepMaker, put, weeks

GRID = [{"min": "3"}, {"min": "2"}, {"min": "1"}]
CHEAPER = {0: weeks([100] * 6), 1: weeks([90] * 6), 2: weeks([80] * 6), 3: weeks([70] * 6)}
PROFILE = profile_for("1.37")


def options(*bounds: str, **changes: Any) -> RecommendOptions:
    return RecommendOptions(
        parse_goal([], "pod_hours"), JudgeRules(), parse_bounds(bounds or ["min=x9"]), **changes
    )


def spec_with(least: int) -> Json:
    return {**SPEC, "minReplicas": least}


def advise(
    least: int, context: Context | None = None, chosen: RecommendOptions | None = None
) -> Recommendations:
    maker = SweepMaker(GRID)
    columns: dict[str, Any] = dict((context or Context()).columns())
    maker.add("api", CHEAPER, spec=spec_with(least), **columns)
    return recommend(maker.result(), chosen or options(), put)


def one(found: Recommendations) -> Recommendation:
    (item,) = found.items
    return item


def least_of(item: Recommendation) -> int | None:
    assert item.wanted is not None
    return item.wanted.min_replicas


# ---- the floor ----------------------------------------------------------------------------------


def test_min_replicas_never_goes_below_two_unless_any_is_asked_for() -> None:
    item = one(advise(4))
    assert (item.answer, least_of(item)) == ("change", 2)
    assert item.notes == (
        "compared only: minReplicas 4 -> 1 (30.0% less than today's on the training blocks): "
        "minReplicas 4 -> 1 is below 2: of fewer than 2 pods none is left when one goes "
        "(--bound min=any lifts this)",
    )
    assert least_of(one(advise(4, chosen=options("min=any")))) == 1


@pytest.mark.parametrize(
    ("known", "least", "why"),
    [
        (Availability((Budget("api", "2"),)), 3, "PodDisruptionBudget api (minAvailable 2)"),
        (Availability((), (Spread("zone", domains=3),)), 3, "the 3 domains of zone"),
        (Availability((Budget("api", max_unavailable="50%"),)), 2, "of fewer than 2 pods"),
    ],
)
def test_min_replicas_never_goes_below_what_its_pods_need(
    known: Availability, least: int, why: str
) -> None:
    found = advise(4, Context(availability=known))
    assert least_of(one(found)) == least
    (advice,) = found.units
    assert f"minReplicas 4 -> 1 is below {least}: " in advice.why_not[3]
    assert why in advice.why_not[3]


def test_where_todays_is_lower_already_it_is_the_floor() -> None:
    known = Context(availability=Availability((Budget("api", "5"),)))
    found = advise(2, known, options("min=any", "max=same"))
    assert least_of(one(found)) == 1
    found = advise(2, known)
    assert (
        one(found)
        .notes[0]
        .endswith(
            "minReplicas 2 -> 1 is below today's, and PodDisruptionBudget api (minAvailable 5) "
            "lets a pod go only of 6 or more (--bound min=any lifts this)"
        )
    )
    assert found.units[0].why_not[1] == ""  # 2 -> 3 is no step down, though it is below 6


# ---- owners -------------------------------------------------------------------------------------

SCALED = Context(Metadata(owner="ScaledObject/queue"))
LABELLED = Context(Metadata({"app.kubernetes.io/instance": "shop"}))


def test_an_hpa_of_another_controller_gets_no_patch_but_says_where() -> None:
    found = advise(4, SCALED)
    item = one(found)
    why = "owned by KEDA ScaledObject shop/queue: change spec.minReplicaCount there"
    assert (item.answer, item.withheld, item.was_edited) == ("change", why, False)
    assert item.notes[-1] == f"no patch is written: {why}"
    told = certificate(item, found, {})
    assert (told["patch"], told["withheld"]) == (None, why)
    assert told["spec"]["recommended"]["minReplicas"] == 2
    assert list(recommendation_files(found)[0]) == ["shop.api.json"]
    (row,) = advice_frame(found).to_dicts()
    assert (row["source"], row["withheld"]) == ("KEDA ScaledObject shop/queue", why)
    assert json.loads(row["patch"]) == {"minReplicas": 2}


def test_the_instance_label_is_argos_unless_it_is_said_to_be_plain() -> None:
    assert "Argo CD tracks by this label" in one(advise(4, LABELLED)).withheld
    item = one(advise(4, LABELLED, options("min=x9", instance_label="plain")))
    assert (item.source, item.withheld) == (None, "")
    certain = Context(Metadata({"argocd.argoproj.io/instance": "shop"}))
    assert one(advise(4, certain, options("min=x9", instance_label="plain"))).withheld


# ---- objects of now -----------------------------------------------------------------------------


def objects_of(folder: Path, *items: Json) -> ClusterObjects:
    return read_objects([write_objects(folder, items)])


def live(least: int, **changes: Any) -> Json:
    """Return the HPA of the sweep as a cluster has it."""
    document = hpa("api", "api", START_MS)
    document["metadata"] |= {"labels": {}, "annotations": {}, **changes.pop("metadata", {})}
    document["spec"] = spec_with(least) | changes
    return document


def test_objects_say_owners_and_needs_of_now(tmp_path: Path) -> None:
    result = advise(4).result
    spec = spec_of() | {
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 3}
        ]
    }
    owner = {"kind": "ScaledObject", "name": "queue", "controller": True}
    objects = objects_of(
        tmp_path, live(4, metadata={"ownerReferences": [owner]}), workload("api", 4, spec)
    )
    item = one(recommend(with_objects(result, objects), options(), put))
    assert (least_of(item), item.source and item.source.name) == (
        3, "KEDA ScaledObject shop/queue"
    )  # fmt: skip


def test_an_edited_hpa_is_refused_with_each_field(tmp_path: Path) -> None:
    found = advise(4)
    same = objects_of(tmp_path, live(4))
    assert edits_since(found, same, PROFILE) == {}
    edited = objects_of(tmp_path, live(5, maxReplicas=12))
    why = edits_since(found, edited, PROFILE)
    item = one(withhold_edited(found, why))
    assert one(withhold_edited(withhold_edited(found, why), why)) == item
    assert item.withheld == (
        "edited since it was judged: minReplicas 4 -> 5, maxReplicas 10 -> 12; import it and sweep "
        "again"
    )
    assert item.was_edited
    assert not edits_since(found, objects_of(tmp_path, workload("api", 1, spec_of())), PROFILE)


def test_an_hpa_that_no_controller_can_use_now_is_refused(tmp_path: Path) -> None:
    broken = live(4, maxReplicas="many")
    (why,) = edits_since(advise(4), objects_of(tmp_path, broken), PROFILE).values()
    assert why.startswith("edited since it was judged: no controller can use its spec now (spec.")


def other(name: str = "web", namespace: str = "shop") -> Json:
    document = hpa(name, name, START_MS)
    document["metadata"]["namespace"] = namespace
    return document


@pytest.mark.parametrize("broken", [{}, {"maxReplicas": "many"}])
def test_an_hpa_that_is_gone_gets_no_patch(tmp_path: Path, broken: Json) -> None:
    found = advise(4)
    beside = other()
    beside["spec"] |= broken
    edited = edits_since(found, objects_of(tmp_path, beside), PROFILE)
    item = one(withhold_edited(found, edited))
    assert item.was_edited
    assert item.withheld.startswith("gone: --objects has other HPAs of its namespace and not this")
    # Of another namespace's HPAs nothing follows.
    assert not edits_since(found, objects_of(tmp_path, other(namespace="front")), PROFILE)


SPREAD = {"topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def node(zone: str) -> Json:
    metadata = {"name": f"node-{zone}", "labels": {"zone": zone}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def budget(least: int) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "api", "namespace": "shop"},
        "spec": {"minAvailable": least, "selector": {}},
    }


@pytest.mark.parametrize(
    ("known", "items", "least"),
    [
        (Availability((Budget("api", "2"),)), [], 3),
        (Availability((Budget("api", "2"),)), [budget(1)], 2),
        (Availability((), (Spread("zone", domains=3),)), [], 3),
        (Availability((), (Spread("zone", domains=3),)), [node("a"), node("b")], 2),
    ],
)
def test_objects_without_budgets_or_nodes_leave_the_recorded_ones(
    tmp_path: Path, known: Availability, items: list[Json], least: int
) -> None:
    spec = spec_of() | ({"topologySpreadConstraints": [SPREAD]} if known.spreads else {})
    objects = objects_of(tmp_path, live(4), workload("api", 4, spec), *items)
    result = advise(4, Context(availability=known)).result
    assert least_of(one(recommend(with_objects(result, objects), options(), put))) == least


def test_objects_are_of_one_cluster(tmp_path: Path) -> None:
    maker = SweepMaker(GRID).add("api", CHEAPER).add("api", CHEAPER, cluster="west")
    with pytest.raises(UsageError, match="of one cluster, and the sweep has east, west"):
        with_objects(maker.result(), objects_of(tmp_path, live(4)))


@pytest.mark.parametrize("broken", ["{", "[]", '{"budget": 1}', '{"budgets": 1, "spreads": []}'])
def test_a_damaged_context_is_told(broken: str) -> None:
    result = advise(4).result
    hpas = result.hpas.with_columns(availability=result.hpas["hpa"].replace("api", broken))
    with pytest.raises(HistoryError, match="metadata or availability of shop/api cannot be read"):
        recommend(replace(result, hpas=hpas), options(), put)
