"""Passes over a small cluster that changes at random, against a plain twin of them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from hpabatch.cluster.objects.types import (
    Change,
    ContainerUsage,
    ExternalMetricKey,
    HpaObject,
    Kind,
    PodKey,
    Response,
    Responses,
    ScaleKey,
    ScaleObject,
    SeriesSample,
    UsageSample,
)
from hpabatch.layout import codes
from hpabatch.layout.codes import CONDITION_TYPES, CONDITIONS, NO_CONDITION, OTHER_FALSE, OTHER_TRUE
from hpabatch.layout.records import Memory
from hpabatch.live.passes import decide as decide_module
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.lanes import LaneKey, Lanes
from hpabatch.live.passes.memory import Saved, load
from hpabatch.live.passes.result import ACTIONS, ERRORS, PassResult
from hpabatch.live.record.recorder import Recorder
from hpabatch.model.versions import profile_for
from tests.conformance.golden import to_flags
from tests.effort import effort
from tests.live.cases import World
from tests.live.documents import Json, document_of, hpa_of, pod_object
from tests.live.naive import FLAGS, Naive

VERSIONS = ("1.20", "1.26", "1.33", "1.36", "1.37", "1.38")
_TYPES = {kind: name for name, kind in CONDITION_TYPES.items()}


class Twins:
    """The loop's decider and the naive one, side by side."""

    def __init__(self, seed: int, k8s: str, zero: bool = False) -> None:
        self.world = World(random.Random(seed), int(k8s.split(".")[1]), zero)
        self.naive = Naive(self.world, k8s)
        self.decider = Decider(self.naive.rules, to_flags(FLAGS))
        self.wish = ""
        self.last_answers: Responses = {}

    def feed(self) -> None:
        """Tell both what happened."""
        changes = self.world.take()
        self.decider.apply(change for change, _ in changes)
        for change, document in changes:
            self.naive.apply(change, document)

    def decide(self) -> tuple[PassResult, dict[PodKey, Json]]:
        """Decide a pass in both."""
        self.feed()
        self.world.draw_answers()
        self.world.now_ms += 1
        now_ms = self.world.now_ms
        for at in self.world.custom:
            if self.wish and at[0] == "External":
                self.world.custom[at] = {"external_values": [self.wish]}
        self.last_answers = self.world.answers()
        result = self.decider.decide(now_ms, self.last_answers)
        return result, self.naive.decide(now_ms)

    def follow(self, theirs: dict[PodKey, Json]) -> None:
        """Show the naive controller's statuses, and scale as it says, of those that follow."""
        for key, result in theirs.items():
            document = self.world.hpas.get(key)
            if document is None or not document["metadata"].get("followed"):
                continue
            self.world.put_hpa(document | {"status": status_document(result["status"])})
            life = self.naive.lives[key]
            scale = self.world.scales.get(life.target)
            if result["rescaled"] and scale and not scale.get("error"):
                size = result["desired_replicas"]
                self.world.put_scale(life.target, scale | {"replicas": size})


def status_document(status: Any) -> Json:
    """Return a status of the reference as a document."""
    found: Json = {
        "currentReplicas": status.current_replicas,
        "desiredReplicas": status.desired_replicas,
        "currentMetrics": status.current_metrics,
        "conditions": [
            {
                "type": c["type"],
                "status": c["status"],
                "reason": c["reason"],
                "message": c["message"],
                "lastTransitionTime": c["last_transition_time"],
            }
            for c in status.conditions
        ],
    }
    if status.last_scale_time is not None:
        found["lastScaleTime"] = status.last_scale_time
    if status.observed_generation is not None:
        found["observedGeneration"] = status.observed_generation
    return found


def conditions_of(decision: Any) -> list[tuple[str, str, str | None]]:
    """Return type, status and reason of a decision's conditions; None: a reason of no code."""
    found: list[tuple[str, str, str | None]] = []
    for k in range(4):
        code = int(decision[f"condition_{k}"])
        if code == NO_CONDITION:
            continue
        words = CONDITIONS.get(code)
        if words is None:
            assert code & 15 in (OTHER_TRUE, OTHER_FALSE)
            found.append((_TYPES[code >> 4], str(code & 15 == OTHER_TRUE), None))
        else:
            found.append((words.type, words.status, words.reason))
    return found


