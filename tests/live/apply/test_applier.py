"""Passes of an applier: who is written, and everything that keeps a pass from writing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpabatch.cluster.connection.errors import Refused, Unreachable
from hpabatch.cluster.connection.writes import Budget
from hpabatch.cluster.objects.types import Change, HpaObject, Kind, ScaleKey, ScaleObject
from hpabatch.cluster.watch.site import Site as ClusterSite
from hpabatch.layout.records import (
    HEAD_DOWN_COUNT,
    HEAD_STATUS_DESIRED,
    HEAD_UP_COUNT,
    HEAD_UP_START,
)
from hpabatch.live.apply.applier import Applier
from hpabatch.live.apply.guards import Gate, read_switch
from hpabatch.live.apply.journal import Journal
from hpabatch.live.apply.lease import Candidate, Election
from hpabatch.live.apply.ledger import Entry, Ledger
from hpabatch.live.apply.request import ApplyOptions
from hpabatch.live.apply.rivals import Probe, Rivals, Silence
from hpabatch.live.apply.scales import ScaleWriter
from hpabatch.live.apply.statuses import HpaStatuses, as_stored_status
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.lanes import LaneKey
from hpabatch.live.passes.memory import Saved, load
from hpabatch.live.passes.result import PassResult
from hpabatch.model.messages import Event
from hpabatch.model.objects.hpa import (
    HPA,
    Behavior,
    Condition,
    HPAStatus,
    ScalingPolicy,
    ScalingRules,
)
from hpabatch.model.versions import DEFAULT_K8S, ControllerFlags, profile_for
from tests.live import two_pods
from tests.live.apply.fake_writes import Clock, FakeClient
from tests.live.apply.test_scales import KEY, PATH, TARGET, Apis, OpenFence

SHOWN = 11
"""Passes until a watch has shown what a leader before did."""
SWITCH = "/api/v1/namespaces/ours/configmaps/hpabatch-apply"
LEDGER = "/api/v1/namespaces/ours/configmaps/hpabatch-ledger"
PROBE = "/apis/autoscaling/v2/namespaces/ours/horizontalpodautoscalers/hpabatch-probe"


class Sink(HpaStatuses):
    """Statuses and events as they are put."""

    problem = ""

    def __init__(self) -> None:
        self.has_ended = True
        self.statuses: list[HPAStatus] = []
        self.keys: list[LaneKey] = []
        self.events: list[str] = []

    def put(self, key: LaneKey, document: HPA) -> None:
        self.statuses.append(document.status)
        self.keys.append(key)

    def tell(self, document: HPA, events: Sequence[Event]) -> None:
        self.events += [event.reason for event in events]

    def forget(self) -> None:
        pass

    def start(self) -> None:
        pass

    def stop(self) -> bool:
        return self.has_ended


class Site(ClusterSite):
    """HPAs of the cluster: what they name, how well they are known."""

    def __init__(self) -> None:
        self.named: dict[ScaleKey, str] = {}
        self.blind = ""
        self.broken: dict[LaneKey, str] = {}

    def named_targets(self) -> dict[ScaleKey, str]:
        return self.named

    def blindness(self) -> str:
        return self.blind

    def unreadable(self) -> dict[LaneKey, str]:
        return self.broken


class Bench:
    """An HPA of two pods that wants four, and an applier whose client is in memory."""

    def __init__(
        self, folder: Path, *, log: str = "log", own: bool = True, dry_run: bool = False,
        limits: ApplyOptions | None = None, saved: Saved | None = None,
        found: int | None = None, space: str = "ours", beside: Bench | None = None,
    ) -> None:  # fmt: skip
        self.client, self.clock, self.site = FakeClient(), Clock(), Site()
        if beside is not None:
            self.client, self.clock = beside.client, beside.clock
        self.client.put(SWITCH.replace("ours", space), data={})
        self.client.put(TARGET, metadata={"namespace": "shop", "name": "web"}, spec={"replicas": 2})
        self.election = Election(self.client, Candidate(space, "me"), clock=self.clock)
        self.election.turn()  # makes the lease, whose duration has passed by its next turn
        self.silence = Silence(10, clock=self.clock)
        self.log, self.skew_s = folder / log, 0.0
        budget = Budget(1e6, 1e6)
        self.sink = Sink()
        self.client.dry_run = dry_run
        self.journal = journal = Journal(self.log, {})
        gate = Gate(
            15.0, self.election, lambda: read_switch(self.client, space),
            log=lambda: journal.problem, look_s=0.01,
        )  # fmt: skip
        self.told: list[str] = []
        scales = ScaleWriter(self.client, Apis(), budget, gate)
        self.decider = Decider(profile_for(DEFAULT_K8S), ControllerFlags(), saved)
        self.applier = Applier(
            self.client, space, scales, gate, None if dry_run else self.sink, self.election,
            journal, Ledger(self.client, space, self.election, lambda: self.skew_s),
            Rivals(
                self.site, self.site if own else None, None if own else self.silence,
                None if own else Probe(self.client, "v2", space, self.silence),
            ),
            replace(limits or ApplyOptions(), dry_run=dry_run), self.decider, self.tell,
        )  # fmt: skip
        first = [change for change in _with_behavior() if not saved or change.kind != Kind.scale]
        if found is not None:  # at the start, not an hour before it
            scale = ScaleObject(KEY, found, found, "app=web")
            first = [
                replace(change, thing=scale, seen_ms=two_pods.NOW_MS)
                if change.kind == Kind.scale else change for change in first
            ]  # fmt: skip
        self.decider.apply(first)
        self.now = two_pods.NOW_MS

    def tell(self, event: str, text: str) -> None:
        self.told.append(text)

    def turn(self, leads: bool = True, works: bool = True) -> PassResult:
        """Make a pass."""
        self.now += two_pods.PERIOD_MS
        self.clock.sleep(12)
        if leads:
            self.election.turn()
        self.applier.begin()
        responses = two_pods.responses(self.now) if works else {}
        self.result = self.applier.carry_out(self.decider.decide(self.now, responses))
        return self.result

    def sizes(self) -> list[tuple[int, int, str, str]]:
        """Return sizes, outcomes and reasons of the last pass."""
        found = self.result.sizes.values()
        return [(one.before, one.after, one.outcome, one.text) for one in found]

    def turns(self, count: int, leads: bool = True) -> PassResult:
        for _ in range(count):
            result = self.turn(leads)
        return result

    def enter(self, before: int, after: int, late_s: float = 0, made_ms: int = 0) -> None:
        """Let another leader write a change into the ledger."""
        other = Ledger(self.client, "ours", OpenFence())
        other.read()
        assert (
            other.add(
                [Entry(self.now + round(1000 * late_s), "shop", "web", before, after, made_ms)],
                lambda key: 600_000,
            )
            == ""
        )

    @property
    def foreign(self) -> list[str]:
        """Changes of others that were told."""
        return [text for text in self.told if "another changed the size" in text]

    def booked(self) -> tuple[int, int]:
        """Return the numbers of scale events, up and down."""
        head = self.decider._memory.head[0]
        return int(head[HEAD_UP_COUNT]), int(head[HEAD_DOWN_COUNT])

    @property
    def first_up_ms(self) -> int | None:
        """Return the time of the oldest scale event upward."""
        memory = self.decider._memory
        at = memory.head[0, HEAD_UP_START]
        return int(memory.events.ms[at]) if self.booked()[0] else None

    @property
    def size(self) -> int:
        return int(self.client.objects[TARGET]["spec"]["replicas"])

    def lines(self, event: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [line for line in found if line["event"] == event]

    def shows(self, replicas: int) -> None:
        self.sees(replicas, self.now + 1)

    def sees(self, replicas: int, ms: int) -> None:
        """Let a watch show a size at a time."""
        scale = ScaleObject(KEY, replicas, replicas, "app=web")
        self.decider.apply([Change(Kind.scale, KEY, scale, ms)])


def _with_behavior() -> list[Change]:
    """Return the changes of the HPA of two pods, which has policies: scale events are kept."""
    found: list[Change] = []
    for change in two_pods.changes():
        if isinstance(change.thing, HpaObject):
            rules = ScalingRules(policies=(ScalingPolicy("Pods", 10, 60),))
            hpa = change.thing.hpa
            behavior = Behavior(scale_up=rules, scale_down=rules)
            hpa = replace(hpa, spec=replace(hpa.spec, behavior=behavior))
            change = replace(change, thing=replace(change.thing, hpa=hpa))
        found.append(change)
    return found


def test_the_first_pass_writes_nothing_and_the_second_writes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn()
    assert bench.size == 2
    assert bench.applier.problems() == {"start": "the first pass writes nothing"}
    text = "not written: nobody has the lease; the first pass writes nothing"
    assert bench.sizes() == [(2, 4, "held", text)]
    bench.turn()
    assert bench.size == 4
    assert bench.sizes() == [(2, 4, "written", "")]
    (will,), (done,) = bench.lines("will"), bench.lines("done")
    assert (will["from"], will["to"], will["id"]) == (2, 4, done["id"])
    assert will["why"].endswith("the metrics' own proposal was applied")
    assert bench.sink.events == ["SuccessfulRescale"]
    assert bench.sink.statuses[-1].desired_replicas == 4
    assert '"shop","web",2,4' in bench.client.objects[LEDGER]["data"]["changes"]
    assert bench.applier.figures.written == 1


def test_a_scale_event_has_the_time_of_the_response(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the controller: with a rate limit a write may come long after its decision."""
    bench = Bench(tmp_path)
    bench.turn()
    began = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began)

    def slow(method: str, path: str) -> None:
        if (method, path) == ("PUT", PATH):
            monkeypatch.setattr(time, "monotonic", lambda: began + 7)

    bench.client.before = slow
    bench.turn()
    decided_ms = bench.now
    (entry,) = json.loads(bench.client.objects[LEDGER]["data"]["changes"])
    assert (entry[0], entry[-1]) == (decided_ms, decided_ms + 7000), "for the next leader"
    bench.shows(4)
    bench.turn()
    assert (bench.booked(), bench.first_up_ms) == ((1, 0), decided_ms + 7000)


