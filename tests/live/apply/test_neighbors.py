"""Instances of hpabatch with Leases in different namespaces: no target is scaled by two of them."""

from __future__ import annotations

import random

import pytest

from hpabatch.cluster.connection.errors import Refused, Unreachable
from hpabatch.cluster.objects.types import ScaleKey
from hpabatch.live.apply.lease import ANNOTATION, Candidate, Election
from hpabatch.live.apply.neighbors import _MOST_TARGETS, Claims, Neighbors, Owner
from hpabatch.live.passes.lanes import LaneKey
from tests.live.apply.fake_writes import Clock, FakeClient

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/hpabatch-apply"
Targets = dict[LaneKey, ScaleKey]


def _targets(*names: str) -> Targets:
    """Return HPAs (`namespace/name`) and their targets."""
    keys = [(name.partition("/")[0], name.partition("/")[2]) for name in names]
    return {key: ScaleKey("apps", "Deployment", *key) for key in keys}


class One:
    """An instance of a namespace."""

    def __init__(
        self, client: FakeClient, clock: Clock, space: str, targets: Targets, *, own: bool = True,
        name: str = "",
    ) -> None:  # fmt: skip
        self.targets, self.space = targets, space
        candidate = Candidate(space, name or f"{space}-1", 15)
        self.election = Election(client, candidate, clock=clock)
        self.neighbors = Neighbors(client, self.election, own_documents=own, clock=clock)
        self.claims, self._term = Claims({}, frozenset()), 0

    def look(self) -> None:
        """Begin a pass."""
        self._term = self.election.term if self.election.leads else 0
        self.claims = self.neighbors.look(self.targets)

    def writes(self) -> set[LaneKey]:
        """Return the HPAs whose targets it may write now; the gate is one of its pass."""
        if self.election.refusal(0) or self.election.term != self._term:
            return set()
        return self.targets.keys() - self.claims.others.keys() - self.claims.waiting


def pass_time(clock: Clock, *all_of_them: One, seconds: float = 15) -> None:
    """Let them renew their leases for the time of a pass, and then begin one."""
    for _ in range(6):
        for one in all_of_them:
            one.election.turn()
        clock.sleep(seconds / 6)
    for one in all_of_them:
        one.look()


def _begun(client: FakeClient, clock: Clock, *all_of_them: One) -> None:
    """Let them begin one after the other."""
    for number in range(len(all_of_them)):
        for _ in range(3):
            pass_time(clock, *all_of_them[: number + 1])


def test_of_two_that_name_a_target_the_first_scales_it() -> None:
    client, clock = FakeClient(), Clock()
    one = One(client, clock, "team-a", _targets("shop/web", "shop/cart"))
    two = One(client, clock, "team-b", _targets("shop/web", "pay/api"))
    _begun(client, clock, one, two)
    assert one.writes() == {("shop", "web"), ("shop", "cart")}
    assert two.writes() == {("pay", "api")}
    assert two.claims.others == {("shop", "web"): Owner("team-a/hpabatch-apply", "team-a-1")}
    assert one.claims.others == {}, "the second does not name it"


def test_teams_with_disjoint_documents_coexist() -> None:
    client, clock = FakeClient(), Clock()
    one = One(client, clock, "team-a", _targets("shop/web"))
    two = One(client, clock, "team-b", _targets("shop/cart"))
    _begun(client, clock, one, two)
    assert (one.writes(), two.writes()) == ({("shop", "web")}, {("shop", "cart")})


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_the_second_takes_over_when_the_first_has_ended(end: str) -> None:
    client, clock = FakeClient(), Clock()
    one, two = (One(client, clock, space, _targets("shop/web")) for space in ("a", "b"))
    _begun(client, clock, one, two)
    assert one.writes() == {("shop", "web")}
    if end == "stopped":
        one.election.stop()
        two.look()
    else:
        pass_time(clock, two)
        pass_time(clock, two)
    (sentence,) = two.claims.sentences().values()
    if end == "stopped":
        assert sentence == (
            "its holder has ended; the target of shop/web is scaled here from the next pass on, "
            "unless another takes it"
        )
    pass_time(clock, two)
    assert two.writes() == set(), "its lease does not name it yet"
    assert two.claims.waiting == {("shop", "web")}
    pass_time(clock, two)
    assert two.writes() == {("shop", "web")}


