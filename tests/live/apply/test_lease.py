"""Election: who holds the lease, when another takes it, and until when a write may begin."""

from __future__ import annotations

import random
from typing import Any

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


def _elected(*all_of_them: Election, clock: Clock) -> None:
    """Let the first of them take a Lease that is not there, while all look on."""
    for _ in range(2):
        for each in all_of_them:
            each.turn()
        clock.sleep(15)
    for each in all_of_them:
        each.turn()
    assert _leads(*all_of_them) == [True, *[False] * (len(all_of_them) - 1)]


def test_a_missing_lease_is_made_unheld_and_taken_after_its_duration() -> None:
    client, clock, said = FakeClient(), Clock(), []  # type: ignore[var-annotated]
    one, two = _election(client, clock, "one", said), _election(client, clock, "two")
    one.turn()
    assert client.objects[PATH]["spec"] == {"holderIdentity": "", "leaseDurationSeconds": 15}
    clock.sleep(1)
    two.turn()
    clock.sleep(13.9)
    one.turn()
    assert _leads(one, two) == [False, False]
    clock.sleep(0.1)
    one.turn()
    two.turn()
    assert _leads(one, two) == [True, False], "two saw it first a second later"
    assert said == [
        "holds the lease ours/hpabatch-apply as one: writes may begin with the next pass"
    ]


@pytest.mark.parametrize("sees", ["two", "three"])
def test_a_lease_that_is_deleted_is_not_taken_before_its_holder_has_lost_it(sees: str) -> None:
    """Neither by who saw its last renewal, nor by who never saw it."""
    client, clock = FakeClient(), Clock()
    one, two = _election(client, clock, "one"), _election(client, clock, "two")
    _elected(one, two, clock=clock)
    other = two if sees == "two" else _election(client, clock, "three")
    clock.sleep(5)
    del client.objects[PATH]
    other.turn()
    assert client.objects[PATH]["spec"]["holderIdentity"] == ""
    clock.sleep(5)
    other.turn()
    assert _leads(one, other) == [True, False]
    clock.sleep(9.9)
    other.turn()
    assert _leads(one, other) == [False, False]
    clock.sleep(0.1)
    other.turn()
    assert _leads(one, other) == [False, True]


@pytest.mark.parametrize("made_by_another", [True, False])
def test_its_holder_goes_on_after_a_deletion_while_its_fence_holds(made_by_another: bool) -> None:
    client, clock = FakeClient(), Clock()
    one, two = _election(client, clock, "one"), _election(client, clock, "two")
    _elected(one, two, clock=clock)
    clock.sleep(5)
    del client.objects[PATH]
    if made_by_another:
        two.turn()
    one.turn()
    two.turn()
    clock.sleep(12)
    two.turn()
    assert _leads(one, two) == [True, False]
    assert (client.objects[PATH]["spec"]["holderIdentity"], one.term) == ("one", 1)


def test_a_holder_whose_fence_is_about_to_end_makes_a_deleted_lease_unheld() -> None:
    """Before its request is there, another may have held one, and may still write."""
    client, clock = FakeClient(), Clock()
    one = _election(client, clock, "one")
    _elected(one, clock=clock)
    clock.sleep(10.1)
    del client.objects[PATH]
    one.turn()
    assert client.objects[PATH]["spec"]["holderIdentity"] == ""


def test_a_longer_duration_of_another_counts() -> None:
    client, clock = FakeClient(), Clock()
    long = Election(client, Candidate("ours", "long", 60), clock=clock)
    long.turn()
    clock.sleep(60)
    long.turn()
    short = _election(client, clock, "short")
    short.turn()
    del client.objects[PATH]
    short.turn()
    clock.sleep(59)
    short.turn()
    assert _leads(short) == [False]


_NESTED = "[" * 100_000


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"leaseDurationSeconds": 3600}, "got 3600 with holder nobody"),
        ({"leaseDurationSeconds": 3600, "holderIdentity": "x"}, "got 3600 with holder x"),
        ({"leaseDurationSeconds": -1, "holderIdentity": "x" * 900_000}, 'got -1 with holder "xxx'),
        ({"leaseDurationSeconds": 1.5, "holderIdentity": ["x"]}, "got 1.5 with holder ['x']"),
        ({"leaseDurationSeconds": "1", "holderIdentity": "x"}, 'got "1" with holder x'),
        ({"leaseDurationSeconds": 15, "leaseTransitions": 2**31 - 1, "holderIdentity": "x"}, ""),
        ({"leaseDurationSeconds": 15, "leaseTransitions": "x", "holderIdentity": "x"}, ""),
        ({}, "got null with holder nobody"),
    ],
)
@pytest.mark.parametrize("mend", ["", "delete", "edit"])
def test_a_strange_lease_delays_the_first_leader_for_a_minute_and_is_named(
    spec: dict[str, Any], words: str, mend: str
) -> None:
    """Whoever wrote it shows no sign of life. What it said is forgotten then."""
    client, clock = FakeClient(), Clock()
    client.put(PATH, spec=spec, metadata={"annotations": {"hpabatch/acts-on": _NESTED}})
    one, two = _election(client, clock, "one"), _election(client, clock, "two")
    one.turn()
    two.turn()
    assert (words in one.problem, bool(one.problem)) == (True, bool(words))
    assert len(one.problem) < 500
    if mend == "delete":
        del client.objects[PATH]
    elif mend == "edit":
        client.put(PATH, spec={"leaseDurationSeconds": 15, "holderIdentity": "x"})
    one.turn()
    clock.sleep(15.1 if mend == "edit" else 60.1)
    one.turn()
    one.turn()
    two.turn()
    assert (*_leads(one, two), one.problem, two.problem) == (True, False, "", "")
    assert 0 < client.objects[PATH]["spec"].get("leaseTransitions", 1) < 2**31
    clock.sleep(15.1)
    two.turn()
    assert _leads(one, two) == [False, True], "the second does not remember it either"


