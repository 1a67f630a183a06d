"""Names of a table's rows: pod, container, namespace, workload, cluster, and the level of a row."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from hpabatch.importers.table.propose.columns import Column, Kind, named
from hpabatch.importers.table.propose.pods import PodNames, looks_like_pods, read_pod_names
from hpabatch.importers.table.propose.text import Entry, flow, scalar
from hpabatch.importers.table.propose.wide import SERIES, Candidate
from hpabatch.inputs.cluster_objects import ClusterObjects

_POD: Final = ("pod", "pod_name", "podname", "k8s_pod_name", "kubernetes_pod_name", "exported_pod")
_CONTAINER: Final = ("container", "container_name", "k8s_container_name", "exported_container")
_NAMESPACE: Final = ("namespace", "ns", "namespace_name", "kube_namespace", "k8s_namespace_name",
                     "kubernetes_namespace", "exported_namespace")  # fmt: skip
_GROUP: Final = ("project", "app", "application", "team", "tenant", "product", "system")
# Names of what an HPA scales; those below may also name a product, a Service or a machine.
_TARGET: Final = ("workload", "workload_name", "deployment", "deployment_name", "statefulset",
                  "statefulset_name")  # fmt: skip
_WORKLOAD: Final = (
    "service", "service_name", "svc", "owner_name", "owner", "controller", "target", "target_name",
    "microservice", "component", "function", "function_name", "app", "application", "app_name",
    "name", "hpa", "vm", SERIES, "id",
)  # fmt: skip
_PLACES: Final = ("node", "nodename", "instance", "job", "host", "hostname", "server", "endpoint")
_CLUSTER: Final = ("cluster", "cluster_name", "k8s_cluster_name")
_KIND: Final = ("workload_kind", "workload_type", "owner_kind", "target_kind", "controller_kind",
                "kind")  # fmt: skip
_UID: Final = ("pod_uid", "uid", "k8s_pod_uid")
_REPLICAS: Final = (
    "replicas", "replica_count", "current_replicas", "status_replicas", "num_replicas", "pods",
    "pod_count", "num_pods", "podcount", "instances", "instance_count", "size", "spec_replicas",
    "ready_replicas", "available_replicas", "desired_replicas", "replica",
)  # fmt: skip
# Parts of names, as ns in team_ns or replicas in replicas_available.
_POD_PARTS: Final = ("pod", "pods", "podname")
_NAMESPACE_PARTS: Final = ("namespace", "ns")
_TARGET_PARTS: Final = ("workload", "deployment", "statefulset")
_WORKLOAD_PARTS: Final = ("service", "svc", "microservice", "app", "application")
_REPLICAS_PARTS: Final = ("replicas", "replica", "podcount")
_NO_PODS: Final = (*_NAMESPACE_PARTS, *_TARGET_PARTS, *_WORKLOAD_PARTS, *_PLACES, "owner")
_ATTRIBUTES: Final = ("uid", "id", "ip", "kind", "type", "phase", "status", "version", "image",
                      "template", "hash", "label", "labels", "class")  # fmt: skip
_NO_REPLICAS: Final = ("min", "max", "minimum", "maximum", "unavailable", "limit", "cpu", "mem",
                       "memory", "restarts", "requests", "updated", "target", "per")  # fmt: skip
_READY: Final = ("ready", "is_ready", "pod_ready")
_OBJECT: Final = "abcdefghijklmnopqrstuvwxyz0123456789-."
_MANY: Final = 10_000
_MOST_LETTERS: Final = 20
_KNOWN: Final = 0.8
_SHARED: Final = 0.2  # of the workloads; one such as an ingress gateway may be in each namespace
_KIND_NAME: Final = r"^[A-Z][A-Za-z]+$"
_LABEL: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


@dataclass(frozen=True, slots=True)
class Names:
    """What names a row, as far as the table says it."""

    level: str
    pod: Candidate | None
    workload: Candidate | None
    container: Candidate | None
    namespace: Candidate | None
    cluster: Candidate | None
    kind: Candidate | None
    uid: Candidate | None
    replicas: Column | None
    ready: Column | None
    pod_names: PodNames | None
    guessed_namespace: bool = False

    def used(self) -> set[str]:
        """Return the names of the columns that these are read from."""
        found = (self.pod, self.workload, self.container, self.namespace, self.cluster, self.kind,
                 self.uid)  # fmt: skip
        names = {item.origin for item in found if item is not None}
        return names | {item.name for item in (self.replicas, self.ready) if item is not None}


def find_names(
    found: Sequence[Candidate], columns: Sequence[Column], objects: ClusterObjects | None = None
) -> Names:
    """Return which strings and columns name the rows; `columns` are those without the time.

    Where no name of a column says it, strings that `objects` have as namespaces or workloads do.
    """
    left = [item for item in found if item.column.kind is Kind.text]
    pod = _take(left, _POD) or _take_part(left, _POD_PARTS, _NO_PODS)
    if pod is None:
        pod = next((item for item in left if looks_like_pods(item.column)), None)
        left = [item for item in left if item is not pod]
    container = _take(left, _CONTAINER)
    namespace = _take(left, _NAMESPACE) or _take_part(left, _NAMESPACE_PARTS)
    cluster = _take(left, _CLUSTER)
    if namespace is None and objects is not None:
        namespace = _take_known(left, {key[0] for key in (*objects.workloads, *objects.pods)})
    kinds = [item for item in left if item.column.share(_KIND_NAME) == 1]
    kind, uid = _take(kinds, _KIND), _take(left, _UID)
    left = [item for item in left if item is not kind]
    numbered = [item for item in found if item.column.kind is Kind.number]
    if pod is None:
        pod = _take(numbered, _POD[:3])
    pod_names = read_pod_names(pod.column) if pod is not None else None
    workload = _workload_of(left, pod, pod_names, objects)
    if workload is None and pod is None:
        workload = _take(numbered, (*_TARGET, *_WORKLOAD, *_PLACES))
    replicas = _replicas([c for c in columns if c.kind is Kind.number])
    ready = named([c for c in columns if _is_flag(c)], _READY)
    level = "workload" if pod is None and replicas is not None else "pod"
    if level == "pod" and pod is None and workload is not None and _are_pods(workload.column):
        pod, workload = workload, None
        pod_names = read_pod_names(pod.column)
    guessed = namespace is None
    if guessed and workload is not None:
        namespace = _group([item for item in left if item is not workload], workload.column)
    return Names(
        level=level,
        pod=pod,
        workload=workload,
        container=container,
        namespace=namespace,
        cluster=cluster,
        kind=kind,
        uid=uid if level == "pod" else None,
        replicas=replicas,
        ready=ready if level == "pod" else None,
        pod_names=pod_names,
        guessed_namespace=guessed and namespace is not None,
    )


def _workload_of(
    left: list[Candidate],
    pod: Candidate | None,
    pod_names: PodNames | None,
    objects: ClusterObjects | None,
) -> Candidate | None:
    """Take the string that is a row's workload; None: the pods say it, or nothing does."""
    places = [item for item in left if item.column.has(*_PLACES)]
    own = [item for item in left if item not in places]
    found = _take(own, _TARGET) or _take_part(own, _TARGET_PARTS)
    if found is None and (pod_names is None or not pod_names.hashed):
        # (beside pods with a Deployment's hash in their names, an app may be several Deployments)
        found = _take(own, _WORKLOAD) or _take_part(own, _WORKLOAD_PARTS)
    if found is None and pod is None and objects is not None:
        found = _take_known(own, {key[2] for key in objects.workloads})
    if found is None and pod is None:
        # The string that tells most rows apart, other than one value for each row.
        several = [item for item in own if item.column.distinct() > 1] or places
        found = max(several, key=lambda item: item.column.distinct(), default=None)
    if found is not None:
        left[:] = [item for item in left if item is not found]
    return found


