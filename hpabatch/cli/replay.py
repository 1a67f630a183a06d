"""`hpabatch replay`: what the HPA rules decide over a recorded history."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from hpabatch.cli.app import app
from hpabatch.cli.options import DEFAULT_K8S, K8sOption, Output, OutputOption
from hpabatch.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REFUSED,
    EXIT_UNREADABLE,
    ManifestError,
    RefusedError,
    UsageError,
)

if TYPE_CHECKING:
    import polars as pl

    from hpabatch.engine.replay import ReplayParameters, ReplayResult
    from hpabatch.history.reader import History
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

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_MAX_DURATION_MS = 366 * 24 * 3_600_000
_MIN_SYNC_PERIOD_MS = 1000


class Events(StrEnum):
    """Which size changes spend the budgets of scaling policies."""

    recorded = "recorded"
    decided = "decided"


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
        int, typer.Option("--top", min=0, help="How many HPAs are named as worth a look.")
    ] = 20,
    sync_period: Annotated[
        str | None,
        typer.Option("--sync-period", metavar="TIME", help="[default: as recorded, else 15s]"),
    ] = None,
    phase: Annotated[
        str, typer.Option("--phase", metavar="TIME", help="First sync after a full period.")
    ] = "0s",
    delay: Annotated[
        str,
        typer.Option("--delay", metavar="TIME", help="From a sample's time until it is visible."),
    ] = "0s",
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", metavar="TIME", help="[default: estimated from the samples]"),
    ] = None,
) -> None:
    """Replay a history through the exact HPA rules."""
    written: list[Path] = []
    try:
        from hpabatch.engine.replay import ReplayParameters

        parameters = ReplayParameters(
            k8s=k8s,
            events=events.value,
            sync_period_ms=_sync_period(sync_period),
            phase_ms=parse_duration(phase, "--phase"),
            delay_ms=parse_duration(delay, "--delay"),
            max_age_ms=None if max_age is None else parse_duration(max_age, "--max-age", 1),
        )
        code = _replay(history, out, hpas or [], parameters, output, where, top, written)
    except KeyboardInterrupt:
        what = f"{written[0]} is written" if written else "nothing was written"
        typer.echo(f"interrupted: {what}", err=True)
        code = EXIT_INTERRUPTED
    raise typer.Exit(code)


def _replay(
    folder: Path,
    out: Path,
    manifests: Sequence[str],
    parameters: ReplayParameters,
    output: Output,
    where: str | None,
    top: int,
    written: list[Path],
) -> int:
    """Read, replay, write and tell; return the exit code. `written` gets `out` when it is there."""
    from hpabatch.engine.replay import replay_history
    from hpabatch.history.reader import open_history
    from hpabatch.model.config import profile_for

    profile = profile_for(parameters.k8s)
    _check_stdout(output)
    select = None if where is None else selection(where)
    # Manifests stand in for the table of HPAs; every other table is still asked for when read.
    history = open_history(folder, None if manifests else "replay")
    check_out(out, history, manifests)
    chosen, code = _load(manifests, profile) if manifests else (None, EXIT_OK)
    with _progress() as progress:
        result = replay_history(history, parameters, chosen, select, progress)
        _tell(result)
        if result.hpas.is_empty():
            raise RefusedError(
                f"{folder}: no HPA could be replayed, so nothing is written; "
                f"{'the reasons are above' if result.skipped else 'the history holds no HPA'}"
            )
        progress("summarizing", 0.95)
        report = _report(result, out, top)
        progress("writing", 0.97)
        _write(result, out)
        written.append(out)
    _show(report, output)
    return code or (EXIT_REFUSED if result.skipped else EXIT_OK)


# ---- options --------------------------------------------------------------------------------------


def parse_duration(text: str, option: str, minimum_ms: int = 0) -> int:
    """Return a duration such as `500ms`, `15s`, `1m` or `2h` in ms.

    Raises:
        UsageError: another form, less than the minimum, or more than a year.
    """
    found = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h)", text)
    if not found:
        raise UsageError(
            f"{option} {text!r} is not a duration: a whole number and ms, s, m or h, such as 15s"
        )
    duration_ms = int(found[1]) * _UNITS_MS[found[2]]
    if duration_ms < minimum_ms:
        least = f"{minimum_ms // 1000}s" if minimum_ms >= 1000 else f"{minimum_ms}ms"
        raise UsageError(f"{option} {text} is too short: at least {least}")
    if duration_ms > _MAX_DURATION_MS:
        raise UsageError(f"{option} {text} is too long: at most a year")
    return duration_ms


def _sync_period(text: str | None) -> int | None:
    return None if text is None else parse_duration(text, "--sync-period", _MIN_SYNC_PERIOD_MS)


def selection(where: str) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """Return a function that keeps the candidate HPAs for which an SQL condition is true.

    Raises:
        UsageError: the text is not a condition on the candidates' columns; the function itself
            raises it if no HPA is left.
    """
    import polars as pl

    from hpabatch.engine.candidates import candidate_frame

    empty = candidate_frame([])
    columns = ", ".join(empty.columns)

    def refuse(reason: str) -> UsageError:
        return UsageError(
            f"--where {where!r}: {reason}; give an SQL condition on {columns}, such as "
            "\"namespace = 'shop' AND max_replicas > 5\""
        )

    try:
        condition = pl.sql_expr(where)
        found = empty.select(condition.alias("condition"))["condition"].dtype
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise refuse(_first_line(error)) from None
    if found != pl.Boolean():
        raise refuse(f"this is not a condition but of type {found}")

    def select(candidates: pl.DataFrame) -> pl.DataFrame:
        try:
            kept = candidates.filter(condition)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise refuse(_first_line(error)) from None
        if kept.is_empty() and not candidates.is_empty():
            raise UsageError(
                f"--where {where!r} is true for none of {candidates.height} HPAs; widen it"
            )
        return kept

    return select


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _check_stdout(output: Output) -> None:
    import sys

    if output is Output.parquet and sys.stdout.isatty():
        raise UsageError(
            "--output parquet is binary: redirect stdout to a file, or choose table, json or csv"
        )


def check_out(out: Path, history: History, manifests: Sequence[str]) -> None:
    """Refuse, before anything is computed, a place where the decisions cannot or must not go.

    Raises:
        UsageError: the place and what to do.
    """
    import tempfile

    from hpabatch.history.schema import TABLES

    if str(out) == "-":
        raise UsageError("--out -: the decisions go to a file; --output chooses what stdout gets")
    try:
        place = out.resolve()
        if place.is_dir():
            raise UsageError(f"--out {out} is a folder; name a file in it")
        if place.exists() and not place.is_file():
            raise UsageError(f"--out {out} is not a regular file; name another")
        for table, files in history.files.items():
            for file in files:
                if place == file.resolve() or place.parent == _table_folder(file, table):
                    raise UsageError(f"--out {out} is in the input table {table}; name another")
        if place.parent == history.path.resolve() and place.name.removesuffix(".parquet") in TABLES:
            raise UsageError(f"--out {out} would be a table of the history; name another")
        if place in [Path(manifest).resolve() for manifest in manifests]:
            raise UsageError(f"--out {out} is an input of --hpas; name another")
        existing = next(folder for folder in place.parents if folder.exists())
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"--out {out} cannot be written: {reason}; name another place") from None


def _table_folder(file: Path, table: str) -> Path | None:
    """Return the folder of a table that is a folder of files, else None."""
    folder = file.resolve().parent
    return folder if folder.name.removesuffix(".parquet") == table else None


# ---- reading and writing --------------------------------------------------------------------------


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
    found = [item.hpa for item in checked if item.hpa is not None]
    code = exit_code(checked)
    if not found:
        error = RefusedError if code == EXIT_REFUSED else ManifestError
        raise error(f"--hpas {' '.join(paths)}: no HPA to replay; nothing is written")
    return found, code


def _tell(result: ReplayResult) -> None:
    """Write warnings and skipped HPAs to stderr."""
    from hpabatch.report.replay import label

    for warning in result.warnings:
        typer.echo(f"warning: {warning}", err=True)
    for skipped in result.skipped:
        name = label(skipped.cluster, skipped.namespace, skipped.hpa, with_cluster=True)
        typer.echo(f"skipped: {name}: {skipped.reason}", err=True)


def _report(result: ReplayResult, out: Path, top: int) -> ReplayReport:
    from hpabatch.engine.attention import rank_attention
    from hpabatch.engine.summary import summarize, total
    from hpabatch.report.replay import ReplayReport

    summary = summarize(result.decisions, result.hpas)
    return ReplayReport(
        evidence=result.evidence,
        totals=total(summary),
        summary=summary,
        attention=rank_attention(summary, top),
        skipped=result.skipped,
        warnings=result.warnings,
        out=str(out),
    )


def _write(result: ReplayResult, out: Path) -> None:
    from hpabatch.history.atomic import atomic_path
    from hpabatch.report.replay import write_parquet

    with atomic_path(out) as temporary:
        write_parquet(result.decisions, result.evidence, temporary)


def _show(report: ReplayReport, output: Output) -> None:
    """Write the report to stdout; a reader that went away (head, less) is no error."""
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
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is still buffered would fail again when Python closes stdout.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())


class Progress(Protocol):
    """Tells which step is done and how much of the whole, 0 to 1."""

    def __call__(self, message: str, share: float, /) -> None: ...  # noqa: D102


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield a progress report: a bar on stderr if that is a terminal, else nothing."""
    import sys

    if not sys.stderr.isatty():
        yield lambda message, share: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=1.0)
        yield lambda message, share: bar.update(task, description=message, completed=share)