def test_a_lease_that_was_released_before_the_start_names_nothing() -> None:
    """Unless another takes it."""
    client, clock, web = FakeClient(), Clock(), _targets("shop/web")
    one, standby = One(client, clock, "a", web), One(client, clock, "a", web, name="a-2")
    _begun(client, clock, one)
    standby.election.turn()
    standby.look()
    one.election.stop()
    two = One(client, clock, "b", web)
    two.look()
    assert two.claims.others == {}
    standby.election.turn()
    two.look()
    assert two.claims.others == {("shop", "web"): Owner("a/hpabatch-apply", "a-2")}


@pytest.mark.parametrize(
    ("names", "own", "words"),
    [
        (("shop/web", "shop/job", "pay/api"), True,
         "this instance, and nobody scales the targets of pay/api, shop/job: give all"),
        ((), True, "this instance: give all"),
        (("shop/web",), False, "this instance (--manifests there, --take-over here), and nobody"),
    ],
)  # fmt: skip
def test_a_leader_with_another_job_is_told(names: tuple[str, ...], own: bool, words: str) -> None:
    client, clock = FakeClient(), Clock()
    leader = One(client, clock, "a", _targets("shop/web"))
    standby = One(client, clock, "a", _targets(*names), own=own, name="a-2")
    same = One(client, clock, "a", _targets("shop/web"), name="a-3")
    _begun(client, clock, leader, standby, same)
    pass_time(clock, leader, standby, same)
    assert standby.neighbors.mismatch.startswith("a-1 holds the lease and acts on other HPAs than ")
    assert words in standby.neighbors.mismatch
    assert (leader.neighbors.mismatch, same.neighbors.mismatch) == ("", "")
    standby.targets = _targets("shop/web")
    pass_time(clock, leader, standby)
    assert bool(standby.neighbors.mismatch) != own


def test_what_an_instance_of_another_lease_scales_is_scaled_by_somebody() -> None:
    client, clock = FakeClient(), Clock()
    first = One(client, clock, "b", _targets("pay/api"))
    leader = One(client, clock, "a", _targets("shop/web"))
    standby = One(client, clock, "a", _targets("shop/job", "pay/api"), name="a-2")
    _begun(client, clock, first, leader, standby)
    pass_time(clock, first, leader, standby)
    assert "nobody scales the targets of shop/job:" in standby.neighbors.mismatch


def test_an_hpa_that_the_leader_sees_later_is_no_other_job() -> None:
    client, clock = FakeClient(), Clock()
    leader, standby = (
        One(client, clock, "a", _targets("shop/web"), name=name) for name in ("a-1", "a-2")
    )
    _begun(client, clock, leader, standby)
    standby.targets |= _targets("shop/job")
    for seen in (False, True):
        if seen:
            leader.targets |= _targets("shop/job")
        for _ in range(2):
            pass_time(clock, standby, leader)
            assert standby.neighbors.mismatch == ""


def test_a_new_leader_of_the_first_goes_on_and_the_second_stays_away() -> None:
    client, clock = FakeClient(), Clock()
    web = _targets("shop/web")
    one, two = (One(client, clock, space, web) for space in ("a", "b"))
    standby = One(client, clock, "a", web, name="a-2")
    _begun(client, clock, one, two)
    for _ in range(4):  # the first was killed
        pass_time(clock, standby, two)
        assert two.writes() == set()
    assert standby.writes() == set(web)


def test_many_targets_are_named_by_their_namespaces() -> None:
    client, clock = FakeClient(), Clock()
    many = _targets(*(f"shop/w{k}" for k in range(_MOST_TARGETS + 1)))
    one = One(client, clock, "a", many)
    two = One(client, clock, "b", _targets("shop/other", "pay/api"))
    _begun(client, clock, one, two)
    assert len(client.objects[LEASES.format("a")]["metadata"]["annotations"][ANNOTATION]) < 100
    assert len(one.writes()) == len(many)
    assert two.writes() == {("pay", "api")}, "too careful: the first names no shop/other"


def test_hpas_of_the_cluster_are_left_by_namespace_and_not_to_other_ways() -> None:
    client, clock = FakeClient(), Clock()
    one = One(client, clock, "a", _targets("shop/web"), own=False)
    two = One(client, clock, "b", _targets("shop/cart", "pay/api"), own=False)
    three = One(client, clock, "c", _targets("shop/job"))
    _begun(client, clock, one, two, three)
    assert two.writes() == {("pay", "api")}
    assert three.writes() == {("shop", "job")}, "its document's target has no HPA"
    two.targets |= _targets("new/web")
    two.look()
    assert two.claims.waiting == {("new", "web")}
    pass_time(clock, two)
    assert ("new", "web") in two.writes()