def _replicas(numbers: Sequence[Column]) -> Column | None:
    """Return the column with a workload's size, as replicas or avg_replicas."""
    found = named(numbers, _REPLICAS)
    if found is None:
        likely = (c for c in numbers if c.has(*_REPLICAS_PARTS) and not c.has(*_NO_REPLICAS))
        found = min(likely, key=lambda c: c.has("desired", "spec"), default=None)
    return found


def _take_part(
    left: list[Candidate], parts: Collection[str], without: Collection[str] = ()
) -> Candidate | None:
    """Take the candidate with a part in its name, as ns in k8s_ns, and names of objects in it."""
    for part in parts:
        for item in left:
            is_other = item.column.has(*_ATTRIBUTES, *without)
            if item.column.has(part) and not is_other and item.column.share(_LABEL) == 1:
                left.remove(item)
                return item
    return None


def _take_known(left: list[Candidate], names: Collection[str]) -> Candidate | None:
    """Take the candidate most of whose values are names of objects."""

    def share(item: Candidate) -> float:
        known = item.column.values.drop_nulls().unique().cast(pl.String).is_in(list(names)).mean()
        return known if isinstance(known, float) else 0.0

    found = max(left, key=share, default=None)
    if found is None or share(found) < _KNOWN:
        return None
    left.remove(found)
    return found


