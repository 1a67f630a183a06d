"""Real documents from public repositories, in a folder that HPABATCH_MANIFESTS names.

Each of the 245 documents loads and is valid, or refused for a reason that was verified by reading
it; each of the 75 unrendered templates gives one clear error.
"""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hpabatch.inputs.manifests import CheckedEntry, ManifestEntry, check_manifests, load_manifests
from hpabatch.model.objects.decode import hpa_from_json
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.versions import PROFILES

FOLDER = os.environ.get("HPABATCH_MANIFESTS", "")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="HPABATCH_MANIFESTS names no folder of real manifests"
)

GROUP = 'spec.scaleTargetRef.apiVersion: Invalid value: "{}": apiVersion must specify API group'
NO_TARGET = (
    "spec.metrics[{0}].resource.target.type: Required value: must specify a metric target type",
    'spec.metrics[{0}].resource.target.type: Invalid value: "": must be either Utilization, Value, '
    "or AverageValue",
    "spec.metrics[{0}].resource.target.averageUtilization: Required value: must set either a "
    "target raw value or a target utilization",
)
NO_MEMBER = (
    "spec.metrics[{}].containerResource: Required value: must populate information for the given "
    "metric source"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
TYPE = (
    'spec.metrics[1].type: Unsupported value: "PodResource": supported values: '
    '"ContainerResource", "External", "Object", "Pods", "Resource"'
)


def _target(*indices: int) -> list[str]:
    return [text.format(index) for index in indices for text in NO_TARGET]


def _unset(name: str) -> list[str]:
    """A document with shell variables in its name and namespace."""
    return [
        f'metadata.name: Invalid value: "{name}": {SUBDOMAIN}',
        f'metadata.namespace: Invalid value: "${{NAMESPACE}}": {LABEL}',
    ]


REFUSED: dict[str, list[str]] = {
    # scaleTargetRef without apiVersion, on a Deployment
    "29abbfc9f64a": [GROUP.format("")],
    "ce3039e92a91": [GROUP.format("")],
    "8a48455df575": [GROUP.format("")],
    # documentation that leaves a part out as `...`
    "e98f695b2e62": [
        'spec.scaleTargetRef: Invalid value: "...": must be an object',
        'spec.metrics: Invalid value: "...": must be a list',
    ],
    "6e8a6fc7257c": ['metadata: Invalid value: "...": must be an object'],
    "ece37c00d09d": [
        "spec.maxReplicas: Invalid value: 0: must be greater than 0",
        "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
    ],
    # fields of v2beta1 (targetAverage…) in v2 or v2beta2
    "519b9844b7ec": _target(0),
    "5a4e287b5c37": _target(0),
    "4b0829916fc7": _target(0),
    "64125af06793": [
        "metadata.name: Required value: name or generateName is required",
        *_target(0, 1),
    ],
    # type ContainerResource with a `resource` member
    "f19d6a448d32": [NO_MEMBER.format(index) for index in range(5)],
    "ad29d14384c2": [NO_MEMBER.format(0)],
    "791c64b5842f": [NO_MEMBER.format(0), TYPE, TYPE],
    # parameters that nobody filled in
    "7258ff9a5b7e": [
        'spec.minReplicas: Invalid value: "${{MIN_REPLICAS}}": must be an integer (int32)',
        'spec.maxReplicas: Invalid value: "${{MAX_REPLICAS}}": must be an integer (int32)',
    ],
    "a741fd465037": [
        *_unset("${DEPLOYMENT_NAME}-hpa"),
        f'metadata.labels: Invalid value: "${{DEPLOYMENT_NAME}}": {VALUE}',
    ],
    "584669fdcac4": _unset("${DEPLOYMENT_NAME}-hpa-conservative"),
    "d90e07b7a6a9": _unset("${DEPLOYMENT_NAME}-hpa-aggressive"),
    # upstream's round-trip fixture: every value is a placeholder
    "ffcb08bd062c": [
        f'metadata.generateName: Invalid value: "generateNameValue": {SUBDOMAIN}',
        f'metadata.name: Invalid value: "nameValue": {SUBDOMAIN}',
        f'metadata.namespace: Invalid value: "namespaceValue": {LABEL}',
        GROUP.format("apiVersionValue"),
    ],
    # minReplicas 0 with a cpu metric only
    "5cc84ebf881d": [
        "spec.metrics: Forbidden: must specify at least one Object or External metric to support "
        "scaling to zero replicas"
    ],
    # value and averageValue of an External metric, shown as alternatives
    "3c4bca0c6a21": [
        "spec.metrics[0].external.target.value: Forbidden: may not set both a target value for "
        "metric and a per-pod target"
    ],
    # `lastScaleTime: <some-time>`
    "462d39f3ad67": [
        'status.lastScaleTime: Invalid value: "<some-time>": must be a time such as '
        "2026-01-31T12:00:00Z (RFC 3339)"
    ],
}

# Documents that Kubernetes 1.36 refuses beyond these: minReplicas 0 needs a gate there.
ZERO = "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"


def _rows(name: str) -> list[dict[str, Any]]:
    path = Path(FOLDER or ".", f"{name}.jsonl")
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _entries(text: str) -> list[ManifestEntry]:
    return load_manifests(["-"], io.BytesIO(text.encode())).entries


def _checked(text: str, version: str = "1.38") -> CheckedEntry:
    (checked,) = check_manifests(_entries(text), PROFILES[version])
    return checked


def test_the_counts() -> None:
    assert len(_rows("hpa_manifests")) == 245
    assert len(_rows("hpa_templates")) == 75


@pytest.mark.parametrize("row", _rows("hpa_manifests"), ids=lambda row: row["id"])
def test_a_document_is_valid_or_refused_for_the_right_reason(row: dict[str, Any]) -> None:
    checked = _checked(row["yaml"])
    assert list(checked.complaints) == REFUSED.get(row["id"], [])
    hpa = checked.entry.hpa
    assert hpa is not None
    assert hpa.api_version == row["apiVersion"]
    if checked.hpa is not None:
        assert (checked.hpa.spec.behavior is not None) == row["has_behavior"]
        assert hpa_from_json(spec_to_json(checked.hpa))[0].spec == checked.hpa.spec


@pytest.mark.parametrize("row", _rows("hpa_manifests"), ids=lambda row: row["id"])
def test_version_1_36_differs_only_in_scale_to_zero(row: dict[str, Any]) -> None:
    new, old = _checked(row["yaml"]), _checked(row["yaml"], "1.36")
    assert [text for text in old.complaints if text != ZERO] == list(new.complaints)


@pytest.mark.parametrize(
    "row", _rows("hpa_templates"), ids=lambda row: f"{row['repo']}/{row['path']}"
)
def test_a_template_is_one_clear_error(row: dict[str, Any]) -> None:
    (entry,) = _entries(row["yaml"])
    assert entry.hpa is None
    assert entry.error is not None
    assert entry.error.startswith("looks like an unrendered Helm template (line ")
    assert entry.error.endswith("; render it first with `helm template`")
