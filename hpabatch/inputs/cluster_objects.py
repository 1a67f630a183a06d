"""Objects of a cluster as `kubectl get deploy,sts,rs,ds,hpa,pods,pdb -A -o yaml` prints them.

Files may hold lists, several documents, YAML or JSON, and old API versions. Each object is decoded
as one of a running cluster is. A custom resource with a size, such as an Argo Rollout, is a
workload, too. Other kinds are counted. The objects say what is so now; when that was, they do not
say.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec
from yaml.nodes import Node

from hpabatch.cluster.objects.decoders import (
    BUILT_IN,
    REPLICATION_CONTROLLER,
    BudgetObject,
    Domains,
    HpaDecoder,
    PodDecoder,
    WorkloadDecoder,
    availability_of_pods,
    owner_text,
    read_budget,
    read_node_labels,
    read_spreads,
    read_template,
)
from hpabatch.cluster.objects.objects import (
    UNREADABLE,
    BrokenObjectError,
    Meta,
    key_of,
    string_map,
)
from hpabatch.cluster.objects.rows import workload_of
from hpabatch.cluster.objects.types import (
    HpaObject,
    PodKey,
    PodObject,
    PodTemplate,
    ScaleObject,
    group_of,
)
from hpabatch.inputs.documents import Mistakes, MistakesError, place_of, read_text, show
from hpabatch.inputs.manifest_documents import (
    DocumentError,
    expand,
    parse_documents,
    parse_json,
    split_documents,
)
from hpabatch.inputs.manifests import MAX_BYTES, manifest_files
from hpabatch.model.availability import Availability, Spread
from hpabatch.model.objects.decode import KIND as HPA_KIND
from hpabatch.model.objects.hpa import HPA

COMMAND: Final = "kubectl get deploy,sts,rs,ds,hpa,pods,pdb -A -o yaml"
BUDGET_KIND: Final = "PodDisruptionBudget"
DAEMON_SET: Final = ("apps", "DaemonSet")
_EXTENSIONS: Final = "extensions"
_KINDS: Final = ("Deployment", "StatefulSet", "DaemonSet", "ReplicationController", "ReplicaSet")
"""Kinds of workloads in the order in which a bare name is taken for one of them."""

# Letters of generated names: apimachinery util/rand, which leaves out vowels and look-alikes.
GENERATED_LETTERS: Final = "[bcdfghjklmnpqrstvwxz2456789]"
_GENERATED: Final = re.compile(rf"(.+)-{GENERATED_LETTERS}{{5}}")
_HASHED: Final = re.compile(rf"(.+)-{GENERATED_LETTERS}{{1,10}}")
_ORDINAL: Final = re.compile(r"(.+)-(?:0|[1-9][0-9]*)")

WorkloadKey = tuple[str, str, str]
"""Namespace, kind and name."""


@dataclass(frozen=True, slots=True)
class WorkloadObject:
    """A workload: its owner as Kind/name, its scale (None: it has none), and its pod template.

    `labels`, `template` and `spreads` are those of its pods. `template_of` is the Kind/name whose
    template a workload without an own one has, `created` an RFC 3339 time.
    """

    namespace: str
    kind: str
    name: str
    owner: str | None
    scale: ScaleObject | None
    labels: Mapping[str, str]
    template: PodTemplate
    spreads: tuple[Spread, ...] = ()
    template_of: str | None = None
    created: str = ""


@dataclass(frozen=True)
class ClusterObjects:
    """The objects of some files.

    Attributes:
        hpas: defaulted; those that no controller could use are in `unusable`, with the reason.
        workloads: by namespace, kind and name; extensions' kinds are those of apps.
        pods: by namespace and name.
        budgets: disruption budgets, by namespace and name.
    """

    hpas: Mapping[PodKey, HPA] = field(default_factory=dict)
    unusable: Mapping[PodKey, str] = field(default_factory=dict)
    workloads: Mapping[WorkloadKey, WorkloadObject] = field(default_factory=dict)
    pods: Mapping[PodKey, PodObject] = field(default_factory=dict)
    budgets: Mapping[PodKey, BudgetObject] = field(default_factory=dict)
    domains: Domains = field(default_factory=Domains)
    skipped: Mapping[str, int] = field(default_factory=dict)
    digest: str = ""

    @cached_property
    def by_target(self) -> Mapping[WorkloadKey, tuple[HPA, ...]]:
        """HPAs by their target, in the order of their names."""
        found: dict[WorkloadKey, list[HPA]] = {}
        for (namespace, _), hpa in sorted(self.hpas.items()):
            target = hpa.spec.scale_target_ref
            found.setdefault((namespace, target.kind, target.name), []).append(hpa)
        return {key: tuple(hpas) for key, hpas in found.items()}

    def kind_of(self, namespace: str, name: str) -> str | None:
        """Return the kind of a workload that is known by its name alone, None: there is none."""
        return self._kinds.get((namespace, name))

    @cached_property
    def _kinds(self) -> Mapping[PodKey, str]:
        """Kinds of workloads, those with an HPA first; then of HPAs' targets and pods' owners."""
        place = {kind: index for index, kind in enumerate(_KINDS)}
        known = sorted(
            self.workloads,
            key=lambda key: (key not in self.by_target, place.get(key[1], len(place)), key),
        )
        behind = ((pod.namespace, self._of_pod(pod)) for pod in self.pods.values())
        owners = sorted((space, *owner) for space, owner in behind if owner is not None)
        kinds: dict[PodKey, str] = {}
        for namespace, kind, name in (*known, *sorted(self.by_target), *owners):
            kinds.setdefault((namespace, name), kind)
        return kinds

    def workload_of(self, namespace: str, pod: str) -> tuple[str, str] | None:
        """Return kind and name of the workload behind a pod, None where none is known.

        A pod that is not among the objects, as it is gone, is known by its name: what is generated
        is taken off until an object has the rest as its name.
        """
        known = self.pods.get((namespace, pod))
        if known is not None:
            return self._of_pod(known)
        if (match := _GENERATED.fullmatch(pod)) is not None:
            for kind in ("ReplicaSet", "DaemonSet", "ReplicationController"):
                if (namespace, kind, match[1]) in self.workloads:
                    return self._owner_of(namespace, kind, match[1])
            custom = self.kind_of(namespace, match[1])
            if custom is not None and custom not in _KINDS:
                return custom, match[1]
            behind = _HASHED.fullmatch(match[1])
            above = None if behind is None else self.kind_of(namespace, behind[1])
            if behind is not None and above is not None and above not in _KINDS[1:]:
                return above, behind[1]
        match = _ORDINAL.fullmatch(pod)
        if match is not None and (namespace, "StatefulSet", match[1]) in self.workloads:
            return "StatefulSet", match[1]
        return None

    def _of_pod(self, pod: PodObject) -> tuple[str, str] | None:
        if pod.owner is None:
            return None
        kind, _, name = pod.owner.partition("/")
        if (pod.namespace, kind, name) in self.workloads:
            return self._owner_of(pod.namespace, kind, name)
        return workload_of(pod)

    def _owner_of(self, namespace: str, kind: str, name: str) -> tuple[str, str]:
        owner = self.workloads[namespace, kind, name].owner
        if owner is None:
            return kind, name
        of_kind, _, of_name = owner.partition("/")
        return of_kind, of_name

    def availability_of(self, hpa: HPA) -> Availability | None:
        """Return what keeps the pods of an HPA's target available, None where it is not known."""
        target = hpa.spec.scale_target_ref
        workload = self.workloads.get((hpa.namespace, target.kind, target.name))
        if workload is None:
            return None
        budgets = self.budgets.values()
        return availability_of_pods(
            hpa.namespace, workload.labels, workload.spreads, budgets, self.domains
        )

    def notes(self) -> list[str]:
        """Return sentences on what of the objects is not used."""
        found = []
        if self.unusable:
            (space, name), why = min(self.unusable.items())
            more = f" (and {len(self.unusable) - 1} more)" if len(self.unusable) > 1 else ""
            found.append(f"--objects: HPA {space}/{name}{more} is left out: {why}")
        lost = sorted(
            key for key in self.by_target if key[1] not in _KINDS and key not in self.workloads
        )
        if lost:
            space, kind, name = lost[0]
            more = f" (and {len(lost) - 1} more)" if len(lost) > 1 else ""
            found.append(
                f"--objects: {kind} {space}/{name}{more} has an HPA, and is not there or cannot be "
                "read: its size is not known, its requests are those of its pods alone; add: "
                f"kubectl get {kind.lower()} -A -o yaml"
            )
        return found