def _take(left: list[Candidate], names: Collection[str]) -> Candidate | None:
    """Take the candidate whose name comes first in a list of names out of those that are left."""
    chosen = named([item.column for item in left], names)
    found = next((item for item in left if item.column is chosen), None)
    if found is not None:
        left.remove(found)
    return found


def _are_pods(column: Column) -> bool:
    """Whether the series of a wide table are pods; a suffix of letters alone may be a name's."""
    read = read_pod_names(column) if column.name == SERIES else None
    return read is not None and read.kinds[0][0] != "DaemonSet"


def _is_flag(column: Column) -> bool:
    if column.kind is Kind.boolean:
        return True
    known = column.numbers.drop_nulls()
    return column.kind is Kind.number and bool(known.is_in([0.0, 1.0]).all())


def _group(left: list[Candidate], workload: Column) -> Candidate | None:
    """Return what may stand for a namespace: most workloads have one value of it."""
    for name in _GROUP:
        for item in left:
            if item.column.key != name or item.column.share(_LABEL) < 1:
                continue
            pairs = pl.DataFrame([workload.values.alias("w"), item.column.values.alias("n")])
            several = pairs.drop_nulls().group_by("w").agg(pl.col("n").n_unique())["n"] > 1
            if several.sum() <= _SHARED * len(several):
                return item
    return None


def source(item: Candidate) -> str:
    """Return a source of a map as YAML."""
    if item.label:
        return flow(column=scalar(item.origin), pattern=scalar(item.pattern))
    return scalar(item.origin)


def _object_entry(item: Candidate) -> Entry:
    """Return the entry of a workload: where its names are none of objects, they are made some."""
    wrong = item.column.share(_LABEL) < 1
    if not wrong or item.label or item.column.kind is not Kind.text:
        return Entry(source(item))
    values = item.column.values.drop_nulls().unique().cast(pl.String).str.to_lowercase()
    others = sorted(set("".join(values.head(_MANY))) - set(_OBJECT))
    sql = f"LOWER({quoted_column(item.origin)})"
    for letter in others[:_MOST_LETTERS]:
        sql = f"REPLACE({sql}, '{letter.replace(chr(39), chr(39) * 2)}', '-')"
    told = f"as names of objects: small letters, digits and -; {item.column.examples(1)[0]} is none"
    return Entry(flow(sql=scalar(sql)), (told,))


