"""`hpabatch import prometheus`: months out of a metrics server, gently."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.arguments import parse_at, parse_duration
from hpabatch.cli.get_in.table import imports
from hpabatch.cli.options import Output, OutputOption
from hpabatch.cli.progress import share_on_stderr
from hpabatch.cli.stdout import check_stdout, send, send_json, send_text
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_REFUSED, UsageError
from hpabatch.model.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from hpabatch.importers.prometheus.client.login import Login
    from hpabatch.importers.prometheus.request import ImportRequest
    from hpabatch.importers.prometheus.result import ImportResult

_HELP = """Import the history of HPAs, their targets and pods from Prometheus.

Works with every server that speaks its HTTP API: Prometheus, Thanos, Mimir, Cortex,
VictoriaMetrics. Reads what kube-state-metrics and cAdvisor exported, in small questions, few at
once, and slows down when the server says so. Usage comes from the raw counters, with their own
times, not from rate().

\b
The store --out grows by whole windows of at most a UTC day. After a kill, or to append what has
come since, repeat the command with --resume; --end is then now, and --start where it ended.
Only pods of what HPAs scale are read, unless --all-workloads. --lite reads what HPAs and their
targets say of themselves alone: a few series per HPA, enough for `sweep` and `simulate`.

\b
kube-state-metrics does not export behavior blocks, nor which metrics of an HPA are custom: give
manifests (--hpas) or recorded events (--hpa-events) beside; `history info` says which HPAs lack
them. Custom metrics need --mapping: the adapter's own configuration, ScaledObjects, or a mapping
file (docs/prometheus-mapping.md). Passwords and tokens come from files or from
HPABATCH_PROMETHEUS_TOKEN and HPABATCH_PROMETHEUS_PASSWORD, and are never stored.

\b
Exit codes: 0 fine, 2 the server or a file cannot be read, 3 refused, or no HPA was found, 130
interrupted, 143 terminated.

\b
Examples:
  hpabatch import prometheus --url http://prom:9090 --start 2026-10-01 --end 2026-11-01 \\
    --out history/
  hpabatch import prometheus --url http://prom:9090 --out history/ --resume
  hpabatch import prometheus --url http://prom:9090 --start 2026-10-01 --end 2026-11-01 --dry-run
  hpabatch import prometheus --url https://mimir/prometheus --tenant prod --token-file token \\
    --start 2026-10-01 --out history/ --mapping adapter-config.yaml --hpas manifests/
  hpabatch import prometheus --url http://prom:9090 --start 2026-08-01 --out lite/ --lite