class _Template(msgspec.Struct, gc=False):
    metadata: Meta | None = None
    spec: msgspec.Raw = msgspec.Raw()


class _Reference(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""


class _WorkloadSpec(msgspec.Struct, gc=False):
    replicas: msgspec.Raw = msgspec.Raw()
    selector: msgspec.Raw = msgspec.Raw()
    template: _Template | None = None
    workloadRef: _Reference | None = None  # noqa: N815


class _WorkloadStatus(msgspec.Struct, gc=False):
    selector: msgspec.Raw = msgspec.Raw()
    labelSelector: msgspec.Raw = msgspec.Raw()  # noqa: N815


class _Workload(msgspec.Struct, gc=False):
    metadata: Meta | None = None
    spec: _WorkloadSpec | None = None
    status: _WorkloadStatus | None = None


_WORKLOAD: Final = msgspec.json.Decoder(_Workload)


def read_objects(paths: Sequence[str | Path]) -> ClusterObjects:
    """Return the objects of files, and of folders as `load_manifests` reads them.

    Raises:
        MistakesError: a file cannot be read, an object cannot be decoded, or no object is of a kind
            that is used.
    """
    reader, mistakes = _Reader(), Mistakes()
    for path in paths:
        if not Path(path).is_dir():
            with mistakes.gather():
                reader.read_file(path)
            continue
        names = manifest_files(Path(path), lambda error: mistakes.add(f"objects: {error}"))
        for name in names:
            with mistakes.gather():
                reader.read_file(name)
    mistakes.add(*reader.mistakes)
    mistakes.refuse()
    found = reader.found()
    if not (found.hpas or found.unusable or found.workloads or found.pods or found.budgets):
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(found.skipped.items()))
        raise MistakesError(
            [
                f"--objects: expected HPAs, workloads or pods in {' '.join(map(str, paths))}, got "
                f"{kinds or 'no objects'}; write them with: {COMMAND}"
            ]
        )
    return found


