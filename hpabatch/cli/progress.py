"""The progress of a job on stderr: on a terminal a bar with rate and time left, else few lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from hpabatch.cli.talk import say
from hpabatch.model.printable import printable_line

if TYPE_CHECKING:
    from hpabatch.jobs.loop import Status

_TELL_EVERY_S = 30.0
_COMPILING = "compiling the rules, once, about 25 s"
_COMPILED_FIRST = {
    "observe_usage": "compiling, once, about 15 s",
    "replay_observations": _COMPILING,
    "simulate_fleet": "compiling the rules and the simulation, once, about 100 s",
}


class Progress(Protocol):
    """Shows what is being done, and how far it is."""

    def step(self, name: str) -> None:
        """Begin something whose length is not known."""

    def status(self, status: Status) -> None:
        """Show how far a job is."""

    def say(self, line: str) -> None:
        """Write a line that stays."""


def must_compile() -> bool:
    """Say whether the first decision has to wait for the compiler."""
    from hpabatch import _cache

    return not _cache.has_compiled("replay_observations")


def resumed_line(status: Status) -> str:
    """Return what to say of a job that an earlier run has begun."""
    return f"resumed: {status.resumed} of {status.tasks} parts were done"


def rate_text(status: Status) -> str:
    """Return decisions per second and the time left, as far as they are known."""
    if status.rate is None or status.seconds_left is None:
        return ""
    seconds = round(status.seconds_left)
    left = f"{seconds // 3600}:{seconds % 3600 // 60:02}:{seconds % 60:02}"
    rate = status.rate
    number = f"{rate / 1e6:.1f} M" if rate >= 1e6 else f"{rate / 1000:,.0f} k"
    return f"{number} decisions/s, {left} left"


class _Lines:
    """Off a terminal only what explains a long wait is told."""

    def step(self, name: str) -> None:
        """Say nothing."""

    def status(self, status: Status) -> None:
        """Say before the first task what an earlier run has done, and what takes long."""
        if status.done != status.resumed:
            return
        if status.resumed:
            self.say(resumed_line(status))
        if status.done < status.tasks and must_compile():
            self.say(_COMPILING)

    def say(self, line: str) -> None:
        """Write a line."""
        say(line)


@contextmanager
def progress_on_stderr() -> Iterator[Progress]:
    """Yield a bar on stderr if that is a terminal, else what writes a few lines there."""
    import sys

    if not sys.stderr.isatty():
        yield _Lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True, highlight=False, markup=False)
    with Bar(*columns, console=console, transient=True) as bar:
        yield _Bar(bar)


class _Bar:
    """A rich progress bar."""

    def __init__(self, bar: object) -> None:
        from rich.progress import Progress as Bar

        assert isinstance(bar, Bar)
        self.bar = bar
        self.task = bar.add_task("loading", total=None, rate="")

    def step(self, name: str) -> None:
        """Show a bar that only moves."""
        self.bar.update(self.task, description=printable_line(name), total=None, rate="")

    def status(self, status: Status) -> None:
        """Show how far the job is."""
        if status.resumed and status.done == status.resumed:
            self.say(resumed_line(status))
        # Without a word on it, half a minute of compiling looks like a hang.
        compiles = status.done == status.resumed and must_compile()
        self.bar.update(
            self.task,
            description=f"deciding ({_COMPILING})" if compiles else "deciding",
            total=max(status.weight, 1),
            completed=status.done_weight,
            rate=rate_text(status),
        )

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        self.bar.console.print(printable_line(line))


def tell_compiling(kernel: str) -> None:
    """Write to stderr that a kernel, which a job is about to run, is still to be compiled."""
    from hpabatch import _cache

    if not _cache.has_compiled(kernel):
        say(_COMPILED_FIRST[kernel])


@contextmanager
def share_on_stderr(kernel: str | None = None) -> Iterator[Callable[[str, float], None]]:
    """Yield what shows (message, share done): a bar on a terminal, else a line now and then.

    With the first message it is said that `kernel`, which the job runs, is still to be compiled.
    """
    import sys

    untold = kernel

    def tell_once() -> None:
        nonlocal untold
        if untold is not None:
            tell_compiling(untold)
            untold = None

    if not sys.stderr.isatty():
        last = began = time.monotonic()

        def tell(message: str, share: float) -> None:
            nonlocal last
            tell_once()
            now = time.monotonic()
            if now - last >= _TELL_EVERY_S and share > 0:
                left = (now - began) * (1 - share) / share
                say(f"{message}; {share:.0%}, about {left:.0f} s left")
                last = now

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn())
    left, console = TimeRemainingColumn(), Console(stderr=True)
    with Progress(*columns, left, console=console, transient=True) as bar:
        task = bar.add_task("opening", total=1.0)

        def report(message: str, share: float) -> None:
            tell_once()  # (the bar lets what goes to stderr pass above itself)
            bar.update(task, description=printable_line(message), completed=share)

        yield report
