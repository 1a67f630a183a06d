"""HPAs to the canonical JSON of autoscaling/v2: fixed field order, absent fields left out."""

from __future__ import annotations

import json

from hpabatch.model.objects.codec import encode
from hpabatch.model.objects.hpa import HPA, HPASpec


def spec_to_json(hpa: HPA) -> str:
    """Return the spec as compact v2 JSON, quantities as Kubernetes prints them.

    `hpa_from_json` reads it back to an equal spec, whichever version the HPA came from.
    """
    return json.dumps(encode_spec(hpa.spec), separators=(",", ":"), ensure_ascii=False)


def encode_hpa(hpa: HPA) -> dict[str, object]:
    """Return an autoscaling/v2 document with metadata and spec, without status."""
    metadata = {
        "name": hpa.name or None,
        "namespace": hpa.namespace or None,
        "uid": hpa.uid or None,
        "generation": hpa.generation,
        "labels": dict(hpa.labels) or None,
        "annotations": dict(hpa.annotations) or None,
    }
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {key: value for key, value in metadata.items() if value is not None},
        "spec": encode_spec(hpa.spec),
    }


def encode_spec(spec: HPASpec) -> dict[str, object]:
    """Return the spec as a v2 JSON object."""
    return encode(spec)
