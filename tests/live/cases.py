"""A small cluster with a random life: its objects as documents, and the changes that tell of them.

Everything is kept in the form of the naive reference (`tests/reference`), so that it can be read
there as it is; what the live loop is given is made of it here.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

from hpabatch.cluster.objects.types import (
    Change,
    ContainerUsage,
    HpaObject,
    Kind,
    MetricKey,
    PodKey,
    Response,
    Responses,
    ScaleKey,
    ScaleObject,
    Thing,
    UsageSample,
)
from hpabatch.layout import codes
from tests.live.documents import (
    START_MS,
    CustomKey,
    Json,
    custom_answer,
    custom_keys,
    document_of,
    hpa_of,
    pod_object,
    usage_sample,
)
from tests.reference.generate_hpas import draw_behavior
from tests.reference.generate_values import bad_scale_selector, error_text, metric_identifier
from tests.reference.times import format_time

NAMESPACES = ("blue", "shop")
NAMES = ("api", "batch", "web", "web-2")
TARGETS = ("api", "web")
LABELS: tuple[dict[str, str], ...] = (
    {"app": "web", "tier": "front"},
    {"app": "api", "tier": "front", "level": "2"},
    {"app": "web", "track": "canary"},
    {"app": "batch", "level": "7"},
    {},
)
SELECTORS = ("app=web", "app=api", "app=web,tier=front", "app in (api,batch)", "app")
ODD_SELECTORS = ("tier", "!track,app", "level>1", "app notin (web)", "app!=api,app", "app=nothing")


@dataclass
class World:
    """The objects of a cluster now, and the changes since they were last taken.

    `minor`: of the cluster's version; `scales` by key: replicas, status_replicas, selector, error.
    """

    rng: random.Random
    minor: int = 37
    zero: bool = False
    now_ms: int = START_MS
    pods: dict[PodKey, Json] = field(default_factory=dict)
    hpas: dict[PodKey, Json] = field(default_factory=dict)
    problems: dict[PodKey, str] = field(default_factory=dict)
    scales: dict[ScaleKey, Json] = field(default_factory=dict)
    usage: dict[PodKey, Json] = field(default_factory=dict)
    usage_errors: dict[str, str] = field(default_factory=dict)
    custom: dict[CustomKey, Json] = field(default_factory=dict)
    changes: list[tuple[Change, Json | None]] = field(default_factory=list)
    born: int = 0

    # ---- telling

    def take(self) -> list[tuple[Change, Json | None]]:
        """Return the changes since the last call, each with its object's document."""
        taken, self.changes = self.changes, []
        return taken

    def everything(self) -> list[Change]:
        """Return a change for every object that is there."""
        told, self.changes = self.changes, []
        for (namespace, _), pod in self.pods.items():
            self.put_pod(namespace, pod)
        for key, document in list(self.hpas.items()):
            self.put_hpa(document, self.problems.get(key, ""))
        for at, scale in list(self.scales.items()):
            self.put_scale(at, scale)
        found, self.changes = [change for change, _ in self.changes], told
        return found

    def _tell(
        self, kind: Kind, key: PodKey | ScaleKey, thing: Thing | None, document: Json | None = None
    ) -> None:
        self.now_ms += self.rng.choice([0, 0, 1, 7, 300])
        self.changes.append((Change(kind, key, thing, self.now_ms), document))

    def put_pod(self, namespace: str, pod: Json) -> None:
        self.pods[namespace, pod["name"]] = pod
        self._tell(Kind.pod, (namespace, pod["name"]), pod_object(namespace, pod))

    def remove_pod(self, key: PodKey) -> None:
        self.pods.pop(key, None)
        self._tell(Kind.pod, key, None)

    def put_hpa(self, document: Json, problem: str = "") -> None:
        meta = document["metadata"]
        key = (meta["namespace"], meta["name"])
        before = self.hpas.get(key)
        self.hpas[key] = document
        if problem:
            self.problems[key] = problem
        else:
            self.problems.pop(key, None)
        hpa = hpa_of(document)
        if before is not None and before["spec"] == document["spec"] and self.rng.random() < 0.5:
            hpa = replace(hpa, spec=self._last_spec.get(key, hpa.spec))
        self._last_spec[key] = hpa.spec
        self._tell(Kind.hpa, key, HpaObject(*key, hpa, problem), None if problem else document)
        target = document["spec"]["scaleTargetRef"]
        if target["kind"] == "Gadget":
            text = 'no matches for kind "Gadget" in group "apps"'
            at = ScaleKey("apps", "Gadget", key[0], target["name"])
            self.put_scale(at, {"error": text, "code": codes.SCALE_NO_RESOURCE})

    _last_spec: dict[PodKey, Any] = field(default_factory=dict)

    def remove_hpa(self, key: PodKey) -> None:
        self.hpas.pop(key)
        self.problems.pop(key, None)
        self._tell(Kind.hpa, key, None)

    def put_scale(self, key: ScaleKey, scale: Json) -> None:
        self.scales[key] = scale
        if scale.get("error"):
            thing = ScaleObject(key, error=scale["error"], code=scale["code"])
        else:
            sizes = scale["replicas"], scale["status_replicas"]
            thing = ScaleObject(key, *sizes, scale["selector"])
        self._tell(Kind.scale, key, thing, scale)

    def remove_scale(self, key: ScaleKey) -> None:
        self.scales.pop(key, None)
        self._tell(Kind.scale, key, None)

    # ---- drawing

    def step(self, calm: float = 0.0) -> None:
        """Draw what happens until the next pass; `calm`: how often nothing but sizes do."""
        rng = self.rng
        for _ in range(rng.choice([1, 2, 3, 5])):
            if rng.random() < calm:
                self.draw_size()
            else:
                kinds = [self.draw_pod, self.draw_pod_change, self.draw_size, self.draw_hpa]
                rng.choices([*kinds, self.draw_scale], [2, 2, 2, 1, 1])[0]()
        self.now_ms += rng.choice([1, 900, 5000, 15_000, 15_000, 15_000, 31_000, 240_000])

    def draw_pod(self) -> None:
        """A pod comes, goes, or comes anew under its name."""
        rng = self.rng
        namespace = rng.choice(NAMESPACES)
        own = [key for key in self.pods if key[0] == namespace]
        if own and rng.random() < 0.35:
            key = rng.choice(own)
            self.remove_pod(key)
            if rng.random() < 0.6:
                return
            self.put_pod(namespace, self.new_pod(key[1]))
            return
        self.born += 1
        self.put_pod(namespace, self.new_pod(f"p{rng.randint(0, 9)}-{self.born}"))

    def new_pod(self, name: str) -> Json:
        """Return a pod of any kind."""
        rng = self.rng
        pod: Json = {"name": name, "labels": dict(rng.choice(LABELS)), "deletion_timestamp": None}
        return pod | self._pod_state() | self._pod_requests()

    def _pod_state(self) -> Json:
        rng = self.rng
        phase = rng.choice(["Running"] * 8 + ["Pending", "Succeeded", "Failed", "Unknown"])
        started = self.now_ms - rng.choice([0, 5_000, 90_000, 400_000, 86_400_000])
        turned = started + rng.choice([0, 3_000, 20_000, 60_000])
        state: Json = {"phase": phase, "start_time": format_time(started * 1000), "ready": None}
        if rng.random() < 0.1:
            state["start_time"] = None
        if rng.random() < 0.9:
            status = rng.choice(["True"] * 6 + ["False", "Unknown"])
            stamp = format_time(turned * 1000)
            state["ready"] = {"status": status, "last_transition_time": stamp}
        return state

    def _pod_requests(self) -> Json:
        rng = self.rng
        cpu = rng.choice(["100m", "100m", "100m", "250m", "0", "1"])
        requests = {"cpu": cpu, "memory": rng.choice(["64Mi", "64Mi", "7"])}
        if rng.random() < 0.06:
            requests.pop(rng.choice(["cpu", "memory"]))
        found: Json = {"containers": [{"name": "app", "requests": requests}]}
        if rng.random() < 0.3:
            found["containers"].append({"name": "side", "requests": {"cpu": "50m", "memory": "1"}})
        if rng.random() < 0.2:
            sidecar = {"name": "log", "requests": {"cpu": "10m", "memory": "5"}}
            found["init_containers"] = [sidecar | {"restart_policy": "Always"}]
        if rng.random() < 0.1:
            found["pod_requests"] = {"cpu": "300m"}
        return found

    def draw_pod_change(self) -> None:
        """A pod becomes other than it was, in one way or several."""
        rng = self.rng
        if not self.pods:
            return self.draw_pod()
        namespace, name = rng.choice(list(self.pods))
        pod = dict(self.pods[namespace, name])
        if rng.random() < 0.5:
            pod |= self._pod_state()
        if rng.random() < 0.3:
            pod["labels"] = dict(rng.choice(LABELS))
        if rng.random() < 0.2:
            pod = {k: v for k, v in pod.items() if k not in ("init_containers", "pod_requests")}
            pod |= self._pod_requests()
        if rng.random() < 0.15:
            pod["deletion_timestamp"] = format_time(self.now_ms * 1000)
        self.put_pod(namespace, pod)

    def draw_size(self) -> None:
        """A scale that can be read has another size."""
        rng = self.rng
        fine = [key for key, scale in self.scales.items() if not scale.get("error")]
        if not fine:
            return self.draw_scale()
        key = rng.choice(fine)
        scale = dict(self.scales[key])
        if rng.random() < 0.8:
            sizes = [0, 1, 2, 3, 4, 5, 8, 12, 30] if self.zero else [0, 1, 2, 3, 3, 4, 5, 6, 8, 12]
            scale["replicas"] = rng.choice(sizes)
        scale["status_replicas"] = max(0, scale["replicas"] + rng.choice([0, 0, 0, -1, 1]))
        self.put_scale(key, scale)

    def draw_scale(self) -> None:
        """A scale comes, goes, fails or has another selector."""
        rng = self.rng
        namespace, name = rng.choice(NAMESPACES), rng.choice(TARGETS)
        key = ScaleKey("apps", "Deployment", namespace, name)
        if key in self.scales and rng.random() < 0.15:
            return self.remove_scale(key)
        if rng.random() < 0.2:
            error = {"error": error_text(rng), "code": codes.SCALE_GET_FAILED}
            return self.put_scale(key, error)
        size = rng.randint(1, 6)
        selector = rng.choice(SELECTORS) if rng.random() < 0.8 else rng.choice(ODD_SELECTORS)
        if rng.random() < 0.6:
            selector = f"app={name}"
        if rng.random() < 0.1:
            selector = bad_scale_selector(rng)
        scale = {"replicas": size, "status_replicas": size, "selector": selector}
        return self.put_scale(key, scale)

    def draw_hpa(self) -> None:
        """An HPA comes, goes, comes anew, is edited, refused or mended."""
        rng = self.rng
        key = (rng.choice(NAMESPACES), rng.choice(NAMES))
        known = self.hpas.get(key)
        if known is None:
            return self.put_hpa(self._new_hpa(key))
        draw = rng.random()
        if draw < 0.2:
            self.remove_hpa(key)
            if rng.random() < 0.4:
                spec = known["spec"] if rng.random() < 0.5 else self.draw_spec()
                self.put_hpa(document_of(*key, self._uid(), spec))
            return None
        if draw < 0.27:
            return self.put_hpa(known, problem="spec.maxReplicas: must be greater than 0")
        if draw < 0.5:
            status = self._status()
            if known["metadata"].get("followed"):
                status = known["status"]
            return self.put_hpa(known | {"status": status})
        spec, fresh = dict(known["spec"]), self.draw_spec()
        for part in rng.choice(
            [["minReplicas", "maxReplicas"], ["metrics"], ["behavior"], [*spec]]
        ):
            if part in fresh:
                spec[part] = fresh[part]
            else:
                spec.pop(part, None)
        generation = known["metadata"]["generation"] + 1
        return self.put_hpa(
            known | {"spec": spec, "metadata": known["metadata"] | {"generation": generation}}
        )

    def _uid(self) -> str:
        self.born += 1
        return f"uid-{self.born}"

    def _new_hpa(self, key: PodKey) -> Json:
        rng = self.rng
        followed = rng.random() < 0.5
        status = {} if followed or rng.random() < 0.5 else self._status()
        document = document_of(*key, self._uid(), self.draw_spec(), status)
        document["metadata"]["followed"] = followed
        return document

    def _status(self) -> Json:
        rng = self.rng
        stamp = format_time((self.now_ms - rng.randint(0, 10**6)) // 1000 * 1_000_000)
        kinds = [("AbleToScale", "True", "ReadyForNewScale"), ("ScalingActive", "False", "Other")]
        kinds += [("ScalingActive", "True", "ValidMetricFound"), ("Odd", "True", "New")]
        if self.zero and self.minor >= 36:
            kinds += [("ScaledToZero", "True", "ScaledToZero")] * 3
        chosen = {c[0]: c for c in rng.sample(kinds, rng.randint(0, len(kinds)))}
        conditions = [
            {"type": t, "status": s, "reason": r, "message": "m", "lastTransitionTime": stamp}
            for t, s, r in chosen.values()
        ]
        size = rng.randint(0, 8)
        return {
            "currentReplicas": size, "desiredReplicas": size, "conditions": conditions,
            "lastScaleTime": stamp, "observedGeneration": size,
        }  # fmt: skip

    def draw_spec(self) -> Json:
        """Return a spec after defaulting."""
        rng = self.rng
        most = rng.choice([3, 6, 6, 12, 100])
        least = 0 if self.zero and rng.random() < 0.7 else rng.choice([1, 1, 2, 3])
        target: Json = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": rng.choice(TARGETS),
        }
        if rng.random() < 0.03:
            target["kind"] = "Gadget"
        count = rng.choice([1, 1, 2, 3])
        spec: Json = {
            "scaleTargetRef": target,
            "minReplicas": least,
            "maxReplicas": max(most, least),
            "metrics": [self._metric(k) for k in range(count)],
        }
        behavior = draw_behavior(rng)
        if behavior is not None:
            spec["behavior"] = behavior
        return spec

    def _metric(self, k: int) -> Json:
        rng = self.rng
        kinds = ["Resource"] * 3 + ["Pods", "Object", "External"]
        kinds += ["ContainerResource"] * (self.minor > 26)
        kind = rng.choice(kinds)
        if self.zero and k == 0:
            kind = rng.choice(["External", "Object"])
        if rng.random() < 0.03:
            return {"type": "Bogus"}
        if kind in ("Resource", "ContainerResource"):
            name = rng.choice(["cpu", "cpu", "memory"])
            target: Json = {"type": "Utilization", "averageUtilization": rng.choice([50, 80, 150])}
            if rng.random() < 0.3:
                size = "100Mi" if name == "memory" else "75m"
                target = {"type": "AverageValue", "averageValue": size}
            source: Json = {"name": name, "target": target}
            if kind == "ContainerResource":
                source["container"] = rng.choice(["app", "app", "side"])
            return {"type": kind, "resource" if kind == "Resource" else "containerResource": source}
        metric = metric_identifier(rng, rng.choice(["load", "rps"]))
        text = rng.choice(["1", "2", "500m", "30"])
        target = {"type": "AverageValue", "averageValue": text}
        if kind != "Pods" and rng.random() < 0.4:
            target = {"type": "Value", "value": text}
        source = {"metric": metric, "target": target}
        if kind == "Object":
            of = rng.choice(["Service", "Ingress"])
            source["describedObject"] = {"apiVersion": "v1", "kind": of, "name": "main"}
        return {"type": kind, kind.lower(): source}

    # ---- the metrics APIs

    def draw_answers(self) -> None:
        """Draw what the metrics APIs say in this pass."""
        rng = self.rng
        self.usage_errors = {}
        if rng.random() < 0.1:
            self.usage_errors = dict.fromkeys([rng.choice([*NAMESPACES, ""])], error_text(rng))
        lazy = rng.choice([0.0, 0.1, 0.1, 0.4, 1.0])
        self.usage = {
            key: self._usage(pod) for key, pod in self.pods.items() if rng.random() > lazy
        }
        for key in list(self.usage):
            if rng.random() < 0.05:
                self.usage[key]["containers"].pop("app")
        self.custom = {}
        wanted = {k for hpa in self.hpas.values() for k in custom_keys(hpa)}
        for custom in sorted(wanted, key=repr):
            self.custom[custom] = self._custom(custom)

    def _stamp(self) -> str:
        return format_time((self.now_ms // 1000 - self.rng.randint(0, 70)) * 1_000_000)

    def _usage(self, pod: Json) -> Json:
        rng = self.rng
        names = [c["name"] for c in pod["containers"] + pod.get("init_containers", [])]
        load = rng.choice([0, 20, 60, 60, 110, 300])
        usage = {
            name: {"cpu": f"{load + k}m", "memory": f"{load + k}Mi"} for k, name in enumerate(names)
        }
        if rng.random() < 0.05:
            usage[rng.choice(names)].pop("cpu")
        if rng.random() < 0.03:
            usage[names[0]]["memory"] = rng.choice(["8Ei", "9223372036854775807m", "1e18"])
        return {
            "timestamp": self._stamp(),
            "window_s": rng.choice([None, 15, 30]),
            "containers": usage,
        }

    def _custom(self, kind_and_key: CustomKey) -> Json:
        rng, (kind, key) = self.rng, kind_and_key
        if rng.random() < 0.12:
            return {"metrics_error": error_text(rng)}
        if kind == "Object":
            return {"object_value": rng.choice(["0", "1", "3", "2500m", "8", "1e18"])}
        if kind == "External":
            values = [
                rng.choice(["0", "1", "3", "2500m", "40"])
                for _ in range(rng.choice([0, 1, 1, 2, 3]))
            ]
            return {"external_values": values}
        lazy = rng.choice([0.0, 0.2, 1.0])
        own = [name for namespace, name in self.pods if namespace == key.namespace]
        found = {}
        for name in own:
            if rng.random() >= lazy:
                value, window = rng.choice(["0", "1", "2", "750m"]), rng.choice([None, 0, 30])
                found[name] = {"timestamp": self._stamp(), "window_s": window, "value": value}
        return {"pod_metrics": found}

    def answers(self) -> Responses:
        """Return the same as the fetcher gives it."""
        at = self.now_ms
        items = {
            namespace: tuple(
                usage_sample(*key, item) for key, item in self.usage.items() if key[0] == namespace
            )
            for namespace in NAMESPACES
        }
        stray = UsageSample(NAMESPACES[0], "unknown", at, None, (ContainerUsage("app", 1, 1),))
        found: dict[MetricKey, Response] = {
            "": Response(at, (stray, *(item for part in items.values() for item in part)))
        }
        if "" in self.usage_errors:
            found = {"": Response(at, error=self.usage_errors[""])}
        elif self.usage_errors or self.rng.random() < 0.3:
            found = {
                namespace: Response(at, error=self.usage_errors[namespace])
                if namespace in self.usage_errors
                else Response(at, part)
                for namespace, part in items.items()
            }
        for (_, key), answer in self.custom.items():
            found[key] = custom_answer(at, answer)
        return found

    def usage_error(self, namespace: str) -> str:
        """Return why a namespace's usage was not answered, "" if it was."""
        return self.usage_errors.get("") or self.usage_errors.get(namespace, "")