@pytest.mark.parametrize(
    ("entries", "found", "up"),
    [
        ([(2, 12, -30, None)], 2, None),
        ([(2, 12, -30, None)], 12, -10),
        ([(2, 12, -30, None)], 7, -10),
        ([(2, 12, -30, -28)], 2, -28),
        ([(2, 12, -5, None)], 12, -0.001),
        ([(2, 12, -5, 1)], 12, -0.001),
        ([(2, 12, -5, 1)], 2, None),
        ([(2, 4, -40, -39), (4, 12, -30, None)], 4, -39),
        ([(2, 4, -40, -39), (4, 12, -30, None)], 2, -39),
        ([(2, 4, -40, None), (4, 2, -30, -29)], 2, -20),
    ],
    ids=["not made", "made", "changed since", "made, and changed back", "just made",
         "made before the response", "on its way", "the last of two", "two, changed back",
         "not the last"],
)  # fmt: skip
def test_what_the_ledger_says_of_changes_before_the_start(
    entries: list[tuple[int, int, float, float | None]], found: int, up: float | None,
    tmp_path: Path,
) -> None:  # fmt: skip
    """Times in seconds from the first reading of the size; each change uses up a budget."""
    bench = Bench(tmp_path, found=found)
    lane = bench.decider.lanes.get(("shop", "web"))
    assert lane is not None
    assert lane.found is not None
    at_ms = lane.found[0]
    for before, after, decided_s, made_s in entries:
        made_ms = 0 if made_s is None else at_ms + round(1000 * made_s)
        bench.enter(before, after, (at_ms - bench.now) / 1000 + decided_s, made_ms)
    bench.turn(leads=False)
    bench.applier._origins.recall()
    bench.decider.decide(bench.now + 1, two_pods.responses(bench.now + 1))
    assert bench.first_up_ms == (None if up is None else at_ms + round(1000 * up))