def test_who_could_not_write_leaves_the_lease_to_others() -> None:
    client, clock, said = FakeClient(), Clock(), []  # type: ignore[var-annotated]
    one, two = _election(client, clock, "one", said), _election(client, clock, "two")
    two.hindrance = lambda: "no pass was made yet"
    two.turn()
    clock.sleep(15)
    two.turn()
    assert client.objects[PATH]["spec"]["holderIdentity"] == ""
    two.hindrance = lambda: ""
    one.turn()
    clock.sleep(15)
    one.turn()
    assert _leads(one, two) == [True, False]
    one.hindrance = lambda: "the disk is full"
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
    _elected(one, two, clock=clock)
    one.stop()
    assert not one.leads
    assert one.refusal(0.1)
    two.turn()
    assert two.leads


def test_a_released_lease_that_was_not_seen_before_is_waited_for() -> None:
    """It may be of a backup."""
    client, clock = FakeClient(), Clock()
    one = _election(client, clock, "one")
    _elected(one, clock=clock)
    one.stop()
    two = _election(client, clock, "two")
    two.turn()
    assert not two.leads
    clock.sleep(15)
    two.turn()
    assert two.leads


def test_a_write_begins_only_if_it_ends_before_the_lease() -> None:
    client, clock = FakeClient(), Clock()
    one = _election(client, clock, "one")
    assert one.refusal(4)
    _elected(one, clock=clock)
    clock.sleep(9.9)
    assert one.refusal(4) == ""
    clock.sleep(0.2)
    assert "does not hold the lease for long enough" in one.refusal(4)
    assert one.refusal(1) == ""


def test_the_time_counts_from_the_sending_of_a_renewal_not_from_its_response() -> None:
    client, clock = FakeClient(), Clock()
    one = _election(client, clock, "one")
    _elected(one, clock=clock)
    client.after = lambda method, path: clock.sleep(3)
    one.turn()
    assert one.refusal(11) == ""
    assert one.refusal(11.1)


@pytest.mark.parametrize("error", [Unreachable("gone"), Refused("forbidden", 403)])
def test_without_the_server_nobody_leads_after_the_duration(error: ApiError) -> None:
    client, clock, said = FakeClient(), Clock(), []  # type: ignore[var-annotated]
    one = _election(client, clock, "one", said)
    _elected(one, clock=clock)
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


LONGEST_S = 4  # of a write


@pytest.mark.parametrize("seed", range(20))
def test_at_no_time_may_two_of_them_write(seed: int) -> None:
    """Whatever becomes of candidates and Lease: the time of a write of two never overlaps.

    Candidates are cut off and come back, end, and others begin; their requests may be lost on the
    way or their responses on the way back. The Lease is deleted or edited, or the storage emptied.
    """
    draw = random.Random(seed)
    client, clock = FakeClient(), Clock()
    game = _Game(client, clock, draw)
    faults = {"cut": 0.05, "end": 0.01, "kill": 0.01, "delete": 0.02, "empty": 0.01, "edit": 0.02}
    may: dict[str, float] = {}
    led = 0
    for _ in range(2000):
        clock.sleep(draw.uniform(0, 2))
        for fault, chance in faults.items():
            if draw.random() < chance:
                getattr(game, fault)()
        game.turn()
        for one in game.all_of_them:
            if not one.refusal(LONGEST_S):
                led += 1
                name = one.candidate.identity
                assert all(end <= clock.now for other, end in may.items() if other != name)
                may[name] = clock.now + LONGEST_S
    assert led > 300
    assert game.count > 10


class _Game:
    """Candidates, and what can happen to them and their Lease."""

    def __init__(self, client: FakeClient, clock: Clock, draw: random.Random) -> None:
        self.client, self.clock, self.draw = client, clock, draw
        self.count = 0
        self.all_of_them = [self._begin() for _ in range(3)]
        self._cut: set[str] = set()
        self._turns = ""
        client.before = lambda method, path: self._lost(0.01)
        client.after = lambda method, path: self._lost(0.02)

    def _begin(self) -> Election:
        self.count += 1
        return _election(self.client, self.clock, f"c{self.count}")

    def _lost(self, chance: float) -> Unreachable | None:
        self.clock.sleep(self.draw.uniform(0, 0.5))
        is_lost = self._turns in self._cut or self.draw.random() < chance
        return Unreachable("cut") if is_lost else None

    def turn(self) -> None:
        one = self.draw.choice(self.all_of_them)
        self._turns = one.candidate.identity
        one.turn()

    def cut(self) -> None:
        self._cut ^= {self.draw.choice(self.all_of_them).candidate.identity}

    def end(self) -> None:
        """One that ends its writes first."""
        self.clock.sleep(LONGEST_S)
        number = self.draw.randrange(3)
        self._turns = self.all_of_them[number].candidate.identity
        self.all_of_them[number].stop()
        self.all_of_them[number] = self._begin()

    def kill(self) -> None:
        """One that is killed while it writes: its last write has its time."""
        self.all_of_them[self.draw.randrange(3)] = self._begin()

    def delete(self) -> None:
        self.client.objects.pop(PATH, None)

    def edit(self) -> None:
        if lease := self.client.objects.get(PATH):
            self.client.put(PATH, spec={**lease["spec"], "holderIdentity": ""})

    def empty(self) -> None:
        self.client.objects.clear()
        self.client.version = 100
