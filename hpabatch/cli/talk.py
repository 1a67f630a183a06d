"""What commands write to stderr beside their data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from hpabatch.engine.candidates import Skipped


def tell(texts: Iterable[str], kind: str = "warning") -> None:
    """Write a line for each text."""
    for text in texts:
        typer.echo(f"{kind}: {text}", err=True)


def tell_skipped(skipped: Iterable[Skipped]) -> None:
    """Write a line for each HPA that was left out."""
    from hpabatch.report.texts import label

    for item in skipped:
        name = label(item.cluster, item.namespace, item.hpa, with_cluster=True)
        typer.echo(f"skipped: {name}: {item.reason}", err=True)
