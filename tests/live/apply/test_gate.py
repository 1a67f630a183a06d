"""Writes of a pass that take too long, or during which the kill switch is turned."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from hpabatch.cluster.connection.writes import Budget
from hpabatch.live.apply.guards import Change, Gate, Queue, Removals
from hpabatch.live.apply.request import ApplyOptions
from hpabatch.live.apply.scales import Outcome, Written
from hpabatch.live.apply.statuses import HpaStatuses
from hpabatch.model.messages import Event
from hpabatch.model.objects.hpa import HPA, HPAStatus
from tests.live.apply.fake_writes import Clock, FakeClient
from tests.live.apply.test_scales import OpenFence

PATH_OF_W = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/w"
CHANGES = [Change(h, ("shop", f"w{h}"), 1, 2) for h in range(6)]


def _waits(written: Written) -> bool:
    return written.outcome is Outcome.WAITS


def test_after_a_period_no_write_of_a_pass_begins() -> None:
    clock = Clock()
    gate = Gate(15, OpenFence(), lambda: "", clock=clock)

    def write(change: Change) -> Written:
        clock.sleep(6)
        return Written()

    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            gate.begin("")
            found = gate.carry(pool, write, CHANGES)
            assert [_waits(one) for one in found] == [False] * 3 + [True] * 3
            words = "hpabatch: waits: writes of a pass begin within 15 s, and others came first"
            assert {one.error for one in found[3:]} == {words}
    longest = Gate(60, OpenFence(), lambda: "", clock=clock)
    longest.begin("")
    with ThreadPoolExecutor(1) as pool:
        assert sum(_waits(one) for one in longest.carry(pool, write, CHANGES)) == 2


def test_the_switch_is_read_while_writes_go_on() -> None:
    turned = threading.Event()
    gate = Gate(15, OpenFence(), lambda: "the switch is on" if turned.is_set() else "", look_s=0.01)
    refusals: list[str] = []
    assert gate.refusal(3) == "no pass was made yet"
    gate.begin("")

    def write(change: Change) -> Written:
        refusals.append(gate.refusal(3))
        if change.h == 1:
            turned.set()
            while not gate.refusal(3):
                pass
        return Written()

    with ThreadPoolExecutor(1) as pool:
        found = gate.carry(pool, write, CHANGES)
        assert [_waits(one) for one in found] == [False] * 2 + [True] * 4
        assert found[2].error == "hpabatch: waits: the switch is on"
        assert gate.refusal(3) == "the switch is on", "also between two requests of a write"
        turned.clear()
        gate.begin("")
        assert not any(_waits(one) for one in gate.carry(pool, lambda change: Written(), CHANGES))
        assert gate.refusal(3) == ""
    assert refusals == ["", ""]


def test_a_switch_that_is_no_object_loses_no_write() -> None:
    begun = threading.Event()

    def fail() -> str:
        begun.wait()
        raise AttributeError("no data")

    gate = Gate(15, OpenFence(), fail, look_s=0.01)
    gate.begin("")

    def write(change: Change) -> Written:
        begun.set()
        while not gate.refusal(3):
            pass
        return Written()

    with ThreadPoolExecutor(1) as pool:
        found = gate.carry(pool, write, CHANGES[:2])
    assert [one.error for one in found] == [
        "", "hpabatch: waits: the kill switch: AttributeError: no data"
    ]  # fmt: skip


def test_queued_statuses_are_not_written_while_writes_are_forbidden() -> None:
    client, fence = FakeClient(), OpenFence()
    gate = Gate(15, fence, lambda: "")
    gate.begin("")
    statuses = HpaStatuses(client, "v2", Budget(1e6, 1e6), gate)
    client.put(PATH_OF_W)
    uid = client.objects[PATH_OF_W]["metadata"]["uid"]
    document = replace(HPA("shop", "w"), uid=uid, status=HPAStatus(2, 2, None, None, ()))
    statuses.put(("shop", "w"), document)
    statuses.tell(document, [Event("Normal", "SuccessfulRescale", "New size: 2")])
    gate.begin("the kill switch is on")
    statuses.start()
    statuses.stop()
    assert {method for method, _ in client.sent} <= {"GET"}


def test_what_was_not_begun_goes_first_in_the_next_pass() -> None:
    queue = Queue(ApplyOptions(most_replicas=4))
    removals = Removals(ApplyOptions(), {}, 0)
    taken, _ = queue.admit(CHANGES, removals)
    queue.put_back(taken[2:])
    assert [change.h for change in queue.admit(CHANGES, removals)[0]] == [2, 3, 4, 5]
    queue.put_back(CHANGES[2:3])
    assert [change.h for change in queue.admit(CHANGES, removals)[0]] == [2, 0, 1, 3]
