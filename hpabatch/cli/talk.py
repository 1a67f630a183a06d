"""Everything that commands write to stderr beside their data."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import typer

from hpabatch.cli.stdout import LEGEND
from hpabatch.errors import EXIT_OK, EXIT_REFUSED
from hpabatch.model.printable import counted, printable, printable_line

if TYPE_CHECKING:
    from hpabatch.engine.fleet.candidates import Skipped
    from hpabatch.errors import HpabatchError


NAMED: Final = 3
"""HPAs that a sentence about several names."""


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


def tell_assumed(assumed: Sequence[str]) -> None:
    """Write what an import assumed: all of it with -v, else a line that names what matters most."""
    from hpabatch.report.imported import assumed_line

    tell(filter(None, assumed if LEGEND.get() else [assumed_line(assumed)]), "assumed")


def tell_skipped(skipped: Iterable[Skipped], history: str = "HISTORY") -> int:
    """Write a line for each HPA that was left out; those that lack an answer have one together.

    Return the exit code of that.
    """
    from hpabatch.engine.fleet.candidates import UNKNOWN_DRIVER
    from hpabatch.report.base import label

    asked, code = [], EXIT_OK
    for item in skipped:
        code = EXIT_REFUSED
        name = label(item.cluster, item.namespace, item.hpa, with_cluster=True)
        if item.reason.startswith(UNKNOWN_DRIVER):
            asked.append(name)
        else:
            say(f"skipped: {printable(name)}: {item.reason}")
    if asked:
        say(f"skipped: {questions_told(asked, history)}")
    return code


def questions_told(names: Sequence[str], history: str) -> str:
    """Return in a sentence which HPAs lack the kind of a metric, and the command that asks.

    Without a history there is no command: it is the one that runs.
    """

    some = ", ".join(map(printable, names[:NAMED])) + (", …" if len(names) > NAMED else "")
    told = f"{counted(len(names), 'HPA')} ({some}), as nothing says what drives a metric"
    if not history:
        return told
    return f"{told}; state it: hpabatch fit {shlex.quote(history)} --init-plant plant.yaml"
