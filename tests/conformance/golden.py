"""Golden cases (data of the real controller) as objects that `tests.packed` takes.

The form of the data is the one that their FORMAT.md describes. Nothing here decides anything: the
adapter reads quantities, times and documents through the package and hands them on.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from hpabatch.kernels.steps import add_container
from hpabatch.layout import codes
from hpabatch.model import messages
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.hpa import HPA, HPASpec, MetricSpec
from hpabatch.model.objects.stored import as_stored, stored_order
from hpabatch.model.quantity import Quantity
from hpabatch.model.requests import ContainerRequests
from hpabatch.model.selectors import parse_selector, selector_words
from hpabatch.model.versions import (
    NEWEST_K8S,
    PROFILES,
    ControllerFlags,
    Profile,
    override_gates,
    profile_for,
)
from tests.packed import LaneView, MetricAnswer, PodResources, PodSample, PodView, TickView

Json = dict[str, Any]

COMMITTED = Path(__file__).parent / "golden"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_USUAL_SELECTOR = "app=web"
_NEWEST = PROFILES[NEWEST_K8S]
# The minor version since which a feature gate can be named at all.
_GATES_SINCE = {
    "HPAConfigurableTolerance": 33,
    "PodLevelResources": 34,
    "HPAScaleToZero": 36,
    "HPAGeneration": 37,
    "HPAOptimizedSelectorStore": 37,
}
# The kinds that the oracle's REST mapper knows.
_KNOWN_TARGETS = {
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("", "ReplicationController"),
}


def golden_folder() -> Path:
    """Return the folder of golden files: HPABATCH_GOLDEN, else the committed part."""
    return Path(os.environ.get("HPABATCH_GOLDEN") or COMMITTED)


def golden_files(kind: str) -> list[Path]:
    """Return the files of one kind: calculator, timeline or behavior."""
    folder = golden_folder()
    if not folder.is_dir():
        raise NotADirectoryError(f"HPABATCH_GOLDEN={folder}: not a folder")
    files = [*folder.glob(f"{kind}*.jsonl"), *folder.glob(f"{kind}*.jsonl.gz")]
    return sorted(files)


def read_rows(path: Path) -> Iterator[Json]:
    """Yield the rows of a JSON Lines file, gzipped or not, one at a time."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            yield json.loads(line)


@lru_cache(maxsize=200_000)
def to_ms(text: str) -> int:
    """Return an RFC 3339 time as ms since 1970; the year 1 (Go's zero time) works."""
    delta = datetime.fromisoformat(text.replace("Z", "+00:00")) - _EPOCH
    return delta.days * 86_400_000 + delta.seconds * 1000 + delta.microseconds // 1000


def optional_ms(text: str | None) -> int | None:
    """Return a time that may be unset."""
    return None if text is None else to_ms(text)


def zero_ms(text: str | None) -> int:
    """Return a time that is Go's zero time where it is not given."""
    return to_ms(text or "0001-01-01T00:00:00Z")


@lru_cache(maxsize=100_000)
def to_milli(text: str) -> int:
    """Return a quantity string in milli."""
    return Quantity.parse(text).milli()


def to_flags(flags: Json) -> ControllerFlags:
    """Return the controller flags of a case; an absent downscale window is really 0."""
    return ControllerFlags(
        tolerance=float(flags.get("tolerance") or 0),
        cpu_initialization_period_ms=(flags.get("cpu_initialization_period_s") or 0) * 1000,
        initial_readiness_delay_ms=(flags.get("initial_readiness_delay_s") or 0) * 1000,
        downscale_stabilization_ms=(flags.get("downscale_stabilization_s") or 0) * 1000,
    )


def to_profile(k8s: str, flags: Json) -> Profile:
    """Return a version's profile with the case's feature gates, as far as it knows them."""
    given = flags.get("feature_gates")
    if given is None:
        given = {"HPAScaleToZero": bool(flags.get("hpa_scale_to_zero"))}
    known = {gate for gate, since in _GATES_SINCE.items() if _minor(k8s) >= since}
    wanted = [f"{gate}={str(on).lower()}" for gate, on in given.items() if gate in known]
    return override_gates(profile_for(k8s), ",".join(wanted))


def _minor(version: str) -> int:
    return int(version.split(".")[1])


def to_requests(requests: Mapping[str, str] | None) -> dict[str, Quantity]:
    """Return a requests map with parsed quantities."""
    return {name: Quantity.parse(text) for name, text in (requests or {}).items()}


def to_containers(containers: list[Json] | None) -> tuple[ContainerRequests, ...]:
    """Return containers as far as their requests go."""
    return tuple(
        ContainerRequests(c["name"], to_requests(c.get("requests")), c.get("restart_policy"))
        for c in containers or ()
    )


def to_resources(pod: Json) -> PodResources:
    """Return what a pod (or a timeline, for all its pods) says of requests."""
    level = pod.get("pod_requests")
    return PodResources(
        to_containers(pod.get("containers")),
        to_containers(pod.get("init_containers")),
        None if level is None else to_requests(level),
    )


