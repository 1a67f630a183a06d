"""Checks of manifests in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from hpabatch.api.keywords import options_of
from hpabatch.api.result import Result
from hpabatch.inputs.manifest_checks import VALID, CheckedEntry, check_manifests
from hpabatch.inputs.manifests import load_manifests
from hpabatch.inputs.request import ValidateRequest
from hpabatch.model.versions import Profile, profile_for
from hpabatch.report.validation import ValidationReport, talk_lines


@dataclass(frozen=True, repr=False)
class Validation(Result):
    """Manifests held against the API server's rules.

    Attributes:
        checked: the HPAs and the places that cannot be read, in their order, each with its verdict.
        others: the number of documents of each other kind.
        profile: the rules.
    """

    checked: Sequence[CheckedEntry]
    others: Mapping[str, int]
    profile: Profile

    @property
    def verdict(self) -> str:
        """The number of HPAs that are valid, and of those that are not."""
        return self._report.summary()

    @cached_property
    def frame(self) -> pl.DataFrame:
        """One row per HPA or unreadable place; `message` is the first complaint."""
        return self._report.frame()

    @property
    def _report(self) -> ValidationReport:
        return ValidationReport(self.checked, self.others, self.profile.name)

    @property
    def valid(self) -> bool:
        """Whether everything is valid."""
        return all(item.result == VALID for item in self.checked)

    @property
    def messages(self) -> tuple[str, ...]:
        """Every complaint and warning, with file, line and HPA."""
        return tuple(talk_lines(self.checked))


def check(request: ValidateRequest) -> Validation:
    """Read, default and check manifests (UsageError: there is no such version)."""
    profile = profile_for(request.k8s, request.feature_gates)
    manifests = load_manifests(request.paths)
    checked = check_manifests(manifests.entries, profile, request.strict)
    return Validation(checked, manifests.skipped, profile)


@options_of(ValidateRequest, "paths")
def validate(request: ValidateRequest) -> Validation:
    """Hold manifests against the API server's rules; a manifest that is not valid is no error.

    Raises:
        UsageError: an option is wrong.
    """
    return check(request)
