"""Checks of manifests in Python."""

from __future__ import annotations

from hpabatch.api.keywords import takes
from hpabatch.inputs.manifests import check_manifests, load_manifests
from hpabatch.inputs.request import ValidateRequest
from hpabatch.model.versions import profile_for
from hpabatch.report.validation import Validation


def check(request: ValidateRequest) -> Validation:
    """Read, default and check manifests (UsageError: there is no such version)."""
    profile = profile_for(request.k8s, request.feature_gates)
    manifests = load_manifests(request.paths)
    checked = check_manifests(manifests.entries, profile, request.strict)
    return Validation(checked, manifests.skipped, profile)


@takes(ValidateRequest, "paths", method=False)
def validate(request: ValidateRequest) -> Validation:
    """Hold manifests against the API server's rules; a manifest that is not valid is no error.

    Raises:
        UsageError: an option is wrong.
    """
    return check(request)
