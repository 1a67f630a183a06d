"""`hpabatch replay`: what the HPA rules decide over a recorded history."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from hpabatch.cli.app import app
from hpabatch.cli.arguments import check_out, parse_duration, selection
from hpabatch.cli.options import DEFAULT_K8S, K8sOption, Output, OutputOption
from hpabatch.cli.stdout import check_stdout, data_stream
from hpabatch.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REFUSED,
    ManifestError,
    RefusedError,
)

if TYPE_CHECKING:
    from hpabatch.engine.replay import ReplayResult
    from hpabatch.model.config import Profile
    from hpabatch.model.hpa import HPA
    from hpabatch.report.replay import ReplayReport

_HELP = """Replay a history through the exact HPA rules.

Reads a folder of Parquet tables, decides every HPA at every sync with the replicas that were
recorded, and writes one row per HPA and sync to --out. stdout gets a summary: one row per HPA, and
the HPAs most worth a look. With --hpas the HPAs of manifests are replayed instead of the recorded
ones.

\b
What had to be assumed stands in the result: --sync-period, --phase, --delay and --max-age are
durations such as 500ms, 15s or 1m, and each is written down with where it came from.
--where is an SQL condition on the columns cluster, namespace, hpa, target_kind, target,
min_replicas, max_replicas, has_behavior, specs and labels (a JSON text).

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs were refused or skipped (the others are
written); 2 wins over 3. Nothing is written unless all of it is.

\b
Examples:
  hpabatch replay history/ --out decisions.parquet
  hpabatch replay history/ --hpas manifests/ --events decided --out new.parquet
  hpabatch replay history/ --out shop.parquet --where "namespace = 'shop' AND max_replicas > 5"
  hpabatch replay history/ --out d.parquet --output json | jq '.attention[0].why'
"""

_MIN_SYNC_PERIOD_MS = 1000


class Events(StrEnum):
    """Which size changes spend the budgets of scaling policies."""

    recorded = "recorded"
    decided = "decided"


@dataclass(frozen=True, slots=True)
class Request:
    """What the command line asked for; times in ms, None: not given."""

    history: Path
    out: Path
    manifests: tuple[str, ...]
    k8s: str
    events: str
    where: str | None
    top: int
    output: Output
    sync_period_ms: int | None
    phase_ms: int | None
    delay_ms: int | None
    max_age_ms: int | None


@app.command(help=_HELP)
def replay(
    history: Annotated[Path, typer.Argument(metavar="HISTORY", help="Folder of Parquet tables.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where the decisions go.")],
    hpas: Annotated[
        list[str] | None,
        typer.Option(
            "--hpas", metavar="PATH", help="Manifests to replay instead; may be repeated."
        ),
    ] = None,
    events: Annotated[
        Events, typer.Option("--events", help="Which changes spend the policies' budgets.")
    ] = Events.recorded,
    k8s: K8sOption = DEFAULT_K8S,
    output: OutputOption = Output.table,
    where: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only HPAs for which this is true.")
    ] = None,
    top: Annotated[
        int,
        typer.Option(
            "--top", min=0, max=1_000_000, help="How many HPAs are named as worth a look."
        ),
    ] = 20,
    sync_period: Annotated[
        str | None,
        typer.Option(
            "--sync-period",
            metavar="TIME",
            help="Between two syncs.  [default: as recorded, else 15s]",
        ),
    ] = None,
    phase: Annotated[
        str | None,
        typer.Option(
            "--phase",
            metavar="TIME",
            help="Syncs come this long after full periods.  [default: 0s]",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            "--delay",
            metavar="TIME",
            help="From a sample's time until it is visible.  [default: 0s]",
        ),
    ] = None,
    max_age: Annotated[
        str | None,
        typer.Option(
            "--max-age",
            metavar="TIME",
            help="How long a sample counts without a newer one.  [default: estimated from them]",
        ),
    ] = None,
) -> None:
    """Replay a history through the exact HPA rules."""
    written: list[Path] = []
    try:
        request = Request(
            history=history,
            out=out,
            manifests=tuple(hpas or ()),
            k8s=k8s,
            events=events.value,
            where=where,
            top=top,
            output=output,
            sync_period_ms=_optional(sync_period, "--sync-period", _MIN_SYNC_PERIOD_MS),
            phase_ms=_optional(phase, "--phase", 0),
            delay_ms=_optional(delay, "--delay", 0),
            max_age_ms=_optional(max_age, "--max-age", 1),
        )
        code = _replay(request, written)
    except KeyboardInterrupt:
        what = f"{written[0]} is written" if written else "nothing was written"
        typer.echo(f"interrupted: {what}", err=True)
        code = EXIT_INTERRUPTED
    raise typer.Exit(code)


def _optional(text: str | None, option: str, minimum_ms: int) -> int | None:
    return None if text is None else parse_duration(text, option, minimum_ms)


def _replay(request: Request, written: list[Path]) -> int:
    """Read, replay, write and tell; return the exit code. `written` gets the file once there."""
    check_stdout(request.output)
    with _progress() as progress:
        progress("loading", 0.0)
        result, code = _decide(request, progress)
    _tell(result)
    if result.hpas.is_empty():
        raise RefusedError(
            f"{request.history}: no HPA could be replayed, so nothing is written; "
            f"{'the reasons are above' if result.skipped else 'the history holds no HPA'}"
        )
    with _progress() as progress:
        progress("summarizing", 0.95)
        report = _report(result, request)
        progress("writing", 0.97)
        _write(result, request.out)
        written.append(request.out)
    _show(report, request.output)
    return code or (EXIT_REFUSED if result.skipped else EXIT_OK)


def _decide(request: Request, progress: Progress) -> tuple[ReplayResult, int]:
    """Check what was asked for and replay; return the result and the manifests' exit code."""
    from hpabatch.engine.replay import ReplayParameters, replay_history
    from hpabatch.history.reader import open_history
    from hpabatch.model.config import profile_for

    profile = profile_for(request.k8s)
    select = None if request.where is None else selection(request.where)
    manifests = request.manifests
    # Manifests stand in for the table of HPAs; every other table is still asked for when read.
    history = open_history(request.history, None if manifests else "replay")
    check_out(request.out, history, manifests)
    chosen, code = _load(manifests, profile) if manifests else (None, EXIT_OK)
    parameters = ReplayParameters(
        k8s=request.k8s,
        events=request.events,
        sync_period_ms=request.sync_period_ms,
        phase_ms=request.phase_ms,
        delay_ms=request.delay_ms,
        max_age_ms=request.max_age_ms,
    )
    return replay_history(history, parameters, chosen, select, progress), code


