"""`hpabatch analyze`: what HPAs amount to, from their manifests alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import parse_duration
from hpabatch.cli.options import DEFAULT_K8S, GatesOption, K8sOption, Output, OutputOption
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.stdout import check_stdout, send, send_json, send_text, table_shape
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_REFUSED, ManifestError, RefusedError, UsageError

if TYPE_CHECKING:
    from hpabatch.inputs.manifest_checks import CheckedEntry
    from hpabatch.model.objects.hpa import HPA
    from hpabatch.model.versions import ControllerFlags, Profile
    from hpabatch.report.analyze import Analyzed, Findings

_HELP = """Tell what HPAs amount to, from their manifests alone.

Reads manifests as `hpabatch validate` does. For each HPA: the dead band (at which usage do n
replicas stay n), where constant demand makes it rest or go round for ever, and the fastest way from
minReplicas to maxReplicas and back that its windows and policies allow. Every number is asked of
the exact rules: integer percent, tolerances, rounding up, policies with their budgets.

\b
Assumed: all pods are ready and alike. The work behind a pod metric is a constant total that divides
among the pods; an Object or External metric's value does not hang on their number. A pod requests
1 cpu and 1Gi of memory (--request; in percent this hardly matters) and uses nothing without work
(--base).

One row per HPA and remarks go to stdout, or, with --hpa, a screen about one of them. JSON has
everything; CSV and Parquet have one row per HPA and metric. stderr names what was left out.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused (the others are analyzed);
2 wins over 3.

\b
Examples:
  hpabatch analyze manifests/
  hpabatch analyze manifests/ --hpa shop/cart --base 15 --request cpu=250m
  kubectl get hpa -A -o yaml | hpabatch analyze - --output csv > analysis.csv
  hpabatch analyze manifests/ -o json | jq '.hpas[] | select(.metrics[].cycles != [])'
"""

_MIN_SYNC_PERIOD_MS = 1000
_MOST_BASE_PCT = 1000


@app.command(help=_HELP)
def analyze(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Files, folders, or - for stdin.")
    ],
    hpa: Annotated[
        str | None,
        typer.Option("--hpa", metavar="NAME", help="Only this one: [NAMESPACE/]NAME."),
    ] = None,
    base: Annotated[
        int,
        typer.Option(
            "--base",
            metavar="PCT",
            min=0,
            max=_MOST_BASE_PCT,
            help="What a pod uses without any work, in % of its request (or of another target).",
        ),
    ] = 0,
    request: Annotated[
        list[str] | None,
        typer.Option(
            "--request", metavar="RESOURCE=QUANTITY", help="A pod's request; may be repeated."
        ),
    ] = None,
    sync_period: Annotated[
        str, typer.Option("--sync-period", metavar="TIME", help="Between two syncs.")
    ] = "15s",
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="The controller's, where a spec has none.")
    ] = 0.1,
    downscale_stabilization: Annotated[
        str,
        typer.Option(
            "--downscale-stabilization", metavar="TIME", help="The controller's default window."
        ),
    ] = "5m",
    k8s: K8sOption = DEFAULT_K8S,
    feature_gates: GatesOption = "",
    output: OutputOption = Output.table,
) -> None:
    """Tell what HPAs amount to, from their manifests alone."""
    from hpabatch.model.versions import ControllerFlags, profile_for

    profile = profile_for(k8s, feature_gates)
    if profile.notes:
        say(f"warning: {profile.notes}")
    check_stdout(output)
    requests = _requests(request or ())
    flags = ControllerFlags(
        tolerance=_tolerance(tolerance),
        downscale_stabilization_ms=parse_duration(
            downscale_stabilization, "--downscale-stabilization"
        ),
        sync_period_ms=parse_duration(sync_period, "--sync-period", _MIN_SYNC_PERIOD_MS),
    )
    checked, code = _load(paths, profile)
    chosen = _choose(checked, hpa)
    findings = _analyze(chosen, flags, profile, base, requests)
    _show(findings, output, screen=hpa is not None)
    raise typer.Exit(code)


def _tolerance(value: float) -> float:
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"--tolerance {value} is none: give a number of at least 0, such as 0.1")
    return value


def _requests(texts: Sequence[str]) -> dict[str, int]:
    """Return requests in milli by resource (UsageError: the text and what is wrong with it)."""
    from hpabatch.model.quantity import Quantity

    found: dict[str, int] = {}
    for text in texts:
        resource, equals, amount = text.partition("=")
        try:
            milli = Quantity.parse(amount).milli()
        except ValueError as error:
            raise UsageError(
                f"--request {text}: {error}; give RESOURCE=QUANTITY, such as cpu=250m"
            ) from None
        if not resource or not equals or milli < 1:
            raise UsageError(
                f"--request {text}: give RESOURCE=QUANTITY, at least 1m, such as cpu=250m"
            )
        found[resource] = milli
    return found


def _load(paths: Sequence[str], profile: Profile) -> tuple[list[CheckedEntry], int]:
    """Return the valid documents and the exit code of the others, which stderr names.

    Raises:
        ManifestError, RefusedError: not one is left.
    """
    from hpabatch.inputs.manifest_checks import check_manifests, exit_code
    from hpabatch.inputs.manifests import load_manifests
    from hpabatch.report.validation import talk_lines

    checked = check_manifests(load_manifests(paths).entries, profile)
    for line in talk_lines(checked):
        say(line)
    code = exit_code(checked)
    valid = [item for item in checked if item.hpa is not None]
    if not valid:
        error = RefusedError if code == EXIT_REFUSED else ManifestError
        raise error(f"{' '.join(paths)}: no valid HPA to analyze")
    return valid, code


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


def _analyze(
    chosen: Sequence[CheckedEntry],
    flags: ControllerFlags,
    profile: Profile,
    base_pct: int,
    requests: dict[str, int],
) -> Findings:
    from hpabatch.engine.analyze.remarks import remarks
    from hpabatch.engine.analyze.run import DEFAULT_REQUESTS, Assumed, analyze_hpa
    from hpabatch.report.analyze import Analyzed, Findings

    assumed = Assumed(request_milli=requests, base_pct=base_pct)
    found: list[Analyzed] = []
    with share_on_stderr() as report:
        for number, item in enumerate(chosen):
            report("analyzing", number / len(chosen))
            assert item.hpa is not None  # valid ones only
            analysis = analyze_hpa(item.hpa.spec, flags, profile, assumed)
            place = item.entry
            found.append(Analyzed(place.source, place.line, item.hpa, analysis, remarks(analysis)))
    request_milli = {**DEFAULT_REQUESTS, **requests}
    return Findings(profile.name, flags.sync_period_ms, base_pct, request_milli, found)


def _show(findings: Findings, output: Output, *, screen: bool) -> None:
    """Write the findings to stdout."""
    from hpabatch.report.analyze import to_json, to_table
    from hpabatch.report.analyze_flat import to_csv, to_parquet
    from hpabatch.report.analyze_screen import to_screen

    width, _ = table_shape()
    match output:
        case Output.table if screen:
            send_text(to_screen(findings, findings.hpas[0]))
        case Output.table:
            send_text(to_table(findings, width))
        case Output.json:
            send_json(to_json(findings))
        case Output.csv:
            send(to_csv(findings).encode())
        case Output.parquet:
            send(to_parquet(findings))
