"""How far an API server's clock is from ours, by the Date of its own replies.

A Date has whole seconds and a reply takes its time, so a look gives two bounds. Where they do not
decide it, what was said before stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple, Protocol

MOST_S: Final = 2.0
"""Clocks may be so far apart."""

_DATE_S: Final = 1.0  # a Date is cut off to whole seconds
_TIMEOUT_S: Final = 5.0
_SAME_SHARE: Final = 0.25  # by which the skew may change and is not said again
_SAME_S: Final = 2.0


class Dated(NamedTuple):
    """A reply's Date, and when by our clock it was asked for and there (s of UTC)."""

    date: str
    asked_s: float
    came_s: float


class Dates(Protocol):
    """What is asked: `client.ApiClient`."""

    def dated(self, timeout: float) -> Dated:
        """Return what a reply of the API server itself says (ApiError: there was none)."""


class ClockSkew:
    """Looks at the API server's clock when it is told to, by a thread of its own.

    One thread calls it; any other may ask for `seconds`.
    """

    def __init__(self, client: Dates, ahead_s: Callable[[], float] = lambda: 0.0) -> None:
        """Prepare; nothing is asked yet.

        Args:
            client: asks.
            ahead_s: by how much the instants of decisions are ahead of this machine's clock.
        """
        self._client = client
        self._ahead_s = ahead_s
        self._wake = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None
        self._bounds: tuple[float, float] | None = None
        self._wrong = False
        self._said_s = 0.0

    @property
    def seconds(self) -> float | None:
        """The API server's clock less ours, to about a second; None: it is not known."""
        bounds = self._now()
        return None if bounds is None else sum(bounds) / 2

    @property
    def problem(self) -> str:
        """What is wrong with the clocks, "" if they are near enough."""
        bounds = self._now()
        if bounds is None:
            return ""
        least, most = bounds
        if least > MOST_S or most < -MOST_S:
            self._wrong = True
        elif least >= -MOST_S and most <= MOST_S:
            self._wrong = False
        if not self._wrong:
            self._said_s = 0.0
            return ""
        now_s = (least + most) / 2
        if abs(now_s - self._said_s) > max(_SAME_S, _SAME_SHARE * abs(self._said_s)):
            self._said_s = now_s
        side = "ahead of" if self._said_s > 0 else "behind"
        return (
            f"the API server's clock is about {abs(self._said_s):.0f} s {side} ours: ages of pods "
            "and samples are wrong by that"
        )

    def _now(self) -> tuple[float, float] | None:
        """Return the bounds of what the last look found."""
        if self._bounds is None:
            return None
        ahead_s = self._ahead_s()
        return self._bounds[0] - ahead_s, self._bounds[1] - ahead_s

    def look(self) -> None:
        """Ask for the time; it is known when the reply is there."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="clock", daemon=True)
            self._thread.start()
        self._wake.set()

    def stop(self) -> None:
        """Look no more."""
        self._ended = True
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._ended:
                return
            try:
                self._note(self._client.dated(_TIMEOUT_S))
            except Exception:  # noqa: BLE001, S112 - whoever watches says so; this goes on
                continue

    def _note(self, found: Dated) -> None:
        bounds = bounds_of(found)
        if bounds is not None:
            self._bounds = bounds


def bounds_of(found: Dated) -> tuple[float, float] | None:
    """Return what the skew is at least and at most (s), None: the reply does not tell."""
    try:
        date_s = parsedate_to_datetime(found.date).timestamp()
    except (ValueError, OverflowError):
        return None
    if found.came_s < found.asked_s:
        return None  # our own clock was set back
    return date_s - found.came_s, date_s + _DATE_S - found.asked_s
