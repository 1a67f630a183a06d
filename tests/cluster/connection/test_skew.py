"""Clocks that are apart, as the Date of a response tells."""

from __future__ import annotations

import time
from email.utils import formatdate
from pathlib import Path

import pytest

from hpabatch.cluster.apis.discovery import ClockSkew
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.errors import Refused
from hpabatch.cluster.objects.types import Inbox
from tests.cluster.fake_api import Got, Wire, connected, serving


class Clock(ApiClient):
    """A server whose clock is ahead of ours; a reply takes `takes_s`."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.takes_s = 0.0
        self.text: str | None = None

    def date(self, timeout: float) -> tuple[float, str, float]:
        now_s = 1_800_000_000.25
        text = self.text or formatdate(now_s + self.ahead_s, usegmt=True)
        return now_s - self.takes_s / 2, text, now_s + self.takes_s / 2


def _look(skew: ClockSkew) -> str:
    skew.look()
    assert skew._thread is not None
    skew._thread.join(60)
    return skew.problem


def test_the_skew_is_known_to_about_a_second_and_said_above_two() -> None:
    clock = Clock()
    skew = ClockSkew(clock)
    assert (skew.problem, skew.seconds) == ("", None)
    for ahead_s in (-400.0, -40.0, -1.0, 0.0, 0.5, 1.0, 60.0, 300.0):
        clock.ahead_s, clock.takes_s = ahead_s, abs(ahead_s) / 10
        said = _look(skew)
        assert skew.seconds == pytest.approx(ahead_s, abs=0.51)
        assert bool(said) is (abs(ahead_s) > 2)
        side = "ahead of" if ahead_s > 0 else "behind"
        assert not said or f"more than 2 s {side} ours" in said


def test_a_local_clock_that_was_set_back_to_the_servers_time_is_said() -> None:
    wall_ms = 3_600_000
    inbox = Inbox(lambda: wall_ms, lambda: 0)
    inbox.cut()
    skew = ClockSkew(Clock(), inbox.behind_ms)
    assert _look(skew) == ""
    wall_ms = 0
    assert "more than 2 s behind ours" in _look(skew)
    assert skew.seconds == pytest.approx(-3600, abs=0.51)


@pytest.mark.parametrize("date", ["soon", "Wed, 99 Nov 2026 10:00:00 GMT", "0"])
def test_a_date_that_is_none_tells_nothing(date: str) -> None:
    clock = Clock()
    clock.text = date
    skew = ClockSkew(clock)
    assert (_look(skew), skew.seconds) == ("", None)
    clock.text, clock.takes_s = None, -1.0
    assert (_look(skew), skew.seconds) == ("", None), "our own clock was set back"


def test_the_client_gives_the_servers_own_date(tmp_path: Path) -> None:
    refuses = False

    def script(got: Got, wire: Wire) -> None:
        assert got.path == "/version"
        if refuses:
            wire.reply(403, b"no")
        else:
            wire.reply(200, b"{}", {"Date": "Sun, 22 Nov 2026 10:00:00 GMT"})

    with serving(script) as server, ApiClient(connected(tmp_path, server.url)) as client:
        before_s = time.time()
        asked_s, date, came_s = client.date(10)
        assert date == "Sun, 22 Nov 2026 10:00:00 GMT"
        assert before_s <= asked_s <= came_s <= time.time()
        refuses = True
        with pytest.raises(Refused):
            client.date(10)
        # No look fails loudly: what keeps it from knowing is told of by the watches.
        assert (_look(ClockSkew(client)), len(server.got)) == ("", 3)
