"""Every Kubernetes version beside the naive reference, on the cases that tell versions apart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz.harness import decisions
from tests.reference.profiles import VERSIONS
from tests.reference.test_reference_versions import ROWS, case_of

Json = dict[str, Any]


@pytest.mark.parametrize(("about", "case"), [row[:2] for row in ROWS], ids=[r[0] for r in ROWS])
def test_cases_that_tell_versions_apart(about: str, case: Json) -> None:
    for k8s in VERSIONS:
        ours, reference = decisions(case_of(**case), k8s)
        assert ours == reference, f"{about} in {k8s}"
