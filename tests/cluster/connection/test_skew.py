"""Clocks that are apart: bounds from a reply's Date, what is said of them and when."""

from __future__ import annotations

import time
from email.utils import formatdate
from pathlib import Path

import pytest

from hpabatch.cluster.apis.discovery import ClockSkew, bounds_of
from hpabatch.cluster.connection.client import ApiClient, Dated
from hpabatch.cluster.connection.errors import Refused
from tests.cluster.fake_api import Got, Wire, connected, serving


def _dated(at_s: float, asked_s: float, came_s: float) -> Dated:
    return Dated(formatdate(at_s, usegmt=True), asked_s, came_s)


class Clock(ApiClient):
    """A server whose clock is ahead of ours; a reply takes `takes_s`."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.takes_s = 0.0
        self.asked = 0

    def dated(self, timeout: float) -> Dated:
        self.asked += 1
        now_s = 1_800_000_000.25
        return _dated(now_s + self.ahead_s, now_s - self.takes_s / 2, now_s + self.takes_s / 2)


def _look(skew: ClockSkew, clock: Clock, ahead_s: float, takes_s: float = 0.0) -> str:
    """Return what is wrong after a look, whose bounds are put in place."""
    clock.ahead_s, clock.takes_s = ahead_s, takes_s
    skew._note(clock.dated(1))
    return skew.problem


def test_bounds_hold_the_skew() -> None:
    for tenth in range(-50, 50):
        ahead_s = tenth / 10
        for takes_s in (0.0, 0.3, 2.0):
            asked_s = 1_800_000_000 + tenth / 7
            for share in (0.0, 0.5, 1.0):
                found = bounds_of(
                    _dated(asked_s + share * takes_s + ahead_s, asked_s, asked_s + takes_s)
                )
                assert found is not None
                assert found[0] - 1e-6 <= ahead_s <= found[1] + 1e-6
                assert found[1] - found[0] == pytest.approx(1 + takes_s)


@pytest.mark.parametrize("date", ["", "soon", "Wed, 99 Nov 2026 10:00:00 GMT", "0"])
def test_a_date_that_is_none_tells_nothing(date: str) -> None:
    assert bounds_of(Dated(date, 1.0, 2.0)) is None


def test_our_own_clock_set_back_tells_nothing() -> None:
    assert bounds_of(_dated(100, 200, 100)) is None


def test_it_is_said_when_it_is_certain_and_until_it_is_over() -> None:
    clock = Clock()
    skew = ClockSkew(clock)
    assert (skew.problem, skew.seconds) == ("", None)
    assert _look(skew, clock, 1.0) == ""
    assert skew.seconds == pytest.approx(1.0, abs=0.5)
    assert _look(skew, clock, 60, takes_s=130) == ""  # as late as that, it may be none
    said = _look(skew, clock, 300)
    assert said.startswith("the API server's clock is about 300 s ahead of ours")
    for drift_s in (301, 299.2, 320, 280):
        assert _look(skew, clock, drift_s) == said
    assert _look(skew, clock, 2.0) == _look(skew, clock, 2.2)  # neither certain
    assert "about 2 s ahead" in _look(skew, clock, 2.0)
    assert _look(skew, clock, 0.5) == ""
    assert "about 40 s behind ours" in _look(skew, clock, -40)
    assert "about 400 s behind" in _look(skew, clock, -400)
    assert _look(skew, clock, 0) == ""


def test_instants_that_are_ahead_of_our_clock_count() -> None:
    """Our clock was set back by an hour, and instants go on."""
    clock, ahead_s = Clock(), 0.0
    skew = ClockSkew(clock, lambda: ahead_s)
    assert _look(skew, clock, 0) == ""
    ahead_s = 3600.0
    assert "s behind ours" in skew.problem
    assert skew.seconds == pytest.approx(-3600, abs=1)
    ahead_s = 0.0
    assert skew.problem == ""


def test_it_asks_when_it_is_told_and_ends() -> None:
    clock = Clock()
    clock.ahead_s = 100
    skew = ClockSkew(clock)
    for asked in (1, 2):
        skew.look()
        assert skew._thread is not None
        skew._thread.join(60)
        assert clock.asked == asked
    assert "100 s ahead" in skew.problem


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
        found = client.dated(10)
        assert found.date == "Sun, 22 Nov 2026 10:00:00 GMT"
        assert before_s <= found.asked_s <= found.came_s <= time.time()
        refuses = True
        with pytest.raises(Refused):
            client.dated(10)
        # No look fails loudly: what keeps it from knowing is told of by the watches.
        skew = ClockSkew(client)
        skew.look()
        assert skew._thread is not None
        skew._thread.join(60)
        assert len(server.got) == 3
        assert skew.seconds is None
