"""`hpabatch compare`: which HPAs decide differently under another version or other manifests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import parse_duration, selection
from hpabatch.cli.look.replay import Events
from hpabatch.cli.manifests import load_hpas
from hpabatch.cli.options import (
    DelayOption,
    GatesOption,
    HistoryArgument,
    MaxAgeOption,
    Output,
    PhaseOption,
    SyncPeriodOption,
    WhereOption,
)
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.stdout import check_stdout, send_text, show_report
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNREADABLE, UsageError
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from hpabatch.engine.compare.run import Comparison
    from hpabatch.engine.compare.sides import Side
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.history.reader import History

_HELP = """Compare what HPAs decide under two Kubernetes versions, or with two sets of manifests.

Replays a history twice, with the same samples, sizes and instants, and names the HPAs that decide
differently: since when, how often, by how much, and the switch of the version or the field of the
spec that makes the first difference (each is tried alone).

\b
--k8s 1.32..1.37      the rules of two versions; a side left out is as recorded (..1.37)
--feature-gates-to    feature gates of the second side only (with or without --k8s)
--hpas A --hpas B     two sets of manifests; one --hpas: the recorded HPAs against it
--k8s VERSION         with --hpas: the one version of both

\b
A decision differs if the size, the wish to rescale or what failed differs. What is the same for
another reason (rule, metric, condition) is counted apart; --strict takes it as a difference. Sizes
are the recorded ones on both sides, so differences do not compound: an upscale that only one side
wants shows in the ticks in which it wants it. With --simulate either side has the pods that its own
decisions ask for (see `hpabatch simulate`): differences compound, and the model's limits apply.
--where is as in `hpabatch replay`, asked of the first side's HPAs. docs/compare.md explains every
column.

\b
Exit codes: 0 nothing changes; 3 some HPAs decide differently, or were left out; 2 something cannot
be read; 2 wins over 3.

\b
Examples:
  hpabatch compare history/ --k8s 1.32..1.37
  hpabatch compare history/ --k8s ..1.37 --where "namespace = 'shop'" --output markdown
  hpabatch compare history/ --hpas today/ --hpas proposed/ -o json | jq '.differences[].rule'
  hpabatch compare history/ --feature-gates-to HPAScaleToZero=false
  hpabatch compare history/ --hpas proposed/ --simulate --plant plant.yaml
