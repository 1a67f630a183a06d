"""SIGINT and SIGTERM: a command that is asked to end.

While modules are loaded there is nothing to clean up, and an exception could come up anywhere in
other people's code: the process ends at once, without a word. A command at work gets a
KeyboardInterrupt for both signals, so whatever cleans up after Ctrl-C does so after SIGTERM.
Standard library only, and little of it: until this is loaded Python answers Ctrl-C by a traceback.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Signals:
    """The handler of both signals.

    Attributes:
        working: a command has begun.
        asked: the signal that came while it worked; 0: none.
    """

    def __init__(self) -> None:
        """Begin with the loading of modules."""
        self.working, self.asked = False, 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """End the process, or the command."""
        if not self.working:
            os._exit(128 + number)
        self.asked = number
        if number == signal.SIGTERM:
            # `timeout` sends two; the second must not break off the cleaning up.
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt


@contextmanager
def signals_handled() -> Iterator[Signals]:
    """Handle both signals in the block; one that is ignored (nohup) stays so."""
    handler, before = Signals(), {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, handler)
    try:
        yield handler
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
