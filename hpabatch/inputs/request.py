"""Options of use cases on manifests: which files, and which version's rules."""

from __future__ import annotations

from dataclasses import dataclass

from hpabatch.model.options import REQUIRED, Request, option
from hpabatch.model.versions import DEFAULT_K8S, GATES


@dataclass(frozen=True, kw_only=True)
class Gates(Request):
    """Features that are switched on or off."""

    feature_gates: str = option(
        "text",
        f"Feature gates that are not as in that version: {', '.join(GATES)}.",
        "",
        metavar="GATE=BOOL,…",
    )


@dataclass(frozen=True, kw_only=True)
class Manifests(Gates):
    """Manifests, read under the rules of a version."""

    paths: tuple[str, ...] = option(
        "paths",
        "Manifests: files, folders, or - for stdin.",
        REQUIRED,
        metavar="PATH…",
        positional=True,
    )
    k8s: str = option(
        "text", "Kubernetes version whose rules apply.", DEFAULT_K8S, metavar="VERSION"
    )


@dataclass(frozen=True, kw_only=True)
class LintRequest(Manifests):
    """Findings of manifests."""


@dataclass(frozen=True, kw_only=True)
class ValidateRequest(Manifests):
    """A check of manifests by the API server's rules."""

    strict: bool = option("flag", "Treat warnings as errors.", False)