def check_pass(result: PassResult, theirs: dict[PodKey, Json], world: World, labels: bool) -> None:
    keys = list(zip(result.namespaces, result.names, strict=True))
    assert keys == sorted(theirs)
    for h, key in enumerate(keys):
        own, decision = theirs[key], result.decisions[h]
        where = (key, result.now_ms, result.binding(h), own)
        assert int(decision.desired) == own["desired_replicas"], where
        assert int(decision.current) == own["status_current_replicas"], where
        assert bool(decision.rescaled) == own["rescaled"], where
        expected = [c for c in own["conditions"] if c["type"] in CONDITION_TYPES]
        said = conditions_of(decision)
        assert [c[:2] for c in said] == [(c["type"], c["status"]) for c in expected], where
        for (_, _, reason), condition in zip(said, expected, strict=True):
            assert reason in (None, condition["reason"]), where
        if labels and "unknown" not in own:
            assert ERRORS[result.error[h]] == own["error_label"], where
            assert ACTIONS[result.action[h]] == own["action_label"], where
        why = result.why(h)
        assert why
        document = result.document(h)
        if world.hpas[key]["metadata"].get("followed"):
            shown = hpa_of(world.hpas[key] | {"status": status_document(own["status"])})
            assert document.status == shown.status, where


@pytest.mark.parametrize("k8s", VERSIONS)
@pytest.mark.parametrize("seed", range(effort(1)))
def test_a_random_life_equals_its_twin(k8s: str, seed: int) -> None:
    number = VERSIONS.index(k8s)
    twins, decided = Twins(seed * 100 + number, k8s, zero=(seed + number) % 2 == 0), 0
    for _ in range(60):
        twins.world.step()
        result, theirs = twins.decide()
        check_pass(result, theirs, twins.world, twins.naive.rules.partial_failure_returned)
        twins.follow(theirs)
        decided += len(result)
    assert decided > 100


# ---- taken up --------------------------------------------------------------------------------


def listed(world: World) -> list[Change]:
    """Return everything that is there, as a loop that begins finds it, in any order."""
    found = world.everything()
    world.rng.shuffle(found)
    return [replace(change, listed=True, seen_ms=world.now_ms) for change in found]


@pytest.mark.parametrize("k8s", ["1.20", "1.36", "1.38"])
@pytest.mark.parametrize("seed", range(effort(2)))
def test_a_loop_that_is_taken_up_decides_as_one_that_went_on(
    k8s: str, seed: int, tmp_path: Path
) -> None:
    twins = Twins(seed + 50, k8s, zero=seed % 2 == 1)
    rules, flags = twins.naive.rules, to_flags(FLAGS)
    state, second, compared, first = tmp_path / "state", None, 0, False
    known: set[PodKey] = set()
    skipped: set[PodKey] = set()
    for step in range(70):
        twins.world.step()
        changes = [change for change, _ in twins.world.changes]
        result, theirs = twins.decide()
        if second is not None:
            second.apply(changes)
            again = second.decide(result.now_ms, twins.last_answers)
            assert (again.namespaces, again.names) == (result.namespaces, result.names)
            keys = list(zip(result.namespaces, result.names, strict=True))
            if first:  # of one that is new nothing is taken up
                skipped |= {key for key in keys if key not in known}
            same = [h for h, key in enumerate(keys) if key not in skipped]
            assert_array_equal(again.decisions[same], result.decisions[same])
            assert_array_equal(again.metrics.code, result.metrics.code)
            assert_array_equal(again.spec_replicas, result.spec_replicas)
            assert not again.start
            first, compared = False, compared + len(same)
        if step % 7 == 3:
            twins.decider.save(state, "x")
            second = Decider(rules, flags, load(state, "x"))
            second.apply(listed(twins.world))
            known = set(zip(result.namespaces, result.names, strict=True))
            skipped, first = set(), True
        twins.follow(theirs)
    assert compared > 50


def test_what_came_after_the_last_pass_is_not_saved(tmp_path: Path) -> None:
    state = tmp_path / "state"
    twins = Twins(3, "1.37")
    for _ in range(30):
        twins.world.step()
        twins.decide()
    twins.decider.save(state, "x")
    before = state.read_bytes()
    for _ in range(10):
        twins.world.step()
    twins.decider.apply(change for change, _ in twins.world.take())
    twins.decider.save(state, "x")
    assert load(state, "x").lanes == load_bytes(before, tmp_path).lanes  # type: ignore[union-attr]


def load_bytes(data: bytes, folder: Path) -> Saved:
    (folder / "other").write_bytes(data)
    saved = load(folder / "other", "x")
    assert saved is not None
    return saved


# ---- what must not matter ----------------------------------------------------------------------