def name_entries(names: Names, fallback: str) -> dict[str, Entry]:
    """Return the entries of `columns` that name a row; `fallback` is a workload's name."""
    found = {"cluster": Entry(source(names.cluster))} if names.cluster is not None else {}
    if names.namespace is None:
        assumed = "no column is a namespace; write its name here"
        found["namespace"] = Entry("{value: default}", assumed=assumed)
    else:
        guess = f"{names.namespace.origin} is the namespace; if not, write {{value: NAME}}"
        assumed = guess if names.guessed_namespace else ""
        found["namespace"] = Entry(source(names.namespace), assumed=assumed)
    found["workload"] = _workload(names, fallback)
    found |= _kind(names)
    if names.level == "pod":
        found |= _pod(names, fallback)
    return found


def _pod(names: Names, fallback: str) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    alone = "each series is one pod; if it is the sum over several, a column with their number is"
    if names.pod is not None:
        found["pod"] = Entry(source(names.pod))
    elif names.workload is not None:
        assumed = f"{alone} needed: level: workload, columns.replicas"
        found["pod"] = Entry(source(names.workload), assumed=assumed)
    else:
        found["pod"] = Entry(
            f"{{value: {scalar(fallback + '-0')}}}",
            assumed=f"{alone} needed: level: workload, columns.replicas",
        )
    if names.uid is not None:
        found["uid"] = Entry(source(names.uid))
    if names.container is not None:
        found["container"] = Entry(source(names.container))
    if names.ready is not None:
        found["ready"] = Entry(scalar(names.ready.name))
    return found


def _workload(names: Names, fallback: str) -> Entry:
    if names.workload is not None:
        return _object_entry(names.workload)
    if names.pod is None:
        assumed = "all rows are of one workload, named as the file; write its name here"
        return Entry(f"{{value: {scalar(fallback)}}}", assumed=assumed)
    read = names.pod_names
    if read is None:
        assumed = "each pod is a workload of its own: no suffix of Kubernetes is in the names"
        hint = r"a part of the name: pattern: '^(.*)-\d+$'"
        found = _object_entry(names.pod)
        return Entry(found.value, found.told, f"{assumed}; for {hint}")
    ending = read.pattern.removeprefix("^(.+?)").removesuffix("$")
    pattern = read.pattern
    if names.pod.label:
        pattern = f'{names.pod.label}([^",}}]+?){ending}(?:[",}}]|$)'
    told = ", ".join(f"{workload} of {pod}" for workload, pod in read.examples)
    return Entry(
        flow(column=scalar(names.pod.origin), pattern=scalar(pattern)),
        told=(f"the name of a pod without the suffixes that Kubernetes adds: {told}",),
    )


def _kind(names: Names) -> dict[str, Entry]:
    if names.kind is not None:
        return {"kind": Entry(source(names.kind))}
    read = names.pod_names
    if names.workload is not None and names.workload.column.has("statefulset"):
        return {"kind": Entry("{value: StatefulSet}")}
    if read is None or names.pod is None:
        return {}
    kinds = list(dict.fromkeys(kind for kind, _ in read.kinds))
    if len(kinds) == 1 or names.workload is not None:
        assumed = "" if len(kinds) == 1 else f"{kinds[0]}; some names look like {kinds[1]}'s"
        told = () if kinds[0] == "Deployment" else ("by the suffixes of the pods",)
        if not assumed and not told:
            return {}
        return {"kind": Entry(f"{{value: {kinds[0]}}}", told, assumed)}
    column = quoted_column(names.pod.origin)
    if names.pod.label:
        begin, end = f'{names.pod.label}[^",}}]+', '(?:[",}]|$)'
    else:
        begin, end = "^.+", "$"
    cases = " ".join(
        f"WHEN {column} ~ '{begin}{ending}{end}' THEN '{kind}'" for kind, ending in read.kinds
    )
    sql = f"CASE {cases} ELSE '{kinds[0]}' END"
    return {"kind": Entry(flow(sql=scalar(sql)), told=("by the suffixes of the pods",))}


def quoted_column(name: str) -> str:
    """Return a column's name as expressions have it."""
    return '"' + name.replace('"', '""') + '"'
