"""Requests by a deadline."""

from __future__ import annotations

import threading
import time

from hpabatch.cluster.connection.pool import DEADLINE_ERROR, NeverBegunError, RequestPool, Turns


def _late(result: object) -> bool:
    return isinstance(result, TimeoutError) and str(result) == DEADLINE_ERROR


def test_what_a_call_raises_is_its_result() -> None:
    def fail(left: float) -> str:
        raise KeyError("no")

    pool: RequestPool[str] = RequestPool(2)
    calls = [lambda left, n=n: f"{n}:{left > 0}" for n in range(9)]
    failed, *fine = pool.run([fail, *calls], pool.now() + 30)
    assert isinstance(failed, KeyError)
    assert fine == [f"{n}:True" for n in range(9)]
    assert pool.run([], pool.now() + 30) == []
    pool.close()


def test_nobody_waits_for_what_is_late_then_or_later() -> None:
    release = threading.Event()

    def hang(left: float) -> str:
        release.wait(60)
        return "too late"

    pool: RequestPool[str] = RequestPool(2)
    results = pool.run([hang, hang, lambda left: "queued"], pool.now() + 0.05)
    assert [_late(result) for result in results] == [True, True, True]
    assert pool.run([lambda left: "next"] * 3, pool.now() + 30) == ["next"] * 3
    release.set()
    pool.close()


def test_threads_that_hang_are_not_without_end() -> None:
    release = threading.Event()

    def hang(left: float) -> str:
        release.wait(60)
        return "too late"

    pool: RequestPool[str] = RequestPool(8)
    for _ in range(12):
        assert all(_late(result) for result in pool.run([hang] * 8, pool.now() + 0.01))
    hanging = [item for item in threading.enumerate() if item.name.startswith("hpabatch-request")]
    assert len(hanging) <= 72
    release.set()
    until = time.monotonic() + 30
    while pool.run([lambda left: "again"], pool.now() + 30) != ["again"]:
        assert time.monotonic() < until
    pool.close()


def test_turns() -> None:
    turns: Turns[str] = Turns()
    assert turns.order("abcde") == list("abcde")
    turns.note("a", TimeoutError())
    turns.note("b", "fine", slow=True)
    turns.note("d", NeverBegunError())
    turns.note("c", "fine")
    assert turns.order("abcde") == list("dceab")
    turns.note("a", NeverBegunError())
    turns.note("b", "fine")
    turns.note("d", ValueError())
    assert turns.order("abcde") == list("bcdea")
    turns.keep({"b"})
    assert turns.order("abcde") == list("abcde")


def test_a_run_that_is_ended_waits_no_longer() -> None:
    pool: RequestPool[str] = RequestPool(1)
    begun, release = threading.Event(), threading.Event()

    def hang(left: float) -> str:
        begun.set()
        release.wait(60)
        return "too late"

    found: list[object] = []
    calls = [hang, lambda left: "never"]
    deadline = pool.now() + 3600
    run = threading.Thread(target=lambda: found.extend(pool.run(calls, deadline)))
    run.start()
    assert begun.wait(60)
    pool.end()
    run.join(30)
    assert not run.is_alive()
    assert all(_late(result) for result in found)
    assert [isinstance(result, NeverBegunError) for result in found] == [False, True]
    assert isinstance(pool.run([lambda left: "no"], deadline)[0], NeverBegunError)
    release.set()
    pool.close()
