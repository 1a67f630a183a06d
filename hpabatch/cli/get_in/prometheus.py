"""`hpabatch import prometheus`: months out of a metrics server, gently."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.command import LEFT, command
from hpabatch.cli.get_in.table import imports
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.progress import progress_on_stderr
from hpabatch.cli.stdout import LEGEND, send, show_report
from hpabatch.cli.talk import say, tell
from hpabatch.errors import EXIT_OK, EXIT_REFUSED, UsageError
from hpabatch.importers.prometheus.request import PrometheusRequest

if TYPE_CHECKING:
    from hpabatch.importers.prometheus.result import ImportResult


def _print(name: str) -> Callable[[bool], None]:
    """Return a callback that prints a file of the package, whatever else is given, and ends."""

    def show(wanted: bool) -> None:
        if wanted:
            from hpabatch.importers.prometheus.client import queries

            send({"queries": queries.BUILT_IN, "rules": queries.RULES}[name].read_bytes())
            raise typer.Exit(EXIT_OK)

    return show


@command(imports)
def prometheus(
    request: PrometheusRequest,
    print_queries: Annotated[
        bool,
        typer.Option(
            "--print-queries",
            callback=_print("queries"),
            is_eager=True,
            help="Print the usual names of series and labels, to be changed for --queries.",
        ),
    ] = False,
    print_rules: Annotated[
        bool,
        typer.Option(
            "--print-rules",
            callback=_print("rules"),
            is_eager=True,
            help="Print recording rules that make later imports cheap.",
        ),
    ] = False,
    output: OutputOption = Output.table,
) -> int:
    """Import the history of HPAs, their targets and pods from Prometheus.

    Works with every server that speaks its HTTP API: Prometheus, Thanos, Mimir, Cortex,
    VictoriaMetrics. Reads what kube-state-metrics and cAdvisor exported, in small requests, few at
    once, and slows down when the server says so. Usage comes from the raw counters, with their own
    times, not from rate().

    \b
    The store --out grows by whole windows of at most a UTC day. After a kill, or to append what has
    come since, repeat the command with --resume; --end is then now, and --start where it ended.
    What another import wrote of the same workloads and time is replaced only with --replace.
    Only pods of what HPAs scale are read, unless --all-workloads.

    \b
    kube-state-metrics does not export behavior blocks, nor which metrics of an HPA are custom: give
    manifests (--hpas), the cluster's objects (--objects) or recorded events (--hpa-events) beside;
    `history info` says which HPAs lack them. Custom metrics need --mapping: the adapter's own
    configuration, ScaledObjects, or a mapping file (docs/prometheus.md). Passwords and tokens come
    from files or from HPABATCH_PROMETHEUS_TOKEN and HPABATCH_PROMETHEUS_PASSWORD, and are never
    stored.

    \b
    Exit codes: 0 fine, 2 the server or a file cannot be read, 3 refused, or no HPA was found, 130
    interrupted, 143 terminated.

    \b
    Examples:
      hpabatch import prometheus --url http://prom:9090 --start 2026-10-01 --end 2026-11-01 \\
        --out history/
      hpabatch import prometheus --url http://prom:9090 --out history/ --resume
      hpabatch import prometheus --url https://mimir/prometheus --tenant prod --token-file token \\
        --start 2026-10-01 --out history/ --mapping adapter-config.yaml --hpas manifests/
    """
    from hpabatch.importers.prometheus.client.login import read_login
    from hpabatch.report.imported import PrometheusImport

    login = read_login(os.environ, request)
    try:
        from hpabatch.importers.prometheus.run import import_prometheus
    except ModuleNotFoundError as error:
        raise UsageError(
            f"importing from a server needs the package {error.name}: "
            "pip install 'hpabatch[prometheus]'"
        ) from None
    LEFT.set(lambda: "the same command with --resume goes on from here")
    with progress_on_stderr() as progress:
        result = import_prometheus(request, login, progress=progress, say=say)
    _tell(result, str(request.out))
    show_report(PrometheusImport(result, str(request.out)), output)
    return EXIT_OK if result.has_hpas or not result.windows else EXIT_REFUSED


def _tell(result: ImportResult, out: str) -> None:
    tell(result.warnings())
    for text in (*result.notes, *(result.details if LEGEND.get() else ())):
        say(text)
    if result.earlier:
        say(f"continued: {result.earlier} windows were imported before")
    tables = ", ".join(f"{count:,} {name}" for name, count in sorted(result.written.items()))
    say(f"{out}: {tables or 'nothing new'}")