"""

Report = Callable[[str, float], None]

_MIN_SYNC_PERIOD_MS = 1000
_RANGE = ".."


class CompareOutput(StrEnum):
    """The form of what stdout gets."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"
    markdown = "markdown"


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for; times in ms, None: not given."""

    history: str
    k8s: str | None
    manifests: tuple[str, ...]
    feature_gates: str
    feature_gates_to: str
    events: str
    where: str | None
    top: int
    strict: bool
    output: CompareOutput
    sync_period_ms: int | None
    phase_ms: int | None
    delay_ms: int | None
    max_age_ms: int | None
    simulate: bool
    plant: tuple[str, ...]
    seed: int


@app.command(help=_HELP)
def compare(
    history: HistoryArgument,
    k8s: Annotated[
        str | None,
        typer.Option(
            "--k8s",
            metavar="A..B",
            help="The two versions; with --hpas the one of both.  [default: as recorded]",
        ),
    ] = None,
    hpas: Annotated[
        list[str] | None,
        typer.Option(
            "--hpas", metavar="PATH", help="Manifests: twice, or once against the recorded HPAs."
        ),
    ] = None,
    feature_gates: GatesOption = "",
    feature_gates_to: Annotated[
        str,
        typer.Option(
            "--feature-gates-to",
            metavar="GATE=BOOL,…",
            help="The same for the second side only.",
            show_default=False,
        ),
    ] = "",
    events: Annotated[
        Events, typer.Option("--events", help="Which changes spend the policies' budgets.")
    ] = Events.recorded,
    where: WhereOption = None,
    top: Annotated[
        int,
        typer.Option("--top", min=0, max=1_000_000, help="How many HPAs table and Markdown name."),
    ] = 20,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="The same decision for another reason is a difference."),
    ] = False,
    output: Annotated[
        CompareOutput, typer.Option("--output", "-o", help="Form of what stdout gets.")
    ] = CompareOutput.table,
    sync_period: SyncPeriodOption = None,
    phase: PhaseOption = None,
    delay: DelayOption = None,
    max_age: MaxAgeOption = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="In a closed loop: what either side would lead to.")
    ] = False,
    plant: Annotated[
        list[str] | None,
        typer.Option(
            "--plant",
            metavar="FILE",
            help="With --simulate: what you state of workloads (YAML); may be repeated.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="With --simulate: of all random draws.")
    ] = 0,
) -> None:
    """Compare what HPAs decide under two Kubernetes versions, or with two sets of manifests."""
    request = Request(
        history=history,
        k8s=k8s,
        manifests=tuple(hpas or ()),
        feature_gates=feature_gates,
        feature_gates_to=feature_gates_to,
        events=events.value,
        where=where,
        top=top,
        strict=strict,
        output=output,
        sync_period_ms=_optional(sync_period, "--sync-period", _MIN_SYNC_PERIOD_MS),
        phase_ms=_optional(phase, "--phase", 0),
        delay_ms=_optional(delay, "--delay", 0),
        max_age_ms=_optional(max_age, "--max-age", 1),
        simulate=simulate,
        plant=tuple(plant or ()),
        seed=seed,
    )
    raise typer.Exit(_run(request))


def _optional(text: str | None, option: str, minimum_ms: int) -> int | None:
    return None if text is None else parse_duration(text, option, minimum_ms)


def _run(request: Request) -> int:
    """Read, compare and tell; return the exit code."""
    parquet = request.output is CompareOutput.parquet
    check_stdout(Output.parquet if parquet else Output.table)
    _check(request)
    from hpabatch.history.reader import open_history

    # Manifests of both sides stand in for the table of HPAs, but plants are fitted to those.
    needed = request.simulate or len(request.manifests) < 2
    history = open_history(request.history, "replay" if needed else None)
    before, after, code = _sides(request, history)
    kernel = "simulate_fleet" if request.simulate else "replay_observations"
    with share_on_stderr(kernel) as progress:
        comparison = _compared(request, history, before, after, progress)
    _tell(comparison)
    _show(comparison, request)
    changed = comparison.decide or (request.strict and comparison.explain)
    found = EXIT_REFUSED if changed or comparison.left_out else EXIT_OK
    return code if code == EXIT_UNREADABLE else code or found


def _compared(
    request: Request, history: History, before: Side, after: Side, progress: Report
) -> Comparison:
    """Replay or simulate both sides."""
    select = None if request.where is None else selection(request.where)
    if not request.simulate:
        from hpabatch.engine.compare.run import compare_history

        return compare_history(history, before, after, select, progress)
    from hpabatch.engine.compare.loop import compare_simulated
    from hpabatch.engine.simulate.run import LoopOptions
    from hpabatch.inputs.documents import digests_of
    from hpabatch.inputs.plants import read_plant_file

    options = LoopOptions(
        plants=tuple(entry for path in request.plant for entry in read_plant_file(path)),
        seed=request.seed,
        files=digests_of(request.plant),
    )
    return compare_simulated(history, before, after, options, select, progress)


def _check(request: Request) -> None:
    """Refuse what says no comparison, or two at once.

    Raises:
        UsageError: what to give instead.
    """
    fitted = {"--delay": request.delay_ms, "--max-age": request.max_age_ms}
    for option, value in fitted.items():
        if request.simulate and value is not None:
            raise UsageError(
                f"{option} and --simulate: a simulated pipeline has the delays that were fitted; "
                "state others in a --plant file"
            )
    if request.plant and not request.simulate:
        raise UsageError("--plant says what is simulated: give --simulate too, or leave it out")
    ranged = request.k8s is not None and _RANGE in request.k8s
    if len(request.manifests) > 2:
        raise UsageError(
            f"--hpas was given {len(request.manifests)} times: give it twice (one folder or file "
            "for each side), or once to compare the recorded HPAs with it"
        )
    if request.manifests and (ranged or request.feature_gates_to):
        given = f"--k8s {request.k8s}" if ranged else "--feature-gates-to"
        raise UsageError(
            f"{given} and --hpas: two versions and two sets of manifests cannot be compared at "
            "once; with --hpas name the one version of both with --k8s"
        )
    if request.manifests or request.feature_gates_to:
        return
    if request.k8s is None:
        raise UsageError(
            "nothing to compare: give two versions (--k8s 1.32..1.37), feature gates of the second "
            "side (--feature-gates-to), or manifests (--hpas today/ --hpas proposed/)"
        )
    if not ranged:
        raise UsageError(
            f"--k8s {request.k8s}: two versions are compared, such as 1.32..1.37, or ..1.37 to "
            "begin with the recorded one"
        )


def _versions(request: Request) -> tuple[str | None, str | None]:
    """Return the versions of both sides, None: as recorded (UsageError: neither is named)."""
    text = request.k8s
    if text is None or _RANGE not in text:
        return text, text
    before, _, after = text.partition(_RANGE)
    if not (before or after) and not request.feature_gates_to:
        raise UsageError(f"--k8s {text}: names no version; give one or two, such as 1.32..1.37")
    return before or None, after or None


def _sides(request: Request, history: History) -> tuple[Side, Side, int]:
    """Return both sides, and the exit code of the manifests that were refused."""
    from hpabatch.engine.compare.sides import Side
    from hpabatch.engine.fleet.parameters import ReplayParameters
    from hpabatch.engine.fleet.versions import history_profile

    before_k8s, after_k8s = _versions(request)
    parameters = ReplayParameters(
        k8s=before_k8s,
        feature_gates=request.feature_gates,
        events=Events.decided.value if request.simulate else request.events,
        sync_period_ms=request.sync_period_ms,
        phase_ms=request.phase_ms,
        delay_ms=request.delay_ms,
        max_age_ms=request.max_age_ms,
    )
    if not request.manifests:
        gates = ",".join(filter(None, (request.feature_gates, request.feature_gates_to)))
        other = replace(parameters, k8s=after_k8s, feature_gates=gates)
        names = [_version_name(history, side) for side in (parameters, other)]
        if request.feature_gates_to:
            names[1] += f" with {request.feature_gates_to}"
        return Side(names[0], parameters), Side(names[1], other), EXIT_OK
    profile = history_profile(history, parameters.k8s, parameters.feature_gates)
    sides, codes = [], []
    for path in request.manifests:
        manifests, code = load_hpas([path], profile)
        sides.append(Side(path, parameters, None if manifests is None else tuple(manifests)))
        codes.append(code)
    if len(sides) == 1:
        sides.insert(0, Side("recorded", parameters))
    if sides[0].name == sides[1].name:
        raise UsageError(f"--hpas {sides[0].name}: both sides are the same; name two")
    worst = EXIT_UNREADABLE if EXIT_UNREADABLE in codes else max(codes)
    return sides[0], sides[1], worst


def _version_name(history: History, parameters: ReplayParameters) -> str:
    """Return what a side is called: its version, and where that is from if it was not given."""
    if parameters.k8s is not None:
        return parameters.k8s
    from hpabatch.engine.fleet.versions import versions_of

    versions = versions_of(history.read("controller"), None, parameters.feature_gates)
    profiles = {profile.name for profile in versions.profiles.values()} or {versions.default.name}
    return versions.source if len(profiles) > 1 else f"{versions.source} {profiles.pop()}"


def _tell(comparison: Comparison) -> None:
    """Write warnings and what was left out to stderr."""
    from hpabatch.report.texts import label

    for warning in comparison.warnings:
        say(f"warning: {warning}")
    for item in comparison.left_out:
        name = label(item.cluster, item.namespace, item.hpa, with_cluster=True)
        say(f"left out ({item.side}): {printable(name)}: {item.reason}")


def _show(comparison: Comparison, request: Request) -> None:
    """Write the report to stdout."""
    from hpabatch.report import compare as forms

    report = forms.CompareReport(comparison, request.top, request.strict)
    if request.output is CompareOutput.markdown:
        send_text(forms.to_markdown(report))
    else:
        show_report(forms, report, Output(request.output.value))
