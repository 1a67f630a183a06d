"""Clock skew between the API server and this machine, from the Date of the server's responses.

A Date has whole seconds and a response takes its time, so a measurement gives two bounds. Where
they do not decide, the previous result stays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Final

from hpabatch.cluster.connection.client import ApiClient, Dated

MOST_S: Final = 2.0
"""Accepted clock skew."""

_DATE_S: Final = 1.0  # a Date is cut off to whole seconds
_TIMEOUT_S: Final = 5.0
_SAME_SHARE: Final = 0.25  # a smaller change of the skew is not reported again
_SAME_S: Final = 2.0


class ClockSkew:
    """Measures the API server's clock, each time in a thread that ends with the response.

    One thread calls it; any other may read `seconds`.
    """

    def __init__(self, client: ApiClient, ahead_s: Callable[[], float] = lambda: 0.0) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: sends the requests.
            ahead_s: by how much the times of decisions are ahead of this machine's clock.
        """
        self._client = client
        self._ahead_s = ahead_s
        self._thread: threading.Thread | None = None
        self._bounds: tuple[float, float] | None = None
        self._wrong = False
        self._said_s = 0.0

    @property
    def seconds(self) -> float | None:
        """The API server's clock less the local clock, to about a second; None: unknown."""
        bounds = self._now()
        return None if bounds is None else sum(bounds) / 2

    @property
    def problem(self) -> str:
        """The problem of the clocks, "" if the skew is accepted."""
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
        """Return the bounds of the last measurement."""
        if self._bounds is None:
            return None
        ahead_s = self._ahead_s()
        return self._bounds[0] - ahead_s, self._bounds[1] - ahead_s

    def look(self) -> None:
        """Start a measurement; its result is known once the response is there."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._measure, name="clock", daemon=True)
            self._thread.start()

    def _measure(self) -> None:
        with suppress(Exception):  # the watches report failures of the server
            self._note(self._client.dated(_TIMEOUT_S))

    def _note(self, found: Dated) -> None:
        bounds = bounds_of(found)
        if bounds is not None:
            self._bounds = bounds


def bounds_of(found: Dated) -> tuple[float, float] | None:
    """Return the lower and upper bound of the skew (s), None: the response has no usable Date."""
    try:
        date_s = parsedate_to_datetime(found.date).timestamp()
    except (ValueError, OverflowError):
        return None
    if found.came_s < found.asked_s:
        return None  # our own clock was set back
    return date_s - found.came_s, date_s + _DATE_S - found.asked_s
