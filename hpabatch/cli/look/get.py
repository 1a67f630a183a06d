"""`hpabatch get`: the table of `kubectl get hpa`, from a history."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from hpabatch.cli.app import app
from hpabatch.cli.moments import MomentRequest, open_moments
from hpabatch.cli.options import (
    AtOption,
    DelayOption,
    Events,
    EventsOption,
    GatesOption,
    HistoryArgument,
    HistoryK8sOption,
    HpasOption,
    MaxAgeOption,
    Output,
    PhaseOption,
    SyncPeriodOption,
    WhereOption,
)
from hpabatch.cli.stdout import check_stdout, send, send_json, send_text

if TYPE_CHECKING:
    import polars as pl

    from hpabatch.model.objects.hpa import HPA
    from hpabatch.report.kubectl.get import GetRow

_HELP = """Show a history's HPAs as `kubectl get hpa` would have.

The status is the one that the exact rules give over the recorded replicas and metrics: every sync
until --at is decided. AGE counts to --at. The layout is that of the Kubernetes version: from 1.30
on TARGETS names the resource. HPAs that were not there at --at are left out.

\b
Exit codes: 0 fine, 2 something cannot be read, 3 some HPAs cannot be replayed or, asked for by
name, were not there (the others are shown); 2 wins over 3.

\b
Examples:
  hpabatch get history/
  hpabatch get history/ -n shop --at "2026-10-07 14:03"
  hpabatch get history/ shop/web shop/cart --k8s 1.20
  hpabatch get history/ --hpas proposed/ -o json | jq '.items[].status.conditions'
"""


_NUMBERS = ("maxpods", "replicas")  # of the table's cells


class GetOutput(StrEnum):
    """The form of what stdout gets."""

    table = "table"
    json = "json"
    yaml = "yaml"
    csv = "csv"
    parquet = "parquet"


@app.command(help=_HELP)
def get(
    history: HistoryArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMESPACE/]HPA…", help="Only these.", show_default=False),
    ] = None,
    at: AtOption = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only HPAs of this namespace.")
    ] = None,
    where: WhereOption = None,
    hpas: HpasOption = None,
    k8s: HistoryK8sOption = None,
    feature_gates: GatesOption = "",
    events: EventsOption = Events.recorded,
    sync_period: SyncPeriodOption = None,
    phase: PhaseOption = None,
    delay: DelayOption = None,
    max_age: MaxAgeOption = None,
    output: Annotated[
        GetOutput, typer.Option("--output", "-o", help="Form of what stdout gets.")
    ] = GetOutput.table,
) -> None:
    """Show a history's HPAs as `kubectl get hpa` would have."""
    check_stdout(Output.parquet if output is GetOutput.parquet else Output.json)
    reader = open_moments(
        MomentRequest(
            history, tuple(names or ()), namespace, where, at, tuple(hpas or ()), k8s,
            feature_gates, events, sync_period, phase, delay, max_age,
        )
    )  # fmt: skip
    from hpabatch.report.kubectl.get import get_rows

    documents: list[HPA] = []
    rows: dict[str, list[GetRow]] = {}
    for moment in reader.read():
        document, cluster = reader.metadata.document(moment), moment.candidate.cluster
        version = reader.plan.versions.name_of(cluster)
        documents.append(document)
        rows.setdefault(cluster, []).extend(get_rows([document], reader.at_ms, k8s=version))
    _show(output, documents, rows, namespace is None)
    raise typer.Exit(reader.code)


def _show(
    output: GetOutput,
    documents: list[HPA],
    rows: dict[str, list[GetRow]],
    with_namespace: bool,
) -> None:
    """Write to stdout; `rows` are by cluster."""
    from hpabatch.model.printable import printable
    from hpabatch.report.history import frame_csv, frame_parquet
    from hpabatch.report.kubectl.get import get_table
    from hpabatch.report.kubectl.manifest import json_manifests, live_document, yaml_manifests

    match output:
        case GetOutput.table:
            tables = {cluster: get_table(part, with_namespace) for cluster, part in rows.items()}
            if len(tables) > 1:
                # kubectl is asked cluster by cluster, and each may have another version's layout.
                tables = {c: f"cluster {printable(c)}\n{t}" for c, t in tables.items()}
            send_text("\n".join(tables.values()))
        case GetOutput.json:
            send_json(json_manifests(documents, live_document))
        case GetOutput.yaml:
            send_text(yaml_manifests(documents, live_document))
        case GetOutput.csv:
            send(frame_csv(_frame(rows)).encode())
        case GetOutput.parquet:
            send(frame_parquet(_frame(rows)))


def _frame(rows: dict[str, list[GetRow]]) -> pl.DataFrame:
    """Return the table's cells with the cluster of each row."""
    import polars as pl

    from hpabatch.report.kubectl.get import GetRow

    names = ("cluster", *GetRow.__slots__)
    return pl.DataFrame(
        [{"cluster": cluster} | asdict(row) for cluster, part in rows.items() for row in part],
        schema={name: pl.Int64() if name in _NUMBERS else pl.String() for name in names},
    )