def test_without_the_right_to_look_it_goes_on_and_says_so() -> None:
    client, clock = FakeClient(), Clock()
    one = One(client, clock, "a", _targets("shop/web"))
    client.before = lambda m, path: Refused("no", 403) if path.endswith("v1/leases") else None
    _begun(client, clock, one)
    assert one.writes() == {("shop", "web")}
    assert one.neighbors.problem.endswith("cannot be seen: no")
    client.before = lambda m, path: None
    one.look()
    assert one.neighbors.problem == ""


def test_without_a_response_nothing_is_added() -> None:
    """Neither then nor by the first response after it: the own lease names what was free before."""
    client, clock = FakeClient(), Clock()
    web = _targets("shop/web")
    one, two = One(client, clock, "a", web), One(client, clock, "b", web)
    pass_time(clock, two)
    client.before = lambda m, path: Unreachable("gone") if path.endswith("v1/leases") else None
    pass_time(clock, two)
    assert two.election.leads
    assert two.claims.waiting == set(web)
    client.before = lambda m, path: None
    for _ in range(6):
        pass_time(clock, one)
    assert one.writes() == set(web)
    two.election.turn()
    lease = client.objects.pop(LEASES.format("a"))
    clock.sleep(1)
    two.look()
    assert two.claims.waiting == set(web)
    client.objects[LEASES.format("a")] = lease
    two.look()
    assert two.claims.others.keys() == set(web)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"way":1,"targets":2}', "x"])
def test_what_is_no_claim_claims_nothing(text: str) -> None:
    client, clock = FakeClient(), Clock()
    other = {"metadata": {"annotations": {ANNOTATION: text}}, "spec": {"holderIdentity": "x"}}
    one = One(client, clock, "a", _targets("shop/web"))
    for _ in range(3):
        client.put(LEASES.format("b"), **other)
        pass_time(clock, one)
    assert one.writes() == {("shop", "web")}


def test_a_lease_that_is_made_anew_is_waited_for() -> None:
    """Its last holder may have named the target in the lease that is gone."""
    client, clock = FakeClient(), Clock()
    spec = {"holderIdentity": "", "leaseDurationSeconds": 15}
    one = One(client, clock, "a", _targets("shop/web"))
    pass_time(clock, one)
    client.put(LEASES.format("b"), spec=spec)
    pass_time(clock, one)
    assert one.claims.waiting == {("shop", "web")}
    pass_time(clock, one)
    assert one.writes() == {("shop", "web")}


@pytest.mark.parametrize("seed", range(40))
def test_no_target_is_ever_scaled_by_two(seed: int) -> None:
    """Whatever their order, deleted leases, instances that are cut off or begin anew."""
    draw = random.Random(seed)
    client, clock = FakeClient(), Clock()
    names = [f"shop/w{k}" for k in range(4)]
    count = 0

    def begin(space: str) -> One:
        nonlocal count
        count += 1
        chosen = _targets(*draw.sample(names, 3))
        return One(client, clock, space, chosen, name=f"{space}-{count}")

    all_of_them = [begin(space) for space in ("a", "a", "b", "b", "c")]
    cut: set[str] = set()
    turns = [""]
    client.before = lambda method, path: Unreachable("cut") if turns[0] in cut else None
    wrote, turned = dict.fromkeys(names, 0), dict[str, float]()
    for _ in range(1500):
        clock.sleep(draw.uniform(0, 2))
        for each in all_of_them:  # as in a thread of its own
            turns[0] = each.election.candidate.identity
            if clock.now - turned.get(turns[0], 0) > 2:
                each.election.turn()
                turned[turns[0]] = clock.now
        number = draw.randrange(len(all_of_them))
        one = all_of_them[number]
        identity = turns[0] = one.election.candidate.identity
        happens = draw.random()
        if happens < 0.01:
            cut ^= {identity}
        elif happens < 0.015:
            client.objects.pop(LEASES.format(draw.choice("abc")), None)
        elif happens < 0.02:
            all_of_them[number] = begin(one.space)
        else:
            one.look()
        for name in names:
            key = (name.partition("/")[0], name.partition("/")[2])
            able = [each for each in all_of_them if key in each.writes()]
            by = {each.election.candidate.identity for each in able} - cut
            assert len(by) <= 1, (name, by)
            wrote[name] += len(by)
    assert min(wrote.values()) > 50