@pytest.mark.parametrize("what", ["log", "ledger"])
def test_what_cannot_be_written_before_a_size_keeps_it_from_being_written(
    what: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, log="/dev/full" if what == "log" else "log")
    if what == "ledger":
        bench.client.before = lambda m, p: (
            Refused("no", 403) if m != "GET" and "ledger" in p else None
        )
        bench.client.put(LEDGER)
    result = bench.turns(3)
    assert bench.size == 2
    words = {
        "log": "no size or status is written: /dev/full cannot be written: No space left on device",
        "ledger": "no size is written: the ledger (ConfigMap ours/hpabatch-ledger) cannot be "
        "written: no",
    }
    assert bench.applier.problems() == {what: words[what]}
    is_told = what == "ledger"
    assert (result.binding(0) == "scale_write") is is_told
    assert ("FailedRescale" in bench.sink.events) is is_told


def test_a_size_that_another_changed_in_between_makes_the_decision_void(tmp_path: Path) -> None:
    """No failure: neither a condition nor an event, of which the controller has none either."""
    bench = Bench(tmp_path)
    bench.turn()
    told = len(bench.sink.statuses)
    bench.client.put(PATH, spec={"replicas": 3})
    bench.turn()
    assert (bench.size, bench.booked()) == (3, (0, 0))
    assert (len(bench.sink.statuses), bench.sink.events) == (told, [])
    figures = bench.applier.figures
    assert (figures.failed, figures.void, figures.held, figures.written) == (0, 1, 0, 0)
    assert bench.sizes()[0][:3] == (2, 4, "void")
    (void,) = bench.lines("void")
    assert void["id"] == bench.lines("will")[0]["id"]
    assert "the size is 3, and 2 was decided on" in void["error"]
    bench.shows(3)
    bench.turn()
    assert (bench.size, figures.written) == (4, 1)


