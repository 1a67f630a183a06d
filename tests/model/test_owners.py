"""Sources of HPAs by their metadata: the innermost writer counts, and where to change it."""

from __future__ import annotations

from typing import Any

import pytest

from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.owners import Metadata, Source, source_of, telling

TRACKED = "shop:autoscaling/HorizontalPodAutoscaler:shop/web"
FLUX = {
    "kustomize.toolkit.fluxcd.io/name": "apps",
    "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
}
HELM = {"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/instance": "web"}
RELEASE = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}


def found(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    owner: str = "",
    spec: HPASpec | None = None,
    changed: tuple[str, ...] = (),
) -> Source | None:
    metadata = Metadata(labels or {}, annotations or {}, owner)
    return source_of("shop", "web", metadata, spec or HPASpec(), changed)


def name(*given: Any, **more: Any) -> str:
    one = found(*given, **more)
    assert one is not None
    return one.name


def test_nothing_says_anything() -> None:
    assert found() is None
    assert found({"team": "shop", "app.kubernetes.io/managed-by": "kustomize"}) is None
    assert found({"app.kubernetes.io/instance": ""}) is None


def test_a_scaled_object_and_the_fields_that_it_makes_the_hpa_of() -> None:
    one = found(owner="ScaledObject/queue", changed=("minReplicas", "behavior"))
    assert str(one) == (
        "owned by KEDA ScaledObject shop/queue: change spec.minReplicaCount and "
        "spec.advanced.horizontalPodAutoscalerConfig.behavior there"
    )
    assert "change spec.triggers there" in str(found(owner="ScaledObject/q", changed=("metrics",)))
    other = found(owner="ScaledObject/queue", changed=("scaleTargetRef",))
    assert str(other).endswith("shop/queue: change what it makes its HPA of there")
    # Nothing is said to change: all fields are named.
    assert "spec.maxReplicaCount, spec.triggers and" in str(found(owner="ScaledObject/queue"))


def test_keda_is_known_without_an_owner() -> None:
    assert name({"scaledobject.keda.sh/name": "queue"}) == "KEDA ScaledObject shop/queue"
    made = {"app.kubernetes.io/managed-by": "keda-operator", "app.kubernetes.io/part-of": "queue"}
    assert name(made) == "KEDA ScaledObject shop/queue"
    del made["app.kubernetes.io/part-of"]
    assert name(made) == "KEDA ScaledObject shop/of an unknown name"
    external = {
        "metric": {
            "name": "s0-kafka",
            "selector": {"matchLabels": {"other": "1", "scaledobject.keda.sh/name": "queue"}},
        },
        "target": {"type": "AverageValue", "averageValue": "5"},
    }
    bare = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "5"}}
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    metrics = [
        {"type": "Resource", "resource": cpu},
        {"type": "External", "external": bare},
        {"type": "External", "external": external},
    ]
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "spec": {"metrics": metrics},
    }
    hpa, problems = decode_hpa(document)
    assert not problems
    assert name(spec=hpa.spec) == "KEDA ScaledObject shop/queue"


@pytest.mark.parametrize(
    ("labels", "annotations", "expected"),
    [
        (FLUX, {}, "Flux Kustomization flux-system/apps"),
        ({"kustomize.toolkit.fluxcd.io/name": "apps"}, {}, "Flux Kustomization shop/apps"),
        (
            {**HELM, "helm.toolkit.fluxcd.io/name": "web", **FLUX},
            RELEASE,
            "Flux HelmRelease shop/web",
        ),
        ({}, {"argocd.argoproj.io/tracking-id": TRACKED}, "Argo CD application shop"),
        (
            {},
            {"argocd.argoproj.io/tracking-id": "shop:keda.sh/ScaledObject:shop/web"},
            "Argo CD application shop (by keda.sh/ScaledObject:shop/web)",
        ),
        ({"argocd.argoproj.io/instance": "shop"}, {}, "Argo CD application shop"),
        (
            {"app.kubernetes.io/instance": "shop"},
            {"argocd.argoproj.io/sync-wave": "2"},
            "Argo CD application shop",
        ),
        (HELM, {"argocd.argoproj.io/tracking-id": TRACKED}, "Argo CD application shop"),
        (HELM, RELEASE, "Helm release shop/web"),
        (HELM, {"meta.helm.sh/release-name": "web"}, "Helm release shop/web"),
        (HELM, {}, "a Helm chart"),
    ],
)
def test_tools_that_apply_manifests_and_charts(
    labels: dict[str, str], annotations: dict[str, str], expected: str
) -> None:
    assert name(labels, annotations) == expected


def test_a_controller_goes_before_what_its_labels_were_copied_from() -> None:
    labels, annotations = {**HELM, **FLUX}, {**RELEASE, "argocd.argoproj.io/tracking-id": TRACKED}
    assert name(labels, annotations, "ScaledObject/queue") == "KEDA ScaledObject shop/queue"
    assert name(labels, annotations, "PodAutoscaler/web") == "PodAutoscaler shop/web"


def test_an_annotation_of_argo_without_an_application_is_doubtful() -> None:
    wave = {"argocd.argoproj.io/sync-wave": "2"}
    one = found({}, wave)
    assert one is not None
    assert (one.name, one.doubtful, one.as_manifest) == (
        "an Argo CD application of an unknown name", True, True
    )  # fmt: skip
    assert "reads its argocd.argoproj.io/sync-wave" in one.instead
    assert "--instance-label plain" in one.instead
    # A chart may bring the annotation along.
    assert name(HELM, {**wave, **RELEASE}) == "Argo CD application web"
    assert name({}, {**wave, **RELEASE}) == "Helm release shop/web"
    assert name({"app.kubernetes.io/managed-by": "Helm"}, wave) == "a Helm chart"


def test_the_instance_label_alone_is_doubtful() -> None:
    one = found({"app.kubernetes.io/instance": "shop"})
    assert one is not None
    assert (one.doubtful, one.as_manifest) == (True, True)
    assert "--instance-label plain" in one.instead
    others = [found(FLUX), found(HELM, RELEASE), found(owner="ScaledObject/queue")]
    assert [(s.doubtful, s.as_manifest) for s in others if s] == [
        (False, True),
        (False, False),
        (False, False),
    ]


def test_only_what_tells_is_kept() -> None:
    kept = {**FLUX, **HELM, **RELEASE, "argocd.argoproj.io/tracking-id": TRACKED}
    last = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "shop"}
    assert telling({**kept, **last}) == kept