def _load(paths: Sequence[str], profile: Profile) -> tuple[list[HPA], int]:
    """Return the valid HPAs of manifests and the exit code of the others, which stderr names.

    Raises:
        ManifestError, RefusedError: not one HPA is left.
    """
    from hpabatch.report.validation import talk_lines
    from hpabatch.sources.manifest_checks import check_manifests, exit_code
    from hpabatch.sources.manifests import load_manifests

    checked = check_manifests(load_manifests(paths).entries, profile)
    for line in talk_lines(checked):
        typer.echo(line, err=True)
    code = exit_code(checked)
    found: dict[tuple[str, str], HPA] = {}
    places: dict[tuple[str, str], str] = {}
    for item in checked:
        if item.hpa is None:
            continue
        key, place = (item.hpa.namespace or "default", item.hpa.name), item.entry.place
        if key in found:
            told = f"given twice, first at {places[key]}: only that one is replayed"
            typer.echo(f"{place}: {'/'.join(key)}: {told}", err=True)
            code = code or EXIT_REFUSED
            continue
        found[key], places[key] = item.hpa, place
    if not found:
        error = RefusedError if code == EXIT_REFUSED else ManifestError
        raise error(f"--hpas {' '.join(paths)}: no HPA to replay; nothing is written")
    return list(found.values()), code


def _tell(result: ReplayResult) -> None:
    """Write warnings and skipped HPAs to stderr."""
    from hpabatch.report.replay import label

    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)
    for skipped in result.skipped:
        name = label(skipped.cluster, skipped.namespace, skipped.hpa, with_cluster=True)
        typer.echo(f"skipped: {name}: {skipped.reason}", err=True)


def _report(result: ReplayResult, request: Request) -> ReplayReport:
    from hpabatch.engine.attention import rank_attention
    from hpabatch.engine.summary import summarize, total
    from hpabatch.report.replay import ReplayReport

    summary = summarize(result.decisions, result.hpas)
    return ReplayReport(
        evidence=result.evidence,
        totals=total(summary),
        summary=summary,
        attention=rank_attention(summary, request.top),
        skipped=result.skipped,
        warnings=result.warnings,
        out=str(request.out),
    )


def _write(result: ReplayResult, out: Path) -> None:
    from hpabatch.history.atomic import atomic_path
    from hpabatch.report.replay import write_parquet

    with atomic_path(out) as temporary:
        write_parquet(result.decisions, result.evidence, temporary)


def _show(report: ReplayReport, output: Output) -> None:
    """Write the report to stdout."""
    import shutil
    import sys

    from hpabatch.report import replay as forms

    terminal = sys.stdout.isatty()
    match output:
        case Output.table:
            width = shutil.get_terminal_size().columns if terminal else None
            styled = terminal and "NO_COLOR" not in os.environ
            data = forms.to_table(report, width, styled=styled).encode()
        case Output.json:
            data = forms.to_json(report).encode()
        case Output.csv:
            data = forms.to_csv(report).encode()
        case Output.parquet:
            data = forms.to_parquet(report)
    with data_stream() as stdout:
        stdout.flush()
        stdout.buffer.write(data)


class Progress(Protocol):
    """Tells which step is done and how much of the whole, 0 to 1."""

    def __call__(self, message: str, share: float, /) -> None: ...  # noqa: D102


_COMPILING = "compiling the rules, once, about 25 s"


def _must_compile() -> bool:
    from hpabatch import _jit

    return not _jit.has_compiled("replay_fleet")


def _tell_of_compiling(message: str, share: float) -> None:
    """Say the one thing that takes long, where there is no progress bar."""
    if message == "deciding" and _must_compile():
        typer.echo(_COMPILING, err=True)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield a progress report: a bar on stderr if that is a terminal, else nothing."""
    import sys

    if not sys.stderr.isatty():
        yield _tell_of_compiling
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("loading", total=1.0)

        def report(message: str, share: float) -> None:
            # Without a word on it, half a minute of compiling looks like a hang.
            compiles = message == "deciding" and _must_compile()
            text = f"{message} ({_COMPILING})" if compiles else message
            bar.update(task, description=text, completed=share)

        yield report