def _breaks(monkeypatch: pytest.MonkeyPatch, where: str, key: LaneKey) -> list[bool]:
    """Let a part of a pass raise an error for an HPA, while the returned list says so."""
    broken = [False]
    owner: Any = Lanes if where == "_put_hpa" else decide_module
    whole = getattr(owner, where)

    def breaks(*given: Any) -> Any:
        lanes = {"Columns": lambda: given[0], "PassWords": lambda: given[0].lanes}.get(where)
        keys = [given[1]] if lanes is None else [lane.key for lane in lanes()]
        if broken[0] and key in keys:
            raise ZeroDivisionError("division by zero")
        return whole(*given)

    monkeypatch.setattr(owner, where, breaks)
    return broken


@pytest.mark.parametrize("where", ["_put_hpa", "Columns", "PassWords"])
def test_an_hpa_that_raises_an_error_is_left_out_and_tried_again(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All others are decided as without it."""
    twins, key = Twins(703, "1.37"), ("shop", "api")
    rules = replace(twins.naive.rules, ambiguity_checked=False)
    broken = _breaks(monkeypatch, where, key)
    whole, others = Decider(rules, to_flags(FLAGS)), Decider(rules, to_flags(FLAGS))
    world, story, last = twins.world, "", list[Change]()
    for k in range(60):
        broken[0] = 15 <= k < 35
        world.step()
        changes = [change for change, _ in world.take()]
        changes += last if k == 15 else []  # an event of it, whatever the world does
        last = [c for c in changes if c.kind is Kind.hpa and c.key == key][-1:] or last
        whole.apply(changes)
        others.apply(c for c in changes if c.kind is not Kind.hpa or c.key != key)
        world.draw_answers()
        world.now_ms += 1
        answers = world.answers()
        with_it, without = (d.decide(world.now_ms, answers) for d in (whole, others))
        at = {key: h for h, key in enumerate(zip(with_it.namespaces, with_it.names, strict=True))}
        is_decided = at.pop(key, None) is not None
        assert list(at) == list(zip(without.namespaces, without.names, strict=True))
        rows = list(at.values())
        assert with_it.decisions[rows].tolist() == without.decisions.tolist()
        assert [with_it.why(h) for h in rows] == [without.why(h) for h in range(len(without))]
        said = "".join(p.text for p in with_it.problems if (p.namespace, p.name) == key)
        is_left_out = "ZeroDivisionError: division by zero (test_decide.py:" in said
        story += "-" if is_left_out else "+" if is_decided else " "
    assert "-" not in story[:15] + story[51:], "the pause is 8 passes"
    assert "+" in story[:15]
    assert "-" in story[15:35]
    assert "+" in story[51:]


@pytest.mark.parametrize("window_s", [0, 15, 300, 3600])
@pytest.mark.parametrize("direction", ["scaleUp", "scaleDown"])
def test_windows_of_any_length_over_many_passes(window_s: int, direction: str) -> None:
    """Lists grow beyond their first room, and are overwritten in upstream's order."""
    twins = Twins(window_s, "1.37")
    world, rng = twins.world, random.Random(window_s)
    spec = world.draw_spec() | {"minReplicas": 1, "maxReplicas": 30}
    spec["scaleTargetRef"] = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    target = {"type": "AverageValue", "averageValue": "1"}
    spec["metrics"] = [
        {"type": "External", "external": {"metric": {"name": "q"}, "target": target}}
    ]
    policies = [{"type": "Percent", "value": 50, "periodSeconds": 60}]
    spec["behavior"] = {
        "scaleUp": {"selectPolicy": "Max", "policies": policies},
        "scaleDown": {"selectPolicy": "Max", "policies": policies},
    }
    spec["behavior"][direction]["stabilizationWindowSeconds"] = window_s
    spec["behavior"]["scaleUp"].setdefault("stabilizationWindowSeconds", 0)
    document = document_of("shop", "web", "u", spec)
    document["metadata"]["followed"] = True
    world.put_hpa(document)
    at = ScaleKey("apps", "Deployment", "shop", "web")
    world.put_scale(at, {"replicas": 3, "status_replicas": 3, "selector": "app=web"})
    world.put_pod("shop", world.new_pod("p") | {"labels": {"app": "web"}})
    for _ in range(effort(120)):
        world.now_ms += rng.choice([15_000, 15_000, 15_000, 14_999, 16_001])
        twins.wish = str(rng.randint(0, 40))
        result, theirs = twins.decide()
        check_pass(result, theirs, world, labels=True)
        twins.follow(theirs)


# ---- nothing grows -----------------------------------------------------------------------------


def contained(thing: object, seen: set[int], depth: int = 4) -> dict[str, int]:
    """Return the sizes of all containers within the attributes of a thing."""
    found: dict[str, int] = {}
    if depth == 0 or id(thing) in seen:
        return found
    seen.add(id(thing))
    names = [*getattr(type(thing), "__slots__", ()), *getattr(thing, "__dict__", {})]
    for name in names:
        value = getattr(thing, name, None)
        if isinstance(value, dict | list | set | np.ndarray):
            found[f"{type(thing).__name__}.{name}"] = len(value)
        if type(value).__module__.startswith("hpabatch.") or isinstance(value, Memory):
            found |= contained(value, seen, depth - 1)
    return found


def test_nothing_grows_over_many_passes_with_churn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods, HPAs, namespaces, labels and errors that were never seen before, pass after pass."""
    monkeypatch.setattr("hpabatch.live.record.objects.GONE_KEPT", 500)
    passes = effort(1200)
    decider, clock = Decider(profile_for("1.37"), to_flags(FLAGS)), lambda: 1_790_100_000_000
    recorder = Recorder(tmp_path, "c", segment_s=1e9, compact_every_s=0, clock=clock)
    # What the store itself takes is not the question here.
    monkeypatch.setattr(recorder._writer, "submit", lambda segment: None)
    sizes, kept = [], []
    for k in range(passes):
        churned(decider, recorder, k)
        sizes.append(contained(decider, set()))
        if k % 50 == 49:
            recorder._hand_over()
            streams = sum(len(one.streams) for one in recorder._samples._recorded.values())
            kept.append(contained(recorder, set()) | {"streams": streams})
    assert recorder.close()
    early, late = sizes[: passes // 2], sizes[passes // 2 :]
    assert late[-1].keys() >= {"Lanes.pods", "Lanes._scales", "Texts._texts"}
    for name in late[-1]:
        most = max(size.get(name, 0) for size in early)
        assert max(size[name] for size in late) <= most, name
        assert most <= 10_000, name
    # What nobody asked for is forgotten after an hour, which is 240 passes.
    half = len(kept) // 2
    for name in kept[-1]:
        most = max(size.get(name, 0) for size in kept[:half])
        assert max(size.get(name, 0) for size in kept[half:]) <= 1.2 * most + 60, name


def churned(decider: Decider, recorder: Recorder, k: int) -> None:
    """Make a pass in which half of everything is new, and half of it goes after the next."""
    now_ms = 1_790_000_000_000 + 15_000 * k
    namespace, old = f"ns-{k % 50}-{k}", f"ns-{(k - 2) % 50}-{k - 2}"
    changes = []
    world = World(random.Random(k % 97))
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    for name in ("a", "b"):
        spec = world.draw_spec() | {"scaleTargetRef": target}
        hpa = hpa_of(document_of(namespace, name, "u", spec))
        changes.append(Change(Kind.hpa, (namespace, name), HpaObject(namespace, name, hpa), now_ms))
        changes.append(Change(Kind.hpa, (old, name), None, now_ms))
    at = ScaleKey("apps", "Deployment", namespace, "web")
    selector = f"app=web-{k}" if k % 3 else f"app!=web-{k}"
    scale = ScaleObject(at, 2, 2, selector)
    if k % 5 == 0:
        scale = ScaleObject(at, error=f"failed the {k}th time", code=codes.SCALE_GET_FAILED)
    changes.append(Change(Kind.scale, at, scale, now_ms))
    changes.append(Change(Kind.scale, at._replace(namespace=old), None, now_ms))
    if k % 2:  # the scale goes before its HPAs
        changes.reverse()
    for j in range(3):
        pod = world.new_pod(f"p-{k}-{j}") | {"labels": {"app": f"web-{k}"}}
        pod["containers"][0]["requests"] = {}  # an error that names the pod
        thing = pod_object(namespace, pod)
        changes.append(Change(Kind.pod, (namespace, pod["name"]), thing, now_ms))
        changes.append(Change(Kind.pod, (old, f"p-{k - 2}-{j}"), None, now_ms))
    decider.apply(changes)
    recorder.apply(changes)
    usage = tuple(
        UsageSample(namespace, f"p-{k}-{j}", now_ms, 1000, (ContainerUsage("app", 5, 1000),))
        for j in range(3)
    )
    series = tuple(SeriesSample(f"pod={k}-{j}", now_ms, j) for j in range(5))
    error = "" if k % 2 else f"error number {k}"
    answers: Responses = {
        "": Response(now_ms, () if error else usage, error),
        ExternalMetricKey("shop", f"lag-{k // 50}", ""): Response(now_ms, series),
    }
    result = decider.decide(now_ms + 1, answers)
    recorder.observe(now_ms + 1, answers, decider.outcomes())
    recorder.pass_done(now_ms + 1, result.start)
    assert len(result) <= 4
    assert [result.why(h) for h in range(len(result))]