class _Reader:
    """Collects the objects of files; mistakes of objects are kept, those of files raised."""

    def __init__(self) -> None:
        self.mistakes: list[str] = []
        self._digest = hashlib.sha256()
        self._hpas = HpaDecoder()
        self._pods = PodDecoder()
        self._found: dict[str, dict[Any, Any]] = {
            "hpa": {}, "workload": {}, "pod": {}, "budget": {}
        }  # fmt: skip
        self._domains = Domains()
        self._skipped: Counter[str] = Counter()

    def found(self) -> ClusterObjects:
        hpas: dict[PodKey, HpaObject] = self._found["hpa"]
        return ClusterObjects(
            hpas={key: one.hpa for key, one in hpas.items() if not one.problem},
            unusable={key: one.problem for key, one in hpas.items() if one.problem},
            workloads=_with_templates(self._found["workload"]),
            pods=self._found["pod"],
            budgets=self._found["budget"],
            domains=self._domains,
            skipped=dict(self._skipped),
            digest=self._digest.hexdigest(),
        )

    def read_file(self, path: str | Path) -> None:
        source = f"objects {path}"
        text = read_text(path, source, MAX_BYTES, pipes=True)
        self._digest.update(text.encode())
        for value, node, offset in _values(text, source):
            place = place_of(value, node, source, offset)
            if isinstance(value, str):
                place.refuse(value, f"write the file with: {COMMAND}")
            assert isinstance(value, Mapping)
            try:
                self._take(value)
            except BrokenObjectError as error:
                self.mistakes.append(place.problem(str(error)))
            except UNREADABLE as error:
                kind = show(value.get("kind"))
                self.mistakes.append(place.problem(f"an object of kind {kind}: {error}"))

    def _take(self, value: Mapping[str, object]) -> None:
        kind, version = value.get("kind"), value.get("apiVersion")
        group = group_of(version) if isinstance(version, str) else ""
        group = "apps" if group == _EXTENSIONS else group
        if kind == HPA_KIND:
            self._put("hpa", kind, self._hpas.decode(_wire(value)).thing)
        elif kind == "Pod" and not group:
            self._put("pod", kind, self._pods.decode(_wire(value)).thing)
        elif kind == BUDGET_KIND and group == "policy":
            self._put("budget", kind, read_budget(_wire(value)))
        elif kind == "Node" and not group:
            self._domains.add(read_node_labels(_wire(value)))
        elif isinstance(kind, str) and (group, kind) in {*BUILT_IN, DAEMON_SET}:
            self._put("workload", kind, _workload(group, kind, _wire(value)))
        elif not (isinstance(kind, str) and self._take_custom(group, kind, value)):
            self._skipped[kind if isinstance(kind, str) and kind else "(no kind)"] += 1

    def _take_custom(self, group: str, kind: str, value: Mapping[str, object]) -> bool:
        """Take a custom resource with a size as a workload; False for one that is no such."""
        spec = value.get("spec")
        if "." not in group or not isinstance(spec, Mapping) or "replicas" not in spec:
            return False
        try:
            self._put("workload", kind, _workload(group, kind, _wire(value)))
        except (BrokenObjectError, *UNREADABLE):
            return False
        return True

    def _put(self, what: str, kind: str, thing: Any) -> None:
        key = (thing.namespace, thing.name)
        place = (thing.namespace, kind, thing.name) if what == "workload" else key
        self._found[what][place] = thing  # (of an object that is given twice the last one counts)


