"""Tests of cuts: order, instants that only go forward, nothing lost between threads."""

from __future__ import annotations

import threading

from hpabatch.cluster.objects.types import Change, Inbox, Kind


def test_a_cut_is_later_than_what_it_holds_and_earlier_than_what_follows() -> None:
    times = iter([1000, 1000, 1000, 1000, 1005])
    inbox = Inbox(lambda: next(times))
    assert inbox.put(Kind.pod, ("a", "x"), None) == 1000
    assert inbox.put(Kind.pod, ("a", "y"), None, listed=True) == 1000
    changes, now = inbox.cut()
    assert changes == [
        Change(Kind.pod, ("a", "x"), None, 1000),
        Change(Kind.pod, ("a", "y"), None, 1000, listed=True),
    ]
    assert now == 1001  # the clock still says 1000
    assert inbox.put(Kind.pod, ("a", "z"), None) == 1002
    assert inbox.cut() == ([Change(Kind.pod, ("a", "z"), None, 1002)], 1005)


def test_a_clock_that_is_set_back_goes_on_at_the_pace_of_time() -> None:
    times, passed = iter([5000, 1000, 1100, 3000, 9000]), iter([0, 0, 0, 100, 2000, 2500])
    inbox = Inbox(lambda: next(times), lambda: next(passed))
    inbox.put(Kind.pod, ("a", "x"), None)
    assert inbox.put(Kind.pod, ("a", "x"), None) == 5000
    assert inbox.cut()[1] == 5100
    assert inbox.cut() == ([], 7000)
    assert inbox.cut() == ([], 9000)


def test_how_far_a_clock_that_was_set_back_is_behind() -> None:
    wall, passed = 5000, 0
    inbox = Inbox(lambda: wall, lambda: passed)
    inbox.put(Kind.pod, ("a", "x"), None)
    assert inbox.behind_ms() == 0
    wall = 1000
    assert inbox.behind_ms() == 4000
    wall, passed = 1500, 500
    assert inbox.behind_ms() == 4000
    wall = 6000
    assert inbox.behind_ms() == 0


def test_threads_lose_nothing() -> None:
    inbox, count, threads = Inbox(), 2000, 4
    cuts: list[tuple[list[Change], int]] = []

    def put(number: int) -> None:
        for index in range(count):
            inbox.put(Kind.pod, (str(number), str(index)), None)

    running = [threading.Thread(target=put, args=(number,)) for number in range(threads)]
    for one in running:
        one.start()
    while any(one.is_alive() for one in running):
        cuts.append(inbox.cut())
    cuts.append(inbox.cut())
    assert len(inbox) == 0
    last_ms = 0
    by_thread: dict[str, list[str]] = {}
    for changes, now_ms in cuts:
        for change in changes:
            assert last_ms <= change.seen_ms < now_ms
            by_thread.setdefault(change.key[0], []).append(change.key[1])
        assert now_ms > last_ms
        last_ms = now_ms
    assert list(by_thread.values()) == [[str(index) for index in range(count)]] * threads