def to_pod(pod: Json, resources: PodResources | None = None) -> PodView:
    """Return a pod; in timelines all pods share their containers."""
    ready = pod.get("ready")
    own = "containers" in pod or "pod_requests" in pod or resources is None
    return PodView(
        name=pod["name"],
        phase=pod.get("phase", ""),
        resources=to_resources(pod) if own or resources is None else resources,
        deleting=pod.get("deletion_timestamp") is not None,
        start_ms=optional_ms(pod.get("start_time")),
        ready=ready and ready["status"],
        transition_ms=ready and zero_ms(ready.get("last_transition_time")),
    )


def _resource_sample(sample: Json, resource: str, container: str | None) -> PodSample | None:
    usages = sample.get("containers") or {}
    if container is not None:
        usages = {container: usages[container]} if container in usages else {}
    present, value = 1, 0
    for usage in usages.values():
        milli = to_milli(usage[resource]) if resource in usage else 0
        present, value = add_container(present, value, int(resource in usage), milli)
    if not usages or not present:
        return None
    window_ms = (sample.get("window_s") or 0) * 1000
    return PodSample(int(value), zero_ms(sample.get("timestamp")), window_ms)


def _custom_sample(sample: Json) -> PodSample:
    window = sample.get("window_s")
    window_ms = 60_000 if window is None else window * 1000
    return PodSample(to_milli(sample["value"]), zero_ms(sample.get("timestamp")), window_ms)


def _lacking_container(metric: MetricSpec, items: Json, namespace: str) -> str:
    """Return what old versions say of the first sample without the metric's container, if any."""
    named = metric.container_resource
    if named is None:
        return ""
    for name, item in items.items():
        if named.container not in (item.get("containers") or {}):
            return messages.lacking_container(named.container, namespace, name)
    return ""


def to_answer(
    metric: MetricSpec, data: Json, profile: Profile = _NEWEST, namespace: str = "default"
) -> MetricAnswer:
    """Return what the metrics API answered for a metric."""
    if data.get("metrics_error") is not None:
        return MetricAnswer(codes.METRIC_FETCH_FAILED, error=data["metrics_error"])
    if metric.type in ("Object", "External"):
        texts = data.get("external_values") or ()
        if metric.type == "Object":
            texts = [data["object_value"]] if data.get("object_value") is not None else []
        code = codes.METRIC_OK if texts else codes.METRIC_ANSWER_EMPTY
        return MetricAnswer(code, values_milli=tuple(to_milli(text) for text in texts))
    items = data.get("pod_metrics") or {}
    lacking = "" if profile.container_may_lack else _lacking_container(metric, items, namespace)
    if lacking:
        return MetricAnswer(codes.METRIC_CONTAINER_LACKS, error=lacking)
    member = metric.resource or metric.container_resource
    named = metric.container_resource
    container = named.container if named else None
    samples = {}
    for name, item in items.items():
        sample = _resource_sample(item, member.name, container) if member else _custom_sample(item)
        if sample is not None:
            samples[name] = sample
    return MetricAnswer(codes.METRIC_OK if items else codes.METRIC_ANSWER_EMPTY, samples)


def decode(document: Json) -> HPA:
    """Return the HPA of a golden document; its metrics may be invalid on purpose."""
    hpa, _ = decode_hpa(document)
    return hpa


def calculator_lane(case: Json, profile: Profile = _NEWEST) -> LaneView:
    """Return a calculator case as a lane of one tick; the metric as the store hands it back."""
    behavior: Json | None = None
    for name, field in (("scale_up_tolerance", "scaleUp"), ("scale_down_tolerance", "scaleDown")):
        if case["flags"].get(name) is not None:
            behavior = (behavior or {}) | {field: {"tolerance": case["flags"][name]}}
    spec: Json = {
        "scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"},
        "maxReplicas": 1,
        "metrics": [case["metric"]],
        "behavior": behavior,
    }
    document = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}
    hpa_spec = as_stored(decode(document).spec, profile)
    tick = TickView(
        now_ms=to_ms(case["now"]),
        spec=0,
        replicas=case.get("spec_replicas") or 0,
        status_replicas=case.get("status_replicas") or 0,
        pods=[to_pod(pod) for pod in case.get("pods") or ()],
        answers=[to_answer(hpa_spec.metrics[0], case, profile)],
    )
    return LaneView([hpa_spec], [tick])


def _scale_problem(tick: Json, spec: HPASpec) -> tuple[int, str]:
    """Return what happens to the scale in a tick, and the error's text."""
    target = spec.scale_target_ref
    if target.api_version.count("/") > 1:
        return codes.SCALE_BAD_VERSION, f"unexpected GroupVersion string: {target.api_version}"
    group = target.api_version.rpartition("/")[0]
    if (group, target.kind) not in _KNOWN_TARGETS:
        text = f'no matches for kind "{target.kind}" in group "{group}"'
        return codes.SCALE_NO_RESOURCE, text
    if tick.get("scale_get_error") is not None:
        return codes.SCALE_GET_FAILED, tick["scale_get_error"]
    if tick.get("scale_update_error") is not None:
        return codes.SCALE_UPDATE_FAILED, tick["scale_update_error"]
    return codes.SCALE_OK, ""