def test_a_lease_that_is_taken_while_a_pass_begins_counts_from_the_next_one(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn(leads=False)

    def take(method: str, path: str) -> None:
        if path == SWITCH:
            bench.client.before = lambda m, p: None
            bench.election.turn()

    bench.client.before = take
    bench.turn(leads=False)
    text = "not written: this process has taken the lease since the pass began"
    assert bench.sizes() == [(2, 4, "held", text)]
    bench.turn()
    assert bench.size == 4


def test_a_standby_says_whose_the_lease_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    other = Election(bench.client, Candidate("ours", "other"), clock=bench.clock)
    other.turn()
    bench.clock.sleep(15)
    other.turn()
    bench.turns(1)
    assert bench.lines("pass")[-1]["leader"] == "other"
    assert bench.told == ["other has the lease ours/hpabatch-apply"]
    assert [line["text"] for line in bench.lines("follows")] == [
        "other has the lease; the first pass writes nothing"
    ]
    bench.turn()
    assert bench.sizes() == [(2, 4, "held", "the leader writes: other")]


def test_what_a_guard_holds_back_waits_for_it_by_name(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turns(1)
    bench.client.put(SWITCH, data={"stop": "true"})
    bench.turns(3)
    ((*size, text),) = bench.sizes()
    assert size == [2, 4, "held"]
    assert text.startswith("not written: the kill switch is on")
    assert bench.sink.statuses == []


@pytest.mark.parametrize(("value", "size"), [("off", 2), ("?", 2), ("on", 4), ("True ", 4)])
def test_an_annotation_leaves_an_hpa_alone(value: str, size: int, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    lane = bench.decider.lanes.get(("shop", "web"))
    assert lane is not None
    hpa = replace(lane.item.hpa, annotations=(("hpabatch/apply", value),))
    lane.item = replace(lane.item, hpa=hpa)
    bench.turns(2)
    assert bench.size == size
    if size == 2:
        text = f'not written: its annotation hpabatch/apply is "{value}"'
        assert bench.sizes() == [(2, 4, "held", text)]
        assert bench.sink.statuses == []


def test_an_uncertain_write_is_booked_when_it_shows(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turn()
    lost: list[str] = []

    def lose(method: str, path: str) -> Unreachable | None:
        if path == PATH and (method == "PUT" or lost):
            lost.append(method)
            return Unreachable("reset")
        return None

    bench.client.after = lambda m, p: lose(m, p) if m == "PUT" else None
    bench.client.before = lambda m, p: lose(m, p) if lost else None
    bench.turn()
    assert bench.size == 4
    assert bench.applier.figures.failed == 1
    (failed,) = bench.lines("failed")
    assert failed["uncertain"]
    bench.client.before = bench.client.after = lambda m, p: None
    bench.shows(4)
    bench.turn()
    assert bench.told == [], "it is no change of another"


def test_of_two_own_namespaces_on_one_target_each_tells_the_sizes_of_the_other(
    tmp_path: Path,
) -> None:
    """Neither looks at the other's lease, and neither overwrites a size that it did not expect."""
    one = Bench(tmp_path)
    two = Bench(tmp_path, log="two", space="theirs", beside=one)
    for each in (one, two):
        each.turn()
    one.turn()
    two.turn()
    assert (one.size, one.election.leads, two.election.leads) == (4, True, True)
    text = "the size is 4, and 2 was decided on; the next pass decides again"
    assert two.sizes() == [(2, 4, "void", text)]
    two.turns(SHOWN)
    two.shows(4)
    two.turn()
    assert (two.foreign, two.applier.figures.foreign) == (
        ["shop/web: another changed the size, 2 -> 4"], 1,
    )  # fmt: skip
    assert {path for _, path in one.client.sent if "/leases" in path} == {
        f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases{name}"
        for space in ("ours", "theirs") for name in ("", "/hpabatch-apply")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("steps_s", "suspended_s"),
    [((86_400,), 0), ((86_400, -86_400), 0), ((), 3600), ((3600,), 3600)],
)
def test_after_steps_of_the_clocks_sizes_follow_and_the_lease_is_taken_anew(
    steps_s: Sequence[int], suspended_s: int, tmp_path: Path
) -> None:
    """Of the system's clock, of the monotonic one (a machine that was suspended), and of both."""
    bench = Bench(tmp_path)
    bench.turns(2)
    bench.shows(4)
    bench.turns(SHOWN)
    for step_s in steps_s:
        bench.now += 1000 * step_s
        bench.turns(2)
    bench.clock.sleep(suspended_s)
    bench.client.put(TARGET, spec={"replicas": 8})
    bench.shows(8)
    if suspended_s:
        bench.turn(leads=False)
        assert bench.size == 8
        bench.turns(20)  # it may be of another leader, and counts as recommended for a window
    bench.turn()
    assert bench.size == 4
    bench.shows(4)
    bench.turns(3)
    assert (bench.size, bench.booked()[1], bench.applier.problems()) == (4, 1, {})


def test_a_standby_books_every_change(tmp_path: Path) -> None:
    """It may be of the leader, or of the cluster's own controller."""
    bench = Bench(tmp_path)
    bench.turn(leads=False)
    bench.shows(9)
    bench.turn(leads=False)
    assert bench.booked() == (1, 0)
    bench.enter(9, 3)
    bench.shows(3)
    bench.turn(leads=False)
    assert bench.booked() == (1, 1)
    bench.turns(2)
    assert bench.booked() == (1, 1), "the ledger tells of nothing else"


def test_a_refused_write_does_not_stay_in_the_ledger(tmp_path: Path) -> None:
    """Otherwise the next leader would book it, and hold back its first scale-up."""
    bench = Bench(tmp_path)
    bench.client.before = lambda m, p: Refused("quota", 403) if (m, p) == ("PUT", PATH) else None
    bench.turns(9)
    assert bench.applier.figures.failed == 8
    assert json.loads(bench.client.objects[LEDGER]["data"]["changes"]) == []


@pytest.mark.parametrize("skew_s", [-600.0, 600.0])
def test_the_ledger_has_the_servers_times(skew_s: float, tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.skew_s = skew_s
    bench.turn(leads=False)
    bench.enter(2, 3, skew_s)
    bench.client.put(PATH, spec={"replicas": 3})
    bench.shows(3)
    bench.turn(leads=False)
    assert bench.booked() == (1, 0)
    bench.turn()
    entries = json.loads(bench.client.objects[LEDGER]["data"]["changes"])
    assert entries[-1][0] == bench.now + 1000 * skew_s


@pytest.mark.parametrize("way", ["ledger", "seen", "none"])
def test_a_target_that_an_earlier_leader_scaled_to_zero_comes_back(
    way: str, tmp_path: Path
) -> None:
    bench = Bench(tmp_path)
    bench.shows(0)
    bench.client.put(PATH, spec={"replicas": 0})
    if way == "ledger":
        bench.enter(2, 0, -100)
    elif way == "seen":
        bench.shows(2)
        bench.turn(leads=False)
        bench.enter(2, 0)
        bench.shows(0)
    bench.turn(leads=False)
    result = bench.turn()
    assert (result.binding(0) == "zero") is (way == "none")


def test_an_own_write_that_shows_after_the_lease_is_lost_is_booked_once(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.turns(2)
    lane = bench.decider.lanes.get(("shop", "web"))
    assert lane is not None
    assert [write.after for write in lane.own] == [4]
    bench.clock.sleep(60)
    bench.turn(leads=False)
    bench.shows(4)
    bench.turn(leads=False)
    assert (bench.booked(), bench.foreign) == ((1, 0), []), "it was booked, and is in the ledger"


def test_a_restored_memory_gets_the_changes_since_one_by_one(tmp_path: Path) -> None:
    """While it was down: two up to six, and down to three; the sum alone is one up."""
    before = Bench(tmp_path)
    before.turns(2)
    assert before.size == 4, "its own last write is not yet in the memory"
    before.decider.save(tmp_path / "state", "x")
    saved = load(tmp_path / "state", "x")
    bench = Bench(tmp_path, saved=saved)
    bench.client.objects[LEDGER] = before.client.objects[LEDGER]
    bench.now = before.now
    bench.enter(1, 2, -20)
    bench.enter(4, 6, 1)
    bench.enter(6, 3, 2)
    bench.sees(3, bench.now + 3000)
    bench.client.put(PATH, spec={"replicas": 3})
    bench.turn(leads=False)
    assert bench.booked() == (0, 0), "the ledger is read when it may write"
    bench.turn()
    assert bench.booked() == (2, 1)


def test_without_the_ledger_nothing_is_written(tmp_path: Path) -> None:
    bench = Bench(tmp_path, found=2)
    bench.turn(leads=False)
    bench.enter(1, 2, -100)
    bench.client.before = lambda m, p: Unreachable("gone") if p == LEDGER else None
    bench.turns(2)
    assert bench.applier.problems()["ledger"] == "the changes of earlier leaders: gone"
    assert (bench.booked(), bench.decider.lanes.leads) == ((0, 0), False)
    bench.client.before = lambda m, p: None
    bench.turn()
    assert (bench.booked(), bench.decider.lanes.leads) == ((1, 0), True)


def test_a_late_write_of_an_earlier_leader_is_booked_when_it_shows(tmp_path: Path) -> None:
    """It is on its way as this process begins to lead, so the size is still the one before it."""
    bench = Bench(tmp_path, found=2)
    bench.turn(leads=False)
    bench.enter(2, 3, -100)
    bench.turn(works=False)
    assert (bench.booked(), bench.decider.lanes.leads) == ((0, 0), True)
    bench.shows(3)
    bench.turn(works=False)
    assert (bench.booked(), bench.foreign) == ((1, 0), [])
    bench.shows(4)
    bench.turn(works=False)
    assert (bench.booked(), bench.foreign) == ((2, 0), []), "it may be another one that was late"
    for _ in range(SHOWN):
        bench.turn(works=False)
    bench.shows(5)
    bench.turn(works=False)
    assert (bench.booked(), len(bench.foreign)) == ((2, 0), 1)


def test_before_it_leads_a_change_may_be_of_the_clusters_own_controller(tmp_path: Path) -> None:
    bench = Bench(tmp_path, own=False)
    bench.turn(leads=False)
    bench.shows(4)
    bench.turn(leads=False)
    assert bench.booked() == (1, 0)


def test_a_limit_makes_a_size_wait_and_says_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limits=ApplyOptions(most_replicas=0))
    result = bench.turns(2)
    assert bench.size == 2
    assert result.binding(0) == "scale_write"
    ((*size, text),) = bench.sizes()
    assert (size, text.startswith("waits: --most-replicas 0")) == ([2, 4, "waits"], True)
    assert not result.sizes[0].why.endswith("could not be written"), "it was not tried"
    assert "hpabatch: waits: --most-replicas 0" in bench.sink.statuses[-1].conditions[0].message
    assert bench.applier.figures.held == 1


def test_a_step_beyond_a_limit_is_written_in_parts(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limits=ApplyOptions(most_replicas=1))
    result = bench.turns(2)
    part = "a part of 2 -> 4: --most-replicas 1: a pass changes no more"
    assert (bench.size, bench.sizes()) == (3, [(2, 3, "written", part)])
    assert bench.sink.statuses[-1].desired_replicas == 3
    assert [event.message.partition(";")[0] for event in result.events(0)] == ["New size: 3"]
    (entry,) = json.loads(bench.client.objects[LEDGER]["data"]["changes"])
    assert entry[3:5] == [2, 3]
    (line,) = bench.lines("will")
    assert (line["to"], line["part"]) == (3, part)
    assert bench.decider._memory.head[0, HEAD_STATUS_DESIRED] == 3
    bench.shows(3)
    bench.turn()
    assert bench.booked() == (1, 0)
    assert (bench.size, bench.sizes()) == (4, [(3, 4, "written", "")])


def test_while_the_kill_switch_is_on_there_is_no_probe_and_no_status(tmp_path: Path) -> None:
    bench = Bench(tmp_path, own=False)
    bench.client.put(SWITCH, data={"stop": "true"})
    bench.turns(2)
    assert PROBE not in bench.client.objects
    assert "the kill switch is on" in bench.applier.gate.refusal(0)
    bench.client.put(SWITCH, data={})
    bench.turn()
    bench.client.put(SWITCH, data={"stop": "true"})
    bench.client.put(PROBE, status={"conditions": [{"type": "AbleToScale"}]})
    bench.turn()
    assert PROBE in bench.client.objects, "one with a status is not removed either"
    assert "has got a status" in bench.applier.problems()["rivals"]
    gate = bench.applier.gate
    bench.client.put(SWITCH, data={})
    bench.turn()
    assert "the kill switch" not in gate.refusal(0)
    bench.client.put(SWITCH, data={"stop": "true"})
    bench.applier.read_ahead()
    bench.applier._reader.submit(int).result()
    assert "the kill switch is on" in gate.refusal(0), "before the next pass"


def _is_full(file: int, data: bytes) -> int:
    raise OSError(28, "No space left on device")


def test_a_loop_that_hangs_or_has_no_log_leaves_the_lease_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path)
    hindrance = bench.election.hindrance
    assert hindrance() == "no pass was made yet"
    bench.turn(leads=False)
    assert hindrance() == ""
    bench.election.turn()
    full = f"{bench.log} cannot be written: No space left on device"
    monkeypatch.setattr(os, "write", _is_full)
    bench.turns(2)
    assert (bench.size, hindrance()) == (2, full)
    assert bench.applier.problems()["log"] == f"no size or status is written: {full}"
    monkeypatch.undo()
    bench.clock.sleep(20)
    bench.turns(2)
    assert (bench.size, hindrance()) == (4, "")
    bench.applier._began_s = time.monotonic() - 91
    assert hindrance() == "the last pass began 91 s ago"


def test_a_log_that_fails_stops_statuses_and_events_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No size changes, so only lines about passes and statuses fail."""
    bench = Bench(tmp_path)
    bench.turns(2)
    bench.shows(4)
    bench.turns(2)
    assert bench.applier.problems() == {}
    monkeypatch.setattr(os, "write", _is_full)
    bench.turn()
    assert "No space left" in bench.applier.gate.refusal(0), "also within that pass"
    told = len(bench.sink.statuses), len(bench.sink.events)
    for _ in range(3):
        bench.turn(works=False)
    assert (len(bench.sink.statuses), len(bench.sink.events)) == told
    assert bench.applier.problems().keys() == {"log"}
    assert "No space left" in bench.applier._hindrance(), "the lease is left to others"


@pytest.mark.parametrize("has_ended", [True, False])
def test_the_lease_is_released_unless_a_write_may_be_on_its_way(
    has_ended: bool, tmp_path: Path
) -> None:
    bench = Bench(tmp_path)
    bench.turns(2)
    bench.sink.has_ended = has_ended
    bench.applier.stop()
    assert bench.election.refusal(0), "no other write begins"
    lease = bench.client.objects[
        "/apis/coordination.k8s.io/v1/namespaces/ours/leases/hpabatch-apply"
    ]
    assert (lease["spec"]["holderIdentity"] == "") is has_ended


def test_of_two_hpas_on_one_target_one_writes_in_a_pass(tmp_path: Path) -> None:
    """Both are below their minimum: that is decided before their pods are looked at."""
    bench = Bench(tmp_path)
    for change in _with_behavior():
        if isinstance(change.thing, HpaObject):
            for name, least in (("a", 4), ("web", 3)):
                spec = replace(change.thing.hpa.spec, min_replicas=least)
                hpa = replace(change.thing.hpa, name=name, uid=name, spec=spec)
                item = replace(change.thing, name=name, hpa=hpa)
                bench.decider.apply([Change(Kind.hpa, ("shop", name), item, change.seen_ms)])
    result = bench.turns(2)
    assert sorted(one[2] for one in bench.sizes()) == ["void", "written"]
    assert (result.names, len(bench.lines("done"))) == (["a", "web"], 1)
    bench.shows(bench.size)
    bench.turn()
    assert bench.told == [], "it is no change of another"


def test_the_probe_of_another_instance_gets_a_status_and_the_own_one_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, own=False)
    for change in _with_behavior():
        if isinstance(change.thing, HpaObject):
            for namespace in ("shop", "ours"):
                hpa = replace(change.thing.hpa, name=PROBE.rpartition("/")[2], namespace=namespace)
                hpa = replace(hpa, uid=namespace)
                item = replace(change.thing, namespace=namespace, name=hpa.name, hpa=hpa)
                key = (namespace, hpa.name)
                bench.decider.apply([Change(Kind.hpa, key, item, change.seen_ms)])
    bench.turns(4)
    assert set(bench.sink.keys) == {("shop", "web"), ("shop", "hpabatch-probe")}


@pytest.mark.parametrize("own", [True, False])
def test_while_the_clusters_hpas_cannot_be_followed_nothing_is_written(
    own: bool, tmp_path: Path
) -> None:
    """A switch on an HPA, its end or a lower maxReplicas would not be seen."""
    bench = Bench(tmp_path, own=own)
    bench.site.blind = "forbidden"
    bench.turns(4)
    assert bench.size == 2
    words = "the HPAs of the cluster cannot be followed: forbidden"
    assert bench.applier.problems() == {"rivals": words}
    bench.site.blind = ""
    bench.turn()
    assert bench.size == 4, "the probe was looked at meanwhile"


def test_an_hpa_that_cannot_be_decoded_is_not_scaled(tmp_path: Path) -> None:
    bench = Bench(tmp_path, own=False)
    bench.site.broken = {("shop", "web"): "no object"}
    bench.turns(4)
    assert bench.size == 2
    words = "its present state cannot be read, so it is not scaled: no object"
    assert bench.applier.problems() == {"shop/web": words}
    assert bench.sink.statuses == []


def test_times_are_stored_in_whole_seconds() -> None:
    condition = Condition("A", "True", "r", "m", "2026-01-01T00:00:01.25Z")
    hpa = HPA(status=HPAStatus(1, 1, "2026-01-01T00:00:02Z", None, (condition,)))
    status = as_stored_status(hpa).status
    assert status.last_scale_time == "2026-01-01T00:00:02Z"
    assert status.conditions[0].last_transition_time == "2026-01-01T00:00:01Z"
