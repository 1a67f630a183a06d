"""`hpabatch import`: outside data as a history."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import typer

from hpabatch.cli.app import app
from hpabatch.cli.command import LEFT, command
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import LEGEND, send_text, show_report
from hpabatch.cli.talk import say, tell, tell_assumed
from hpabatch.errors import UsageError
from hpabatch.importers.table.request import TableRequest
from hpabatch.model.printable import counted

if TYPE_CHECKING:
    from hpabatch.importers.table.run import ImportResult

imports = typer.Typer(
    name="import",
    help="Turn outside data into a history.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(imports)


@command(imports)
def table(request: TableRequest, output: OutputOption = Output.table) -> None:
    """Import any tidy CSV or Parquet: rows per pod, or per workload with its replicas.

    Reads files, folders (recursively) and patterns in one go, larger than memory if need be, and
    adds them to the store --out, a folder or an s3://, gs:// or abfs:// URL, made where there is
    none. The map file (docs/import.md) says what the columns mean, in which units, and what is
    assumed; --init proposes one from the columns. What it leaves open gets a default; stderr names
    the most important one ("assumed: ..."), with -v all.

    \b
    --objects takes requests, limits, HPAs and owners from what `kubectl get
    deploy,sts,rs,ds,hpa,pods,pdb -A -o yaml` prints; the map may leave them out.

    \b
    Faulty rows are left out and counted by reason on stderr; --strict refuses them before anything
    is written. Of rows with the same key the last one counts. stdout gets a row per workload. Into
    a store that has other rows of the same workloads and time nothing is imported unless --replace
    is given. An interrupted import is continued by the same command. Intermediate files of about
    the input's size lie beside --out (of an object store: in TMPDIR), or below --work, until it is
    done. Pods of which only the number was recorded are made up, and marked as generated.

    \b
    Exit codes: 0 fine, 2 something cannot be read, 3 refused, 75 ended early (repeat the
    command), 130 interrupted, 143 terminated.

    \b
    Examples:
      hpabatch import table usage.csv --init --map map.yaml
      hpabatch import table usage.csv --map map.yaml --dry-run
      hpabatch import table usage.csv --map map.yaml --objects objects.yaml --out history/
      hpabatch import table 'days/2026-10-*.csv' --map map.yaml --out history/ --strict
      hpabatch import table days/ --map map.yaml --out s3://bucket/history -o json | jq .assumed
    """
    if request.init:
        _propose(request, output)
        return
    from hpabatch.history.reader import open_history
    from hpabatch.importers.table.run import import_table
    from hpabatch.report.imported import TableImport

    LEFT.set(lambda: "what is done is kept; repeat the command for the rest")
    with progress_on_stderr() as progress:
        result = import_table(request, progress)
    _tell(result, request.out)
    show_report(TableImport(result, request.out), output)
    if request.out is None:
        say("next: the same command with --out history/ instead of --dry-run")
    else:
        replay = f"hpabatch replay {shlex.quote(request.out)}"
        if open_history(request.out).sizes("hpas").is_empty():
            replay = f"kubectl get hpa -A -o yaml > hpas.yaml; {replay} --hpas hpas.yaml"
        say(f"next: {replay}")


def _propose(request: TableRequest, output: Output) -> None:
    """Write a proposed map to its file or stdout; tell what was read and what comes next."""
    from hpabatch.importers.table.propose.run import propose

    if output is not Output.table:
        raise UsageError("--init and --output: a map is YAML; leave --output out")
    found = propose(request.inputs, request.map, request.objects, request.start)
    if request.map is None:
        send_text(found.text)
    for text in found.notes:
        say(text)
    place = request.map or "map.yaml"
    if found.assumed:
        many = "1 thing" if len(found.assumed) == 1 else f"{len(found.assumed)} things"
        say(f"assumed: {many}; check the lines of the map marked `assumed`")
    if request.map is None:
        say("save it: repeat the command with --map map.yaml")
    words = [*request.inputs, "--map", place]
    words += [word for item in request.objects for word in ("--objects", item)]
    say(f"next: hpabatch import table {shlex.join(words)} --dry-run")


def _tell(result: ImportResult, out: str | None) -> None:
    """Write assumptions, warnings and what was left out to stderr."""
    tell_assumed(result.assumed)
    tell(result.warnings)
    for text in result.details if LEGEND.get() else ():
        say(text)
    tell(result.left_out(), "left out")
    if result.rows_excluded:
        say(f"not wanted (`where`): {counted(result.rows_excluded, 'row')}")
    if result.resumed:
        say(f"continued: {counted(result.resumed, 'part')} written before")
    if not result.rows_read:
        return
    tables = ", ".join(f"{count:,} {name}" for name, count in result.written.items())
    where = f"{out}: " if out is not None else "nothing is written (--dry-run); it would be "
    source = f"{counted(result.rows_read, 'row')} of {counted(len(result.files), 'file')}"
    say(f"{where}{tables} from {source}")