def selector_text(tick: Json, usual: str) -> str:
    """Return the selector in the scale of a tick."""
    text = tick.get("selector")
    return usual if text is None else str(text)


def _selector_problem(text: str, profile: Profile) -> tuple[int, str]:
    """Return what is wrong with the selector of a scale, and the error's text."""
    if text == "":
        return codes.SELECTOR_MISSING, ""
    try:
        parse_selector(text, selector_words(profile))
    except ValueError as error:
        return codes.SELECTOR_INVALID, str(error)
    return codes.SELECTOR_OK, ""


def selected_pods(tick: Json, text: str) -> list[Json]:
    """Return the pods that a selector selects, those without labels always; none by a bad one."""
    pods = tick.get("pods") or []
    if all(pod.get("labels") is None for pod in pods):
        return list(pods)
    try:
        selector = parse_selector(text)
    except ValueError:
        return []
    return [pod for pod in pods if pod.get("labels") is None or selector.matches(pod["labels"])]


class HPALane:
    """One HPA's specs, as ticks edit them, and its ticks so far."""

    def __init__(self, timeline: Json, profile: Profile) -> None:
        """Take what all HPAs of the timeline share."""
        self.profile = profile
        self.resources = to_resources(timeline)
        self.specs: list[HPASpec] = []
        self.generations: list[int] = []
        self.ticks: list[TickView] = []
        self._orders: list[tuple[int | None, ...]] = []

    def begin(self, document: Json, usual_selector: str = _USUAL_SELECTOR) -> None:
        """Begin with an HPA, which may have been deleted and created anew, without a status."""
        self._recreated = bool(self.specs)
        self._document, self._usual_selector = document, usual_selector
        self._spec: Json = dict(document["spec"])
        self._namespace = (document.get("metadata") or {}).get("namespace") or "default"
        self._add((document.get("metadata") or {}).get("generation") or 0)

    def _add(self, generation: int) -> None:
        written = decode(self._document | {"spec": self._spec}).spec
        self.specs.append(as_stored(written, self.profile))
        self._orders.append(stored_order(written, self.profile))
        self.generations.append(generation)

    def _edit(self, tick: Json) -> None:
        """Apply what a tick edits; what changes nothing is no spec of its own."""
        edited = dict(self._spec)
        if tick.get("set_behavior") is not None:
            edited["behavior"] = tick["set_behavior"]
        if tick.get("remove_behavior"):
            edited.pop("behavior", None)
        for key, field in (
            ("set_min_replicas", "minReplicas"),
            ("set_max_replicas", "maxReplicas"),
            ("set_metrics", "metrics"),
        ):
            if tick.get(key) is not None:
                edited[field] = tick[key]
        generation = self.generations[-1]
        if tick.get("set_generation") is not None:
            generation = tick["set_generation"]
        if edited != self._spec or generation != self.generations[-1]:
            self._spec = edited
            self._add(generation)

    def add(self, tick: Json) -> TickView:
        """Add a tick as the controller sees it."""
        self._edit(tick)
        spec, order = self.specs[-1], self._orders[-1]
        text = selector_text(tick, self._usual_selector)
        scale, wrong_scale = _scale_problem(tick, spec)
        selector, wrong_selector = _selector_problem(text, self.profile)
        data = tick.get("metrics") or ()
        answers = [data[k] if k is not None and k < len(data) else {} for k in order]
        view = TickView(
            now_ms=to_ms(tick["now"]),
            spec=len(self.specs) - 1,
            replicas=tick.get("spec_replicas") or 0,
            status_replicas=tick.get("status_replicas") or 0,
            pods=[to_pod(pod, self.resources) for pod in selected_pods(tick, text)],
            answers=[
                to_answer(metric, answer, self.profile, self._namespace)
                for metric, answer in zip(spec.metrics, answers, strict=True)
            ],
            scale=scale,
            selector=selector,
            restart=bool(tick.get("restart")),
            recreated=self._recreated,
            scale_error=wrong_scale,
            selector_error=wrong_selector,
        )
        self._recreated = False
        self.ticks.append(view)
        return view

    def view(self) -> LaneView:
        """Return all of it as a lane."""
        return LaneView(self.specs, self.ticks)


def hpa_lane(timeline: Json, profile: Profile = _NEWEST) -> HPALane:
    """Return a whole-controller sequence of one HPA."""
    lane = HPALane(timeline, profile)
    lane.begin(timeline["hpa"], timeline.get("selector") or _USUAL_SELECTOR)
    for tick in timeline["ticks"]:
        lane.add(tick)
    return lane


def timeline_lane(timeline: Json, profile: Profile = _NEWEST) -> LaneView:
    """Return a whole-controller sequence as a lane."""
    return hpa_lane(timeline, profile).view()
