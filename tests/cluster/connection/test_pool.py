"""Requests by a deadline."""

from __future__ import annotations

import threading

from hpabatch.cluster.connection.client import DEADLINE_ERROR, NeverBegunError, RequestPool


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