def _values(
    text: str, source: str
) -> Iterator[tuple[Mapping[str, object] | str, Node | None, int]]:
    """Yield the objects of a text with their node and the lines before their document.

    JSON is not parsed as YAML, which takes twenty times as long.
    """
    whole = parse_json(text)
    pieces = [("", 0)] if whole is not None else split_documents(text)
    for piece, offset in pieces:
        try:
            for document in whole if whole is not None else parse_documents(piece):
                if not isinstance(document.value, Mapping | list | None):
                    wanted = f"expected objects, got {show(document.value)}"
                    raise DocumentError(f"{wanted}; write the file with: {COMMAND}")
                for value, node in expand(document.value, document.node):
                    yield value, node, offset
        except DocumentError as error:
            raise MistakesError([f"{source}: {error.describe(offset)}"]) from None


def _wire(value: Mapping[str, object]) -> bytes:
    """Return an object as JSON; one without a namespace is of `default`, as kubectl applies it."""
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping) and not metadata.get("namespace"):
        value = {**value, "metadata": {**metadata, "namespace": "default"}}
    return json.dumps(value).encode()


def _workload(group: str, kind: str, raw: bytes) -> WorkloadObject:
    """Return a workload.

    Without a selector it has the labels of its template: so old versions of the API filled it in
    (extensions/v1beta1 and apps/v1beta1, SetDefaults_Deployment).
    """
    wire = _WORKLOAD.decode(raw)
    meta = wire.metadata or Meta()
    spec = wire.spec or _WorkloadSpec()
    template, reference = spec.template or _Template(), spec.workloadRef
    labels = string_map((template.metadata or Meta()).labels)
    scale: ScaleObject | None = None
    if (group, kind) != DAEMON_SET:
        thing = WorkloadDecoder(group, kind).decode(raw).thing
        assert isinstance(thing, ScaleObject)
        scale = thing
        # The place of a custom resource's is its definition's (labelSelectorPath): the usual two.
        status = None if (group, kind) in BUILT_IN else wire.status
        raws = () if status is None else (bytes(status.selector), bytes(status.labelSelector))
        said = next((str(json.loads(raw)) for raw in raws if raw.startswith(b'"')), "")
        if not said and not bytes(spec.selector) and (group, kind) != REPLICATION_CONTROLLER:
            said = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
        scale = replace(scale, selector=said or scale.selector)
    return WorkloadObject(
        *(*key_of(meta)[:1], kind, key_of(meta)[1]),
        owner=owner_text(meta.ownerReferences),
        scale=scale,
        labels=labels,
        template=read_template(bytes(template.spec)),
        spreads=read_spreads(bytes(template.spec)),
        template_of=None if reference is None else f"{reference.kind}/{reference.name}",
        created=meta.creationTimestamp or "",
    )


def _with_templates(
    workloads: Mapping[WorkloadKey, WorkloadObject],
) -> dict[WorkloadKey, WorkloadObject]:
    """Return workloads; one without a template has that of its newest ReplicaSet, or of another."""
    newest: dict[tuple[str, str | None], WorkloadObject] = {}
    for made in sorted(workloads.values(), key=lambda item: (item.created, item.name)):
        newest[made.namespace, made.owner] = made
    found = dict(workloads)
    for key, workload in workloads.items():
        if workload.template.containers or workload.kind in _KINDS:
            continue
        space, (kind, _, name) = workload.namespace, (workload.template_of or "").partition("/")
        source = newest.get((space, f"{workload.kind}/{workload.name}"))
        source = source or workloads.get((space, kind, name))
        if source is not None:
            found[key] = replace(
                workload, template=source.template, labels=source.labels, spreads=source.spreads
            )
    return found