"""


@imports.command("prometheus", help=_HELP)
def prometheus(
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="The server, with its path prefix.")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="TIME", help="Begin, UTC if no zone is given.")
    ] = None,
    end: Annotated[
        str | None, typer.Option("--end", metavar="TIME", help="End.  [default: some minutes ago]")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", metavar="HISTORY", help="The store that gets the rows.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an import, or append what has come since.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the questions and their sizes, ask nothing.")
    ] = False,
    lite: Annotated[
        bool, typer.Option("--lite", help="Only what HPAs and their targets say of themselves.")
    ] = False,
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", metavar="NAME", help="Only this one; repeatable."),
    ] = None,
    cluster: Annotated[
        str,
        typer.Option(
            "--cluster",
            metavar="NAME",
            help="What the cluster is called; beside --cluster-label, only this one.",
        ),
    ] = "default",
    cluster_label: Annotated[
        str,
        typer.Option(
            "--cluster-label", metavar="LABEL", help="The label that tells several clusters apart."
        ),
    ] = "",
    all_workloads: Annotated[
        bool, typer.Option("--all-workloads", help="Pods that no HPA scales, too.")
    ] = False,
    hpas: Annotated[
        list[str] | None,
        typer.Option("--hpas", metavar="PATH", help="Manifests of the HPAs; repeatable."),
    ] = None,
    hpa_events: Annotated[
        list[str] | None,
        typer.Option(
            "--hpa-events",
            metavar="FILE",
            help="Audit log or recorded watch of HPAs (docs/hpa-events.md); repeatable.",
        ),
    ] = None,
    mapping: Annotated[
        list[str] | None,
        typer.Option("--mapping", metavar="FILE", help="Where custom metrics are; repeatable."),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option("--queries", metavar="FILE", help="Other names of series and labels."),
    ] = None,
    print_queries: Annotated[
        bool, typer.Option("--print-queries", help="Print the usual names, to be changed.")
    ] = False,
    print_rules: Annotated[
        bool,
        typer.Option("--print-rules", help="Print recording rules that make later imports cheap."),
    ] = False,
    max_gap: Annotated[
        str, typer.Option("--max-gap", metavar="TIME", help="Samples further apart are a gap.")
    ] = "5m",
    step: Annotated[
        str, typer.Option("--step", metavar="TIME", help="Between values of a custom metric.")
    ] = "30s",
    max_samples: Annotated[
        int, typer.Option("--max-samples", min=1000, help="Of one answer, about.")
    ] = 500_000,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, max=16, help="Questions at once, at most.")
    ] = 2,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="For one answer.")
    ] = "2m",
    compress: Annotated[
        bool,
        typer.Option(
            "--compress",
            help="Spare the network: a quarter of the bytes, more work for the server.",
        ),
    ] = False,
    expect_pods: Annotated[
        int, typer.Option("--expect-pods", min=1, help="How many a --dry-run reckons with.")
    ] = 1000,
    expect_hpas: Annotated[
        int, typer.Option("--expect-hpas", min=1, help="How many a --dry-run reckons with.")
    ] = 100,
    token_file: Annotated[
        str | None, typer.Option("--token-file", metavar="FILE", help="With a bearer token.")
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="For basic authentication.")
    ] = None,
    password_file: Annotated[
        str | None, typer.Option("--password-file", metavar="FILE", help="With its password.")
    ] = None,
    cert: Annotated[
        str | None, typer.Option("--cert", metavar="FILE", help="Client certificate (PEM).")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="FILE", help="Its key (PEM).")] = None,
    ca: Annotated[
        str | None,
        typer.Option("--ca", metavar="FILE", help="Who signed the server's certificate (PEM)."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Do not check the server's certificate.")
    ] = False,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="NAME", help="For X-Scope-OrgID.")
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="TEXT", help="'Name: value' or @FILE; repeatable."),
    ] = None,
    work: Annotated[
        str | None,
        typer.Option(
            "--work",
            metavar="FOLDER",
            help="For intermediate files.  [default: beside --out; of an object store: in TMPDIR]",
        ),
    ] = None,
    output: OutputOption = Output.table,
) -> None:
    """Import the history of HPAs, their targets and pods from Prometheus."""
    from pathlib import Path

    if print_queries or print_rules:
        from hpabatch.importers.prometheus.client.queries import BUILT_IN, RULES

        send((BUILT_IN if print_queries else RULES).read_bytes())
        raise typer.Exit(EXIT_OK)
    check_stdout(output)

    def paths(names: list[str] | None) -> tuple[Path, ...]:
        return tuple(Path(name) for name in names or ())

    from hpabatch.importers.prometheus.request import ImportRequest

    if url is None:
        raise UsageError("--url is missing: the server, such as http://prometheus:9090")
    request = ImportRequest(
        url=url,
        start_ms=None if start is None else parse_at(start, "--start"),
        end_ms=None if end is None else parse_at(end, "--end"),
        resume=resume,
        namespaces=tuple(sorted(set(namespaces or ()))),
        cluster=cluster,
        cluster_label=cluster_label,
        lite=lite,
        all_workloads=all_workloads,
        manifests=paths(hpas),
        events=paths(hpa_events),
        mappings=paths(mapping),
        queries=None if queries is None else Path(queries),
        max_gap_ms=parse_duration(max_gap, "--max-gap", 180_000),
        step_ms=parse_duration(step, "--step", 1000),
        tenant=tenant or "",
        max_samples=max_samples,
    )
    login = _login(
        token_file=token_file, user=user, password_file=password_file, cert=cert, key=key, ca=ca,
        tenant=tenant, headers=headers, insecure=insecure,
    )  # fmt: skip
    if dry_run:
        _estimate(request, expect_pods, expect_hpas, output)
        raise typer.Exit(EXIT_OK)
    if out is None:
        raise UsageError("--out is missing: say where the history goes, or look with --dry-run")
    patience_s = parse_duration(timeout, "--timeout", 1000) / 1000
    place = None if work is None else Path(work)
    try:
        limits = (concurrency, patience_s, compress)
        result = _import(request, login, out, place, limits)
    except KeyboardInterrupt:
        say("interrupted: the same command with --resume goes on from here")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    _tell(result, out)
    _show(result, output)
    raise typer.Exit(EXIT_OK if result.has_hpas or not result.windows else EXIT_REFUSED)


def _login(
    *,
    token_file: str | None,
    user: str | None,
    password_file: str | None,
    cert: str | None,
    key: str | None,
    ca: str | None,
    tenant: str | None,
    headers: list[str] | None,
    insecure: bool,
) -> Login:
    from pathlib import Path

    from hpabatch.importers.prometheus.client.login import read_login

    def path(name: str | None) -> Path | None:
        return None if name is None else Path(name)

    return read_login(
        os.environ, token_file=path(token_file), user=user, password_file=path(password_file),
        cert=path(cert), key=path(key), ca=path(ca), tenant=tenant, headers=headers or (),
        insecure=insecure,
    )  # fmt: skip


def _import(
    request: ImportRequest,
    login: Login,
    out: str,
    work: Path | None,
    limits: tuple[int, float, bool],
) -> ImportResult:
    try:
        from hpabatch.importers.prometheus.client.http import Limits
    except ModuleNotFoundError as error:
        raise UsageError(
            f"importing from a server needs the package {error.name}: "
            "pip install 'hpabatch[prometheus]'"
        ) from None
    from hpabatch.importers.prometheus.run import import_prometheus

    concurrency, timeout_s, compress = limits
    with share_on_stderr() as progress:
        return import_prometheus(
            request, login, out, work=work,
            limits=Limits(concurrency=concurrency, timeout_s=timeout_s, gzip=compress),
            progress=progress, say=say,
        )  # fmt: skip


def _tell(result: ImportResult, out: str) -> None:
    """Write what was noticed, and what it took, to stderr."""

    for text in result.warnings():
        say(f"warning: {text}")
    for text in result.notes:
        say(text)
    if result.earlier:
        say(f"continued: {result.earlier} windows were imported before")
    tables = ", ".join(f"{count:,} {name}" for name, count in sorted(result.written.items()))
    say(f"{out}: {tables or 'nothing new'}")


def _show(result: ImportResult, output: Output) -> None:
    """Write the result to stdout: a row per cluster and namespace."""
    import io
    import json

    from hpabatch.report.texts import frame_csv

    match output:
        case Output.table:
            send_text(_as_text(result.places))
        case Output.json:
            found = json.dumps(result.as_dict(), indent=1, ensure_ascii=False)
            send_json(f"{found}\n")
        case Output.csv:
            send(frame_csv(result.places).encode())
        case Output.parquet:
            buffer = io.BytesIO()
            result.places.write_parquet(buffer)
            send(buffer.getvalue())


def _estimate(request: ImportRequest, pods: int, hpas: int, output: Output) -> None:
    """Show what would be asked."""
    import io

    from hpabatch.importers.prometheus.estimate import estimate
    from hpabatch.report.texts import frame_csv

    found = estimate(request, pods, hpas)
    for line in found.told():
        say(line)
    match output:
        case Output.table:
            send_text(_as_text(found.frame))
        case Output.json:
            send_json(f"{found.as_json()}\n")
        case Output.csv:
            send(frame_csv(found.frame).encode())
        case Output.parquet:
            buffer = io.BytesIO()
            found.frame.write_parquet(buffer)
            send(buffer.getvalue())


def _as_text(frame: pl.DataFrame) -> str:
    """Return a frame as a table for people."""
    import shutil
    import sys

    from rich.table import Table

    from hpabatch.report.console import drawn

    table = Table(box=None, pad_edge=False, header_style="")
    for name, dtype in frame.schema.items():
        table.add_column(name.upper(), justify="right" if dtype.is_numeric() else "left")
    for row in frame.rows():
        table.add_row(
            *(f"{cell:,}" if isinstance(cell, int) else printable(str(cell)) for cell in row)
        )
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return drawn([table], width)
