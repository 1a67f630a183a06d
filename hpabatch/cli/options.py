"""Options shared by commands, so that each is spelled, explained and checked once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from hpabatch.model.version_table import GATES
from hpabatch.model.versions import DEFAULT_K8S


class Output(StrEnum):
    """The form of what stdout gets."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


K8sOption = Annotated[
    str, typer.Option("--k8s", metavar="VERSION", help="Kubernetes version whose rules apply.")
]
HistoryK8sOption = Annotated[
    str | None,
    typer.Option(
        "--k8s",
        metavar="VERSION",
        help=f"Kubernetes version whose rules apply.  [default: as recorded, else {DEFAULT_K8S}]",
    ),
]
GatesOption = Annotated[
    str,
    typer.Option(
        "--feature-gates",
        metavar="GATE=BOOL,…",
        help="Feature gates that are not as in that version: " + ", ".join(GATES) + ".",
        show_default=False,
    ),
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Form of what stdout gets.", show_default=True)
]

AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME",
        help="When: '2026-10-07 14:03' (UTC) or RFC 3339.  [default: the last sync]",
    ),
]
HpasOption = Annotated[
    list[str] | None,
    typer.Option(
        "--hpas", metavar="PATH", help="Manifests instead of the recorded HPAs; may be repeated."
    ),
]
WhereOption = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only HPAs for which this is true (docs/expressions.md).",
    ),
]


class Events(StrEnum):
    """Which size changes spend the budgets of scaling policies."""

    recorded = "recorded"
    decided = "decided"


EventsOption = Annotated[
    Events, typer.Option("--events", help="Which changes spend the policies' budgets.")
]
SyncPeriodOption = Annotated[
    str | None,
    typer.Option(
        "--sync-period", metavar="TIME", help="Between two syncs.  [default: as recorded, else 15s]"
    ),
]
PhaseOption = Annotated[
    str | None,
    typer.Option(
        "--phase",
        metavar="TIME",
        help="Of the syncs.  [default: estimated from what was recorded, else 0]",
    ),
]
DelayOption = Annotated[
    str | None,
    typer.Option(
        "--delay",
        metavar="TIME",
        help="From a sample's time until it is seen, where its fetch was not recorded.  "
        "[default: 0]",
    ),
]
MaxAgeOption = Annotated[
    str | None,
    typer.Option(
        "--max-age",
        metavar="TIME",
        help="How long a sample counts without a newer one.  [default: estimated from them]",
    ),
]

HistoryArgument = Annotated[
    str, typer.Argument(metavar="HISTORY", help="Folder of Parquet tables, or a store.")
]


class Gaps(StrEnum):
    """What becomes of stretches without samples."""

    keep = "keep"
    fill = "fill"


class Noise(StrEnum):
    """What happens between two samples of a coarse history."""

    off = "off"
    resample = "resample"


ScenarioOption = Annotated[
    str | None, typer.Option("--scenario", metavar="FILE", help="What is to happen (YAML).")
]
GrowthOption = Annotated[
    str | None,
    typer.Option("--growth", metavar="FACTOR", help="So many times the recorded work."),
]
PlantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--plant", metavar="FILE", help="What you state of workloads (YAML); may be repeated."
    ),
]
PricesOption = Annotated[
    str | None, typer.Option("--prices", metavar="FILE", help="Prices of cores, GiB and pods.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Of all random draws.")]
GapsOption = Annotated[
    Gaps, typer.Option("--gaps", help="Recorded gaps in samples: kept, or filled.")
]
NoiseOption = Annotated[
    Noise,
    typer.Option("--noise", help="Within a piece of work: off, or resampled from finer stretches."),
]
LengthOption = Annotated[
    str | None,
    typer.Option("--for", metavar="TIME", help="Length of the runs.  [default: the history's]"),
]
LoopPeriodOption = Annotated[
    str | None,
    typer.Option(
        "--sync-period", metavar="TIME", help="Between two syncs.  [default: as recorded]"
    ),
]

SloOption = Annotated[
    list[str] | None,
    typer.Option("--slo", metavar="LIMIT", help="What must hold; may be repeated."),
]
MinimizeOption = Annotated[
    str | None,
    typer.Option(
        "--minimize",
        metavar="MEASURE",
        help="What should be least.  [default: cost, without prices pod_hours]",
    ),
]

__all__ = [
    "DEFAULT_K8S",
    "AtOption",
    "DelayOption",
    "Events",
    "EventsOption",
    "Gaps",
    "GapsOption",
    "GatesOption",
    "GrowthOption",
    "HistoryArgument",
    "HistoryK8sOption",
    "HpasOption",
    "K8sOption",
    "LengthOption",
    "LoopPeriodOption",
    "MaxAgeOption",
    "MinimizeOption",
    "Noise",
    "NoiseOption",
    "Output",
    "OutputOption",
    "PhaseOption",
    "PlantOption",
    "PricesOption",
    "ScenarioOption",
    "SeedOption",
    "SloOption",
    "SyncPeriodOption",
    "WhereOption",
]
