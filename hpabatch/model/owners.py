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
    return next(_signs(namespace, name, metadata, spec, changed), None)


def _signs(
    namespace: str, name: str, metadata: Metadata, spec: HPASpec, changed: Collection[str]
) -> Iterator[Source]:
    """Yield what each sign says, the innermost first."""
    labels, annotations = metadata.labels, metadata.annotations
    kind, _, owner = metadata.owner.partition("/")
    if owner and kind != _KEDA_OBJECT:
        yield Source(f"{kind} {namespace}/{owner}", "change what that makes its HPA of")
    elif scaled := owner or next(_scaled_objects(metadata, spec), ""):
        fields = [place for name, place in _KEDA_FIELDS.items() if name in changed or not changed]
        what = listed(fields) if fields else "what it makes its HPA of"
        yield Source(f"KEDA {_KEDA_OBJECT} {namespace}/{scaled}", f"change {what} there")
    if made := _named(namespace, labels, _FLUX_HELM):
        yield Source(f"Flux HelmRelease {made}", "change its values there")
    if made := _named(namespace, labels, _FLUX_KUSTOMIZE):
        instead = f"change it in the source that Kustomization {made} applies"
        yield Source(f"Flux Kustomization {made}", instead, as_manifest=True)
    application, _, tracked = annotations.get(TRACKING, "").partition(":")
    application = application or labels.get(_ARGO_INSTANCE, "")
    of_argo = [key for key in (*labels, *annotations) if key.startswith(_ARGO)]
    if of_argo and not application:
        application = labels.get(INSTANCE, "")
    if application:
        own = f"HorizontalPodAutoscaler:{namespace}/{name}"
        through = f" (by {tracked})" if tracked and not tracked.endswith(own) else ""
        instead = "change it in the repository that this application syncs from"
        yield Source(f"Argo CD application {application}{through}", instead, as_manifest=True)
    if release := annotations.get(HELM_NAME, ""):
        space = annotations.get(HELM_SPACE) or namespace
        instead = "change the release's values and upgrade it"
        yield Source(f"Helm release {space}/{release}", instead)
    if labels.get(MANAGED_BY) == "Helm":
        yield Source("a Helm chart", "change the values that it is rendered with")
    if labels.get(INSTANCE):
        yield _doubtful(
            f"the application of its label {INSTANCE}={labels[INSTANCE]}",
            "Argo CD tracks by this label, so change it in the repository that this application",
        )
    if of_argo:
        yield _doubtful(
            "an Argo CD application of an unknown name",
            f"Argo CD reads its {min(of_argo)}, so change it in the repository that the "
            "application",
        )


def _named(namespace: str, labels: Mapping[str, str], prefix: str) -> str:
    """Return the object of Flux that labels name, "" without one."""
    name = labels.get(f"{prefix}name")
    return f"{labels.get(f'{prefix}namespace') or namespace}/{name}" if name else ""


def _doubtful(name: str, instead: str) -> Source:
    plain = "syncs from; if no Argo CD does, give --instance-label plain"
    return Source(name, f"{instead} {plain}", doubtful=True, as_manifest=True)


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
