"""`hpabatch analyze`: what HPAs amount to, from their manifests alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.manifests import valid_hpas
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import show_report
from hpabatch.cli.talk import say
from hpabatch.engine.analyze.request import AnalyzeRequest
from hpabatch.errors import UsageError
from hpabatch.model.objects.stored import as_stored

if TYPE_CHECKING:
    from hpabatch.api.analysis import Given
    from hpabatch.inputs.manifests import CheckedEntry
    from hpabatch.model.objects.hpa import HPA
    from hpabatch.model.versions import Profile
    from hpabatch.report.analyze import StaticAnalysis


@command(app)
def analyze(request: AnalyzeRequest, output: OutputOption = Output.table) -> int:
    """Tell what HPAs amount to, from their manifests alone.

    Reads manifests as `hpabatch validate` does. For each HPA: the dead band (at which usage do n
    replicas stay n), the smallest change that it makes, where constant demand makes it rest or go
    round for ever, and the fastest way from minReplicas to maxReplicas and back that its windows
    and policies allow. Every number is asked of the exact rules: integer percent, tolerances,
    rounding up, policies with their budgets.

    \b
    Assumed: all pods are ready and alike. The work behind a pod metric is a constant total that
    divides among the pods; an Object or External metric's value does not hang on their number. A
    pod requests 1 cpu and 1Gi of memory (--request; in percent this hardly matters) and uses
    nothing without work (--base). That pods share their memory is not assumed: --base memory=PCT
    says so (0: they share all of it).

    One row per HPA and remarks go to stdout, or, with --hpa, a screen about one of them. JSON has
    everything; CSV and Parquet have one row per HPA and metric. stderr names what was left out.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused (the others are
    analyzed); 2 wins over 3.

    \b
    Examples:
      hpabatch analyze manifests/
      hpabatch analyze manifests/ --hpa shop/cart --base cpu=15 --request cpu=250m
      hpabatch analyze manifests/ --hpa shop/cart --at-size 10 --value 85%
      kubectl get hpa -A -o yaml | hpabatch analyze - --output csv > analysis.csv
      hpabatch analyze manifests/ -o json | jq '.hpas[] | select(.metrics[].cycles != [])'
    """
    from hpabatch.api.analysis import Given, analyze_each
    from hpabatch.engine.analyze.smallest import Asked
    from hpabatch.model.versions import ControllerFlags, profile_for

    profile = profile_for(request.k8s, request.feature_gates)
    if profile.notes:
        say(f"warning: {profile.notes}")
    flags = ControllerFlags(
        tolerance=request.tolerance,
        downscale_stabilization_ms=request.downscale_stabilization_ms,
        sync_period_ms=request.sync_period_ms,
    )
    missing = f"{' '.join(request.paths)}: no valid HPA to analyze"
    checked, code = valid_hpas(request.paths, profile, missing)
    given = [
        Given(item.entry.source, item.entry.line, _stored(item.hpa, profile), flags, profile)
        for item in _choose(checked, request.hpa)
        if item.hpa is not None
    ]
    asked = Asked(request.at_size, request.value_milli, request.value_pct)
    if asked != Asked():
        _check_asked(request, given)
    with progress_on_stderr() as progress:
        findings = analyze_each(given, request, progress, asked)
    _check_value(request, findings)
    show_report(replace(findings, one=request.hpa is not None), output)
    return code


def _stored(hpa: HPA, profile: Profile) -> HPA:
    """Return an HPA as the controller of that version reads it."""
    return replace(hpa, spec=as_stored(hpa.spec, profile))


def _check_asked(request: AnalyzeRequest, given: Sequence[Given]) -> None:
    """Refuse a size or value that the one HPA does not have (UsageError)."""
    name = "--at-size" if request.at_size is not None else "--value"
    if request.hpa is None:
        raise UsageError(f"{name}: expected --hpa, as it is about one HPA; add --hpa NAME")
    spec = given[0].hpa.spec
    low, high = spec.min_replicas or 0, spec.max_replicas
    if request.at_size is not None and not low <= request.at_size <= high:
        raise UsageError(
            f"--at-size: expected {low} to {high}, the replicas of {request.hpa}, got "
            f"{request.at_size}"
        )


def _check_value(request: AnalyzeRequest, findings: StaticAnalysis) -> None:
    """Refuse a value of another kind than the targets of the one HPA (UsageError)."""
    found = [metric.smallest for metric in findings.hpas[0].analysis.metrics]
    if request.value is None or any(s is None or s.value is not None for s in found):
        return
    kind = "an amount such as 500m" if request.value_pct is not None else "percents such as 85%"
    raise UsageError(
        f"--value {request.value}: expected {kind}, as the targets of {request.hpa} are"
    )


def _choose(checked: list[CheckedEntry], name: str | None) -> list[CheckedEntry]:
    """Return the HPA of that name, or all (UsageError: none or several are called so)."""
    if name is None:
        return checked
    found = [item for item in checked if item.hpa is not None and name in _names(item.hpa)]
    if len(found) == 1:
        return found
    if not found:
        raise UsageError(f"--hpa {name}: no valid HPA of that name; leave --hpa out to see all")
    places = ", ".join(item.entry.place for item in found)
    raise UsageError(f"--hpa {name}: {len(found)} are called so ({places}); name namespace or file")


def _names(hpa: HPA) -> tuple[str, str]:
    return hpa.name, f"{hpa.namespace or 'default'}/{hpa.name}"
