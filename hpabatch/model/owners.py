"""Source of an HPA's spec: the controller or the tool that writes it, by its metadata.

A change that is made on such an HPA itself is undone at the next sync, so it belongs into the
source. Names of labels and annotations are those of KEDA (controllers/keda/hpa.go), Flux
(kustomize-controller and helm-controller), Argo CD (docs/user-guide/resource_tracking.md) and Helm
(pkg/action/validate.go).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.printable import listed

HELM_NAME: Final = "meta.helm.sh/release-name"
HELM_SPACE: Final = "meta.helm.sh/release-namespace"
INSTANCE: Final = "app.kubernetes.io/instance"
KEDA_NAME: Final = "scaledobject.keda.sh/name"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
TRACKING: Final = "argocd.argoproj.io/tracking-id"

_ARGO: Final = "argocd.argoproj.io/"
_ARGO_INSTANCE: Final = "argocd.argoproj.io/instance"
_FLUX_HELM: Final = "helm.toolkit.fluxcd.io/"
_FLUX_KUSTOMIZE: Final = "kustomize.toolkit.fluxcd.io/"
_KEDA: Final = "scaledobject.keda.sh/"
_PART_OF: Final = "app.kubernetes.io/part-of"
_PREFIXES: Final = (_ARGO, _FLUX_HELM, _FLUX_KUSTOMIZE, _KEDA)
_KEYS: Final = frozenset({HELM_NAME, HELM_SPACE, INSTANCE, MANAGED_BY, _PART_OF})
_KEDA_OBJECT: Final = "ScaledObject"
_KEDA_MANAGER: Final = "keda-operator"
_KEDA_FIELDS: Final = {
    "minReplicas": "spec.minReplicaCount",
    "maxReplicas": "spec.maxReplicaCount",
    "metrics": "spec.triggers",
    "behavior": "spec.advanced.horizontalPodAutoscalerConfig.behavior",
}
"""By field of an HPA's spec the field of a ScaledObject that KEDA makes it of."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of an HPA that says who writes it; `owner` is its controller, as Kind/name."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """What writes an HPA's spec, and where it is changed instead.

    `doubtful`: its only sign is what Argo CD reads and anybody may set: the label
    `app.kubernetes.io/instance`, or options of a sync such as its wave. `as_manifest`: it applies
    manifests, in which the HPA stands.
    """

    name: str
    instead: str
    doubtful: bool = False
    as_manifest: bool = False

    def __str__(self) -> str:
        return f"owned by {self.name}: {self.instead}"


def telling(texts: Mapping[str, str]) -> dict[str, str]:
    """Return those labels or annotations that say who writes an object."""
    return {key: text for key, text in texts.items() if key in _KEYS or key.startswith(_PREFIXES)}


def source_of(
    namespace: str, name: str, metadata: Metadata, spec: HPASpec, changed: Collection[str] = ()
) -> Source | None:
    """Return what writes an HPA, None where nothing says that anything does.

    `changed` are the fields of its spec that are to change. Of several signs the innermost one
    counts: what a controller made may carry labels of what that was made from.
    """
    found = (
        _controller(namespace, metadata, spec, changed),
        _flux(namespace, metadata.labels),
        _argo(namespace, name, metadata),
        _helm(namespace, metadata),
        _instance(metadata.labels),
        _sync_options(metadata),
    )
    return next((one for one in found if one is not None), None)


def _controller(
    namespace: str, metadata: Metadata, spec: HPASpec, changed: Collection[str]
) -> Source | None:
    kind, _, owner = metadata.owner.partition("/")
    if owner and kind != _KEDA_OBJECT:
        return Source(f"{kind} {namespace}/{owner}", "change what that makes its HPA of")
    scaled = owner or next(_scaled_objects(metadata, spec), "")
    if not scaled:
        return None
    fields = [place for name, place in _KEDA_FIELDS.items() if name in changed or not changed]
    what = listed(fields) if fields else "what it makes its HPA of"
    return Source(f"KEDA {_KEDA_OBJECT} {namespace}/{scaled}", f"change {what} there")


def _scaled_objects(metadata: Metadata, spec: HPASpec) -> Iterator[str]:
    """Yield the names of ScaledObjects that labels and the selectors of metrics give."""
    if KEDA_NAME in metadata.labels:
        yield metadata.labels[KEDA_NAME]
    for metric in spec.metrics:
        selector = None if metric.external is None else metric.external.metric.selector
        labels = {} if selector is None else dict(selector.match_labels)
        if KEDA_NAME in labels:
            yield labels[KEDA_NAME]
    if metadata.labels.get(MANAGED_BY) == _KEDA_MANAGER:
        yield metadata.labels.get(_PART_OF) or "of an unknown name"


def _flux(namespace: str, labels: Mapping[str, str]) -> Source | None:
    for prefix, kind, what in (
        (_FLUX_HELM, "HelmRelease", "change its values"),
        (_FLUX_KUSTOMIZE, "Kustomization", "change it in the source"),
    ):
        if labels.get(f"{prefix}name"):
            name = f"{labels.get(f'{prefix}namespace') or namespace}/{labels[f'{prefix}name']}"
            where = " there" if prefix == _FLUX_HELM else f" that {kind} {name} applies"
            manifest = prefix == _FLUX_KUSTOMIZE
            return Source(f"Flux {kind} {name}", what + where, as_manifest=manifest)
    return None


def _argo(namespace: str, name: str, metadata: Metadata) -> Source | None:
    labels, annotations = metadata.labels, metadata.annotations
    application, _, tracked = annotations.get(TRACKING, "").partition(":")
    if not application:
        application = labels.get(_ARGO_INSTANCE, "")
    if not application and any(key.startswith(_ARGO) for key in (*labels, *annotations)):
        application = labels.get(INSTANCE, "")
    if not application:
        return None
    other = "" if tracked.endswith(f"HorizontalPodAutoscaler:{namespace}/{name}") else tracked
    through = f" (by {other})" if other else ""
    return Source(
        f"Argo CD application {application}{through}",
        "change it in the repository that this application syncs from",
        as_manifest=True,
    )


def _helm(namespace: str, metadata: Metadata) -> Source | None:
    release = metadata.annotations.get(HELM_NAME, "")
    if release:
        space = metadata.annotations.get(HELM_SPACE) or namespace
        return Source(
            f"Helm release {space}/{release}", "change the release's values and upgrade it"
        )
    if metadata.labels.get(MANAGED_BY) == "Helm":
        return Source("a Helm chart", "change the values that it is rendered with")
    return None


def _instance(labels: Mapping[str, str]) -> Source | None:
    if not labels.get(INSTANCE):
        return None
    return Source(
        f"the application of its label {INSTANCE}={labels[INSTANCE]}",
        "Argo CD tracks by this label, so change it in the repository that this application syncs "
        "from; if no Argo CD does, give --instance-label plain",
        doubtful=True,
        as_manifest=True,
    )


def _sync_options(metadata: Metadata) -> Source | None:
    option = min(
        (key for key in (*metadata.labels, *metadata.annotations) if key.startswith(_ARGO)),
        default=None,
    )
    if option is None:
        return None
    return Source(
        "an Argo CD application of an unknown name",
        f"Argo CD reads its {option}, so change it in the repository that the application syncs "
        "from; if no Argo CD does, give --instance-label plain",
        doubtful=True,
        as_manifest=True,
    )
