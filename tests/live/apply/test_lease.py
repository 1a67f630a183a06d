"""Election: who holds the lease, when another takes it, and until when a write may begin."""

from __future__ import annotations

import random

import pytest

from hpabatch.cluster.connection.errors import ApiError, Refused, Unreachable
from hpabatch.live.apply.lease import Candidate, Election
from tests.live.apply.fake_writes import Clock, FakeClient


def _leads(*all_of_them: Election) -> list[bool]:
    return [one.leads for one in all_of_them]


PATH = "/apis/coordination.k8s.io/v1/namespaces/ours/leases/hpabatch-apply"


def _election(
    client: FakeClient, clock: Clock, name: str, said: list[str] | None = None
) -> Election:
    told = said if said is not None else []
    return Election(client, Candidate("ours", name, 15), say=told.append, clock=clock)


def test_the_first_takes_it_and_the_second_waits_for_its_end() -> None:
    client, clock, said = FakeClient(), Clock(), []  # type: ignore[var-annotated]
    one, two = _election(client, clock, "one", said), _election(client, clock, "two")
    one.turn()
    two.turn()
    assert (one.leads, two.leads, two.holder) == (True, False, "one")
    assert said == ["holds the lease ours/hpabatch-apply as one, and writes from now on"]
    clock.sleep(14.9)
    two.turn()
    assert _leads(one, two) == [False, False], "a lease ends with a margin"
    clock.sleep(0.2)
    two.turn()
    assert _leads(two) == [True]
    one.turn()
    assert (*_leads(one), one.holder) == (False, "two")
    assert said[-1] == "no longer holds the lease ours/hpabatch-apply; two has it"
    assert client.objects[PATH]["spec"]["leaseTransitions"] == 1
    clock.sleep(20)
    one.turn()
    assert (one.term, two.term) == (2, 1), "between its terms another led"


def test_a_renewal_keeps_it() -> None:
    client, clock = FakeClient(), Clock()
    one, two = _election(client, clock, "one"), _election(client, clock, "two")
    for _ in range(40):
        one.turn()
        two.turn()
        clock.sleep(10)
        assert one.leads
        assert not two.leads
    assert one.term == 1


def test_a_lease_that_is_deleted_is_not_made_by_another_before_its_end() -> None:
    """As when the API server's storage is emptied: its holder goes on for a while."""
    client, clock = FakeClient(), Clock()
    one, two = _election(client, clock, "one"), _election(client, clock, "two")
    one.turn()
    two.turn()
    clock.sleep(5)
    del client.objects[PATH]
    two.turn()
    assert _leads(one, two) == [True, False]
    clock.sleep(10.1)
    two.turn()
    assert _leads(one, two) == [False, True]
    del client.objects[PATH]
    two.turn()
    assert two.leads, "its own is made again at once"


def test_who_could_not_write_leaves_the_lease_to_others() -> None:
    client, clock, said = FakeClient(), Clock(), []  # type: ignore[var-annotated]
    one, two = _election(client, clock, "one", said), _election(client, clock, "two")
    two.hindrance = lambda: "no pass was made yet"
    two.turn()
    assert client.objects == {}
    one.turn()
    one.hindrance = lambda: "the disk is full"
    two.hindrance = lambda: ""
    clock.sleep(5)
    for each in (one, two):
        each.turn()
    assert _leads(one, two) == [True, False], "what it has it has: a request may be on its way"
    clock.sleep(15.1)
    for each in (one, two):
        each.turn()
    assert _leads(one, two) == [False, True]
    assert said[-1] == (
        "no longer holds the lease ours/hpabatch-apply, which is left to others: the disk is full"
    )
    for _ in range(2):
        clock.sleep(20)
        one.turn()
        assert _leads(one, two) == [False, False]
    one.hindrance = lambda: ""
    one.turn()
    assert one.leads


def test_a_release_is_taken_at_once() -> None:
    client, clock = FakeClient(), Clock()
    one, two = _election(client, clock, "one"), _election(client, clock, "two")
    one.turn()
    two.turn()
    one.stop()
    assert not one.leads
    assert one.refusal(0.1)
    two.turn()
    assert two.leads


def test_a_write_begins_only_if_it_ends_before_the_lease() -> None:
    client, clock = FakeClient(), Clock()
    one = _election(client, clock, "one")
    assert one.refusal(4)
    one.turn()
    clock.sleep(9.9)
    assert one.refusal(4) == ""
    clock.sleep(0.2)
    assert "does not hold the lease for long enough" in one.refusal(4)
    assert one.refusal(1) == ""


def test_the_time_counts_from_the_sending_of_a_renewal_not_from_its_response() -> None:
    client, clock = FakeClient(), Clock()
    client.after = lambda method, path: clock.sleep(3)
    one = _election(client, clock, "one")
    one.turn()
    assert one.refusal(11) == ""
    assert one.refusal(11.1)


@pytest.mark.parametrize("error", [Unreachable("gone"), Refused("forbidden", 403)])
def test_without_the_server_nobody_leads_after_the_duration(error: ApiError) -> None:
    client, clock, said = FakeClient(), Clock(), []  # type: ignore[var-annotated]
    one = _election(client, clock, "one", said)
    one.turn()
    client.before = lambda method, path: error
    clock.sleep(5)
    one.turn()
    assert _leads(one) == [True], "it still has what it has"
    assert one.problem == f"the lease ours/hpabatch-apply cannot be renewed: {error.text}"
    clock.sleep(10)
    one.turn()
    assert _leads(one) == [False]
    client.before = lambda method, path: None
    one.turn()
    assert (*_leads(one), one.problem) == (True, "")


def test_of_two_that_take_it_at_once_one_has_it() -> None:
    client, clock = FakeClient(), Clock()
    one, two = _election(client, clock, "one"), _election(client, clock, "two")
    one.turn()
    two.turn()
    clock.sleep(20)
    raced: list[bool] = []

    def race(method: str, path: str) -> None:
        if method == "PUT" and not raced:
            raced.append(True)
            one.turn()

    client.before = race
    two.turn()
    assert (one.leads, two.leads) == (True, False)


@pytest.mark.parametrize("seed", range(20))
def test_at_no_time_may_two_of_them_write(seed: int) -> None:
    """Candidates that stop, are cut off and come back: their fences never overlap."""
    draw = random.Random(seed)
    client, clock = FakeClient(), Clock()
    all_of_them = [_election(client, clock, f"c{k}") for k in range(3)]
    cut: set[int] = set()
    turn = [0]
    client.before = lambda method, path: Unreachable("cut") if turn[0] in cut else None
    may: dict[int, float] = {}
    led = 0
    for _ in range(400):
        clock.sleep(draw.uniform(0, 2))
        if draw.random() < 0.05:
            cut ^= {draw.randrange(3)}
        turn[0] = draw.randrange(3)
        all_of_them[turn[0]].turn()
        for j, one in enumerate(all_of_them):
            if not one.refusal(4):
                led += 1
                assert all(end <= clock.now for i, end in may.items() if i != j)
                may[j] = clock.now + 4
    assert led > 50
