"""Everything that commands write to stderr beside their data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from hpabatch.model.printable import printable, printable_line

if TYPE_CHECKING:
    from hpabatch.engine.fleet.candidates import Skipped
    from hpabatch.errors import HpabatchError


def say(text: str) -> None:
    """Write a line: whatever names and messages in it hold, it stays one."""
    typer.echo(printable_line(text), err=True)


def tell_error(error: HpabatchError) -> None:
    """Write the message of an error: its own lines, and no other that a name in it forges."""
    first, *others = map(str, error.args or ("",))
    say(f"error: {first}")
    for line in others:
        say(line)


def tell(texts: Iterable[str], kind: str = "warning") -> None:
    """Write a line for each text."""
    for text in texts:
        say(f"{kind}: {text}")


def tell_skipped(skipped: Iterable[Skipped]) -> None:
    """Write a line for each HPA that was left out."""
    from hpabatch.report.texts import label

    for item in skipped:
        name = label(item.cluster, item.namespace, item.hpa, with_cluster=True)
        say(f"skipped: {printable(name)}: {item.reason}")
