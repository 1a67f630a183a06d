"""Checks of manifests in Python."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from hpabatch.api.validation import validate
from hpabatch.errors import UsageError

HPA = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 10
"""


def test_a_row_per_document(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(HPA)
    bad.write_text(HPA.replace("10", "0"))
    found = validate([good, bad], k8s="1.36")
    assert not found.valid
    assert found.verdict == "2 HPAs: 1 valid, 1 refused (rules of Kubernetes 1.36)"
    assert found.frame["result"].to_list() == ["valid", "refused"]
    assert found.frame.schema["complaints"] == pl.Int64()
    assert found.messages[0].startswith(f"{bad}:1: shop/web: spec.maxReplicas: Invalid value: 0")
    assert validate(str(good)).valid


def test_options_are_checked() -> None:
    with pytest.raises(UsageError, match=r"older than 1\.20"):
        validate("x.yaml", k8s="1.19")
    with pytest.raises(UsageError, match="paths: expected a value"):
        validate()
    with pytest.raises(UsageError, match="strict: expected True or False"):
        validate("x.yaml", strict="yes")  # type: ignore[arg-type]
