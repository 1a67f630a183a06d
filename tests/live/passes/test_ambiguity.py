"""The selectors that a running controller has seen, against the store of the replays."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from hpabatch.cluster.objects.types import Change, HpaObject, Kind, PodKey, ScaleKey, ScaleObject
from hpabatch.layout import codes
from hpabatch.live.passes.columns import PodColumns
from hpabatch.live.passes.decide import Registry
from hpabatch.live.passes.lanes import Lane, Lanes
from hpabatch.model.versions import Profile, profile_for
from tests.conformance.selector_store import SelectorStore
from tests.effort import effort
from tests.live.documents import document_of, hpa_of, pod_object

NAMESPACES = ("blue", "shop")
NAMES = ("a", "b", "c", "d")
SELECTORS = ("app=x", "app=y", "app", "app in (x,y)", "tier", "app!=x", "app=(", "")
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}


def hpa_object(key: PodKey, uid: str, target: str) -> HpaObject:
    ref = {"apiVersion": "apps/v1", "kind": "Deployment", "name": target}
    spec = {"scaleTargetRef": ref, "minReplicas": 1, "maxReplicas": 9, "metrics": [METRIC]}
    return HpaObject(*key, hpa_of(document_of(*key, uid, spec)))


class Both:
    """The registry over lanes, and the store of one controller."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.lanes, self.registry, self.store = Lanes(profile), Registry(profile), SelectorStore()
        self.pods: dict[PodKey, dict[str, str]] = {}
        self.hpas: dict[PodKey, str] = {}
        self.scales: dict[PodKey, str | None] = {}
        self.deleted: set[PodKey] = set()

    def put_pod(self, key: PodKey, labels: dict[str, str]) -> None:
        pod = {"name": key[1], "phase": "Running", "labels": labels}
        self.pods[key] = labels
        self.lanes.apply(Change(Kind.pod, key, pod_object(key[0], pod), 1))

    def remove_pod(self, key: PodKey) -> None:
        del self.pods[key]
        self.lanes.apply(Change(Kind.pod, key, None, 1))

    def put_hpa(self, key: PodKey, uid: str) -> None:
        self.hpas[key] = uid
        self.store.register(*key)
        self.lanes.apply(Change(Kind.hpa, key, hpa_object(key, uid, key[1]), 1))

    def remove_hpa(self, key: PodKey) -> None:
        del self.hpas[key]
        self.store.forget(*key)
        self.lanes.apply(Change(Kind.hpa, key, None, 1))

    def put_scale(self, key: PodKey, selector: str | None) -> None:
        """Let a target have a selector; None: it cannot be read."""
        self.scales[key] = selector
        at = ScaleKey("apps", "Deployment", *key)
        scale = ScaleObject(at, 1, 1, selector or "")
        if selector is None:
            scale = ScaleObject(at, error="no", code=codes.SCALE_GET_FAILED)
        self.lanes.apply(Change(Kind.scale, at, scale, 1))

    def found(self, lanes: Sequence[Lane], reached: Sequence[bool]) -> dict[int, str]:
        pods = PodColumns(self.lanes.pods)
        members = [pods.matching(lane.key[0], lane.selects) for lane in lanes]
        return self.registry.check(lanes, reached, pods, members)

    def check(self, asked: dict[PodKey, bool]) -> None:
        """Make a pass in which some HPAs ask their metrics, and compare."""
        self.lanes.drop_gone()
        lanes = list(self.lanes)
        assert [lane.key for lane in lanes] == sorted(self.hpas)
        usable = [
            lane.selector == codes.SELECTOR_OK and self.scales.get(lane.key) is not None
            for lane in lanes
        ]
        reached = [fine and asked[lane.key] for fine, lane in zip(usable, lanes, strict=True)]
        found = self.found(lanes, reached)
        for h, lane in enumerate(lanes):
            if reached[h]:
                own = [labels for key, labels in self.pods.items() if key[0] == lane.key[0]]
                text = self.scales[lane.key] or ""
                said = self.store.check(*lane.key, text, own, self.profile)
                assert said == (said.code, found.get(h, "")), (lane.key, found)
            else:
                assert h not in found
        self.lanes.close_pass()


@pytest.mark.parametrize("k8s", ["1.20", "1.26", "1.36", "1.37", "1.38"])
@pytest.mark.parametrize("seed", range(effort(6)))
def test_any_syncs_say_what_the_store_says(seed: int, k8s: str) -> None:
    rng, both = random.Random(seed), Both(profile_for(k8s))
    uid = 0
    for _ in range(80):
        for _ in range(rng.randint(0, 4)):
            key = (rng.choice(NAMESPACES), rng.choice(NAMES))
            draw = rng.random()
            if draw < 0.35:
                labels = {k: rng.choice("xyz") for k in ("app", "tier") if rng.random() < 0.7}
                both.put_pod((key[0], f"p{rng.randint(0, 5)}"), labels)
            elif draw < 0.45 and both.pods:
                both.remove_pod(rng.choice(list(both.pods)))
            elif draw < 0.75:
                both.put_scale(key, rng.choice([*SELECTORS, None]))
            elif key not in both.hpas:
                uid += 1
                both.put_hpa(key, f"uid-{uid}")
            elif rng.random() < 0.4:
                both.remove_hpa(key)
                if rng.random() < 0.5:
                    uid += 1
                    both.put_hpa(key, f"uid-{uid}")
        asked = {(n, name): rng.random() < 0.8 for n in NAMESPACES for name in NAMES}
        both.check(asked)
