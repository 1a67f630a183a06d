"""Progress on stderr: a bar with the time left on a terminal, else a line now and then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hpabatch.cli.talk import say
from hpabatch.model.printable import printable_line
from hpabatch.model.progress import Progress

if TYPE_CHECKING:
    from hpabatch.jobs.job import Status
    from hpabatch.jobs.publish import Destination


_TELL_EVERY_S = 30.0
_MEASURED_S = 10.0  # least time of work before its end is estimated
_COMPILED_FIRST = {
    "observe_usage": "compiling, once, about 15 s",
    "replay_newest": "compiling the rules, once, about 15 s",
    "replay_observations": "compiling the rules, once, about 25 s",
    "walk_observations": "compiling the rules, once, about 40 s",
    "simulate_fleet": "compiling the rules and the simulation, once, about 100 s",
}


def tell_compiling(kernel: str) -> None:
    """Write to stderr that a kernel, which a job is about to run, is still to be compiled."""
    from hpabatch import _code

    if not _code.has_compiled(kernel):
        say(_COMPILED_FIRST[kernel])


@contextmanager
def progress_on_stderr(kernel: str | None = None) -> Iterator[Progress]:
    """Yield a function that shows progress.

    With the first message it is said that `kernel`, which the job runs, is still to be compiled:
    without a word on it, half a minute of compiling looks like a hang.
    """
    import sys

    show = _bar if sys.stderr.isatty() else _lines
    untold = kernel
    with show() as update:

        def report(message: str, share: float) -> None:
            nonlocal untold
            if untold is not None:
                tell_compiling(untold)
                untold = None
            update(message, share)

        yield report


@contextmanager
def _lines() -> Iterator[Progress]:
    """Off a terminal only long jobs are told of."""
    last, pace = time.monotonic() - max(_TELL_EVERY_S - _MEASURED_S, 0.0), _Pace()

    def tell(message: str, share: float) -> None:
        nonlocal last
        now = time.monotonic()
        left = pace.seconds_left(message, share, now)
        if now - last >= _TELL_EVERY_S:
            told = f"{message}; {share:.0%}" if share else message
            say(told + ("" if left is None else f", about {left:.0f} s left"))
            last = now

    yield tell


class _Pace:
    """Pace of the step that a job is at, from its first finished part on.

    What comes before that (planning, compiling, workers that begin) and what an earlier run has
    done say nothing about the rest.
    """

    def __init__(self) -> None:
        self._step = ""
        self._from = self._share = 0.0
        self._begun = False

    def seconds_left(self, message: str, share: float, now: float) -> float | None:
        """Return how long the step still takes; None: too little of it is measured."""
        step = message.partition(",")[0]
        if step != self._step:
            self._step, self._share, self._begun = step, share, False
        elif not self._begun and share > self._share:
            self._from, self._share, self._begun = now, share, True
        passed, done = now - self._from, share - self._share
        if not self._begun or done <= 0 or passed < _MEASURED_S:
            return None
        return passed * (1 - share) / done


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
    )
    # What is written to stderr meanwhile passes above the bar.
    console = Console(stderr=True, highlight=False, markup=False)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("opening", total=1.0)
        yield lambda message, share: bar.update(
            task, description=printable_line(message), completed=share
        )


class JobProgress:
    """The reports of a resumable job, and what an interruption leaves of it.

    Attributes:
        destination: where the result goes; None: nothing is kept.
        written: it is there.
    """

    def __init__(self, message: str, kernel: str, unit: str = "") -> None:
        """Name the step; `kernel` is compiled first, `unit`: of the weights, "": tasks."""
        self._message, self._kernel, self._unit = message, kernel, unit
        self._status: Status | None = None
        self._progress: Progress = lambda message, share: None
        self.destination: Destination | None = None
        self.written = False

    def on(self, progress: Progress) -> JobProgress:
        """Show the reports there."""
        self._progress = progress
        return self

    def __call__(self, status: Status) -> None:
        """Show how far the job is."""
        if self._status is None:
            if status.resumed:
                say(f"resumed: {status.resumed} of {status.tasks} parts were done")
            if status.done < status.tasks:
                tell_compiling(self._kernel)
        self._status = status
        share = status.done_weight / max(status.weight, 1)
        told = "writing" if share == 1 else self._message + status.speed(self._unit)
        self._progress(told, share)

    def left(self) -> str:
        """Return what there is after an interruption."""
        if self.destination is not None and self.written:
            return f"{self.destination.path} is written"
        if self.destination is None or self._status is None:
            return "nothing was written"
        from hpabatch.jobs.folder import count_kept

        folder = self.destination.job_path
        kept = count_kept(folder)
        more = f"; {kept} of {self._status.tasks} parts are kept in {folder}: the same command goes"
        return "nothing was written" + (f"{more} on from there" if kept else "")
