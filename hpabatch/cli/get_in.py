"""`hpabatch import`: outside data as a history."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Annotated

import typer

from hpabatch.cli.app import LEFT, Answer, OutputOption, app, command
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import send, send_text
from hpabatch.cli.talk import say, tell, tell_assumed
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, UsageError
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.table.request import TableRequest
from hpabatch.model.printable import counted
from hpabatch.report.base import Output

imports = typer.Typer(
    name="import",
    help="Turn outside data into a history.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(imports)


def _print_queries(wanted: bool) -> None:
    """Print the file of queries, whatever else is given, and end."""
    if wanted:
        from hpabatch.importers.prometheus.client.queries import BUILT_IN

        send(BUILT_IN.read_bytes())
        raise typer.Exit(EXIT_OK)


@command(imports, shows=True)
def prometheus(
    request: PrometheusRequest,
    print_queries: Annotated[
        bool,
        typer.Option(
            "--print-queries",
            callback=_print_queries,
            is_eager=True,
            help="Print the usual names of series and labels, to be changed for --queries.",
        ),
    ] = False,
) -> Answer:
    """Import the history of HPAs, their targets and pods from Prometheus.

    Works with every server that speaks its HTTP API: Prometheus, Thanos, Mimir, Cortex,
    VictoriaMetrics. Reads what kube-state-metrics and cAdvisor exported, in small requests, few at
    once, and slows down when the server says so. Only pods of what HPAs scale are read, unless
    --all-workloads.

    \b
    The store --out grows by whole windows of at most a UTC day. After a kill, or to append what has
    come since, repeat the command with --resume; --end is then now, and --start where it ended.

    kube-state-metrics does not export behavior blocks, nor which metrics of an HPA are custom: give
    manifests (--hpas), the cluster's objects (--objects) or recorded events (--hpa-events) beside;
    custom metrics need --mapping. Passwords and tokens come from files or from
    HPABATCH_PROMETHEUS_TOKEN and HPABATCH_PROMETHEUS_PASSWORD, and are never stored. Exit code 3:
    refused, or no HPA was found. docs/prometheus.md explains all of it.

    \b
    Examples:
      hpabatch import prometheus --url http://prom:9090 --start 2026-10-01 --end 2026-11-01 \\
        --out history/
      hpabatch import prometheus --url http://prom:9090 --out history/ --resume
      hpabatch import prometheus --url https://mimir/prometheus --tenant prod --token-file token \\
        --start 2026-10-01 --out history/ --mapping mapping.yaml --hpas manifests/
    """
    from hpabatch.api.imports import prometheus_importer
    from hpabatch.importers.prometheus.client.login import read_login
    from hpabatch.report.imported import PrometheusImport

    login, import_prometheus = read_login(os.environ, request), prometheus_importer()
    LEFT.set(lambda: "the same command with --resume goes on from here")
    with progress_on_stderr() as progress:
        result = import_prometheus(request, login, progress=progress, say=say)
    tell(result.warnings())
    for text in result.notes:
        say(text)
    if result.earlier:
        say(f"continued: {result.earlier} windows were imported before")
    tables = ", ".join(f"{count:,} {name}" for name, count in sorted(result.written.items()))
    say(f"{request.out}: {tables or 'nothing new'}")
    code = EXIT_OK if result.has_hpas or not result.windows else EXIT_REFUSED
    return PrometheusImport(result, str(request.out)), code


@command(imports, shows=True)
def table(request: TableRequest, output: OutputOption = Output.table) -> Answer:
    """Import any tidy CSV or Parquet: rows per pod, or per workload with its replicas.

    Reads files, folders (recursively) and patterns in one go, larger than memory if need be, and
    adds them to the store --out, a folder or an s3://, gs:// or abfs:// URL, made where there is
    none. The map file (docs/import.md) says what the columns mean, in which units, and what is
    assumed; --init proposes one from the columns. What it leaves open gets a default; stderr names
    the most important one ("assumed: ..."), with -v all. --objects takes requests, limits, HPAs and
    owners from what `kubectl get deploy,sts,rs,ds,hpa,pods,pdb -A -o yaml` prints.

    \b
    Faulty rows are left out and counted by reason on stderr. Into a store that has other rows of
    the same workloads nothing is imported unless --replace is given. An interrupted import is
    continued by the same command. Intermediate files of about the input's size lie beside --out (of
    an object store: in TMPDIR), or below --work, until it is done.

    \b
    Examples:
      hpabatch import table usage.csv --init --map map.yaml
      hpabatch import table usage.csv --map map.yaml --dry-run
      hpabatch import table usage.csv --map map.yaml --objects objects.yaml --out history/
      hpabatch import table days/ --map map.yaml --out s3://bucket/history -o json | jq .assumed
    """
    if request.init:
        if output is not Output.table:
            raise UsageError("--init and --output: a map is YAML; leave --output out")
        return None, EXIT_OK, *_proposed(request)
    from hpabatch.history.reader import open_history
    from hpabatch.importers.table.run import import_table
    from hpabatch.report.imported import TableImport

    kept = "files that were read to their end are kept, and what was written; repeat the command"
    LEFT.set(lambda: "nothing is written" if request.out is None else kept)
    with progress_on_stderr() as progress:
        result = import_table(request, progress)
    tell_assumed(result.assumed)
    tell(result.warnings)
    tell(result.left_out(), "left out")
    if result.rows_excluded:
        say(f"not wanted (`where`): {counted(result.rows_excluded, 'row')}")
    if result.resumed:
        say(f"continued: {counted(result.resumed, 'part')} written before")
    out = request.out
    if result.rows_read:
        tables = ", ".join(f"{count:,} {name}" for name, count in result.written.items())
        where = f"{out}: " if out is not None else "nothing is written (--dry-run); it would be "
        source = f"{counted(result.rows_read, 'row')} of {counted(len(result.files), 'file')}"
        say(f"{where}{tables} from {source}")
    then = "the same command with --out history/ instead of --dry-run"
    if out is not None:
        then = f"hpabatch replay {shlex.quote(out)}"
        if open_history(out).sizes("hpas").is_empty():
            then = f"kubectl get hpa -A -o yaml > hpas.yaml; {then} --hpas hpas.yaml"
    return TableImport(result, out), EXIT_OK, f"next: {then}"


def _proposed(request: TableRequest) -> Iterator[str]:
    """Write a proposed map to its file or stdout; yield what was read and what comes next."""
    from hpabatch.importers.table.propose.run import propose

    found = propose(request.inputs, request.map, request.objects, request.start)
    if request.map is None:
        send_text(found.text)
    yield from found.notes
    if found.assumed:
        many = counted(len(found.assumed), "thing")
        yield f"assumed: {many}; check the lines of the map marked `assumed`"
    if request.map is None:
        yield "save it: repeat the command with --map map.yaml"
    words = [*request.inputs, "--map", request.map or "map.yaml"]
    words += [word for item in request.objects for word in ("--objects", item)]
    yield f"next: hpabatch import table {shlex.join(words)} --dry-run"
