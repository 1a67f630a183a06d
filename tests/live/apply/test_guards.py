"""Guards of a pass: switch, limits, the log, rivals."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpabatch.cluster.connection.errors import Refused, Unreachable
from hpabatch.errors import UsageError
from hpabatch.live.apply import journal as journal_module
from hpabatch.live.apply.guards import (
    Change,
    Queue,
    Removals,
    lease_refusal,
    read_switch,
)
from hpabatch.live.apply.journal import Journal
from hpabatch.live.apply.lease import Candidate, Election, show_identity
from hpabatch.live.apply.ledger import Entry, Ledger
from hpabatch.live.apply.request import ApplyOptions
from hpabatch.live.apply.rivals import Probe, Silence, silence_s
from tests.effort import effort
from tests.live.apply.fake_writes import Clock, FakeClient
from tests.live.apply.test_scales import OpenFence

SWITCH = "/api/v1/namespaces/ours/configmaps/hpabatch-apply"
PROBE = "/apis/autoscaling/v2/namespaces/ours/horizontalpodautoscalers/hpabatch-probe"


@pytest.mark.parametrize(
    ("data", "stops"),
    [({}, False), ({"stop": "false"}, False), ({"stop": " No "}, False), ({"stop": ""}, False),
     ({"stop": "true"}, True), ({"stop": "yes"}, True), ({"stop": "fasle"}, True), (None, False)],
)  # fmt: skip
def test_the_switch(data: dict[str, str] | None, stops: bool) -> None:
    client = FakeClient()
    client.put(SWITCH, data=data)
    assert bool(read_switch(client, "ours")) is stops


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"data": {"Stop": "true"}}, "Stop"), ({"data": {"stop": "false", "stopp": "x"}}, "stopp"),
     ({"binaryData": {"stop": "dHJ1ZQ=="}}, "binaryData.stop"),
     ({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, "a, b, binaryData.c")],
)  # fmt: skip
def test_a_switch_with_anything_but_its_key_stops(
    fields: dict[str, dict[str, str]], named: str
) -> None:
    client = FakeClient()
    client.put(SWITCH, **fields)
    assert read_switch(client, "ours") == (
        "the kill switch is on: expected only the key stop in data of ConfigMap "
        f'ours/hpabatch-apply, got "{named}"; remove it'
    )


LONG = "x" * 900_000


@pytest.mark.parametrize("data", [{"stop": LONG}, {LONG: ""}])
def test_what_a_cluster_says_at_length_is_cut(data: dict[str, str]) -> None:
    client = FakeClient()
    client.put(SWITCH, data=data)
    refusal = read_switch(client, "ours")
    assert ("the kill switch is on" in refusal, len(refusal) < 300) == (True, True)
    assert len(show_identity(LONG)) < 200


def test_a_switch_that_cannot_be_read_stops_and_a_missing_one_says_how_to_make_it() -> None:
    client = FakeClient()
    assert "kubectl create configmap hpabatch-apply -n ours" in read_switch(client, "ours")
    for error in (Unreachable("gone"), Refused("forbidden", 403)):
        client.before = lambda method, path, error=error: error  # type: ignore[misc]
        assert "cannot be read" in read_switch(client, "ours")


class Fleet:
    """Targets whose sizes follow what queue, limits and ledger let through, a pass every 15 s.

    `made` has (ms, number, before, after) of all changes.
    """

    def __init__(self, limits: ApplyOptions, sizes: list[int], period_ms: int = 15_000) -> None:
        self.limits, self.sizes, self.period_ms = limits, sizes, period_ms
        self.client = FakeClient()
        self.now, self.waits = 0, dict[int, str]()
        self.lead()
        self.made: list[tuple[int, int, int, int]] = []

    def lead(self) -> None:
        """Let another instance go on."""
        self.queue = Queue(self.limits)
        self.ledger = Ledger(self.client, "ours", OpenFence(), clock=lambda: self.now / 1000)
        self.ledger.read()

    def turn(self, wanted: Sequence[int]) -> list[Change]:
        self.now += self.period_ms
        pairs = enumerate(zip(self.sizes, wanted, strict=True))
        changes = [Change(h, ("shop", f"w{h:02}"), a, b) for h, (a, b) in pairs if a != b]
        removals = Removals(self.limits, self.ledger.removed(self.now), sum(self.sizes))
        taken, self.waits = self.queue.admit(changes, removals)
        entries = [Entry(self.now, *c.key, c.before, c.after, self.now) for c in taken]
        assert self.ledger.add(entries, lambda key: 0) == ""
        for change in taken:
            self.sizes[change.h] = change.after
            self.made.append((self.now, change.h, change.before, change.after))
        return taken


def test_a_change_beyond_the_limit_says_so() -> None:
    fleet = Fleet(ApplyOptions(most_replicas=3), [2, 2])
    (part,) = fleet.turn([6, 6])
    limit = "--most-replicas 3: a pass changes no more"
    assert part[2:] == (2, 5, f"a part of 2 -> 6: {limit}")
    assert fleet.waits == {1: f"hpabatch: waits: {limit}"}


@pytest.mark.parametrize("step_ms", [-3_600_000, 3_600_000])
def test_steps_of_the_clock_leave_the_ten_minutes_as_long_as_they_are(step_ms: int) -> None:
    clock = Clock()
    began_s = clock.now
    ledger = Ledger(FakeClient(), "ours", OpenFence(), clock=clock)
    entry = Entry(0, "shop", "web", 10, 6, 0)
    assert ledger.add([entry], lambda key: 0) == ""
    for age_s in (0, 300, 599):
        clock.now = began_s + age_s
        assert ledger.removed(1000 * age_s + step_ms) == {("shop", "web"): 4}
        other = Entry(1000 * age_s + step_ms, "shop", "api", 2, 3, 0)
        assert ledger.add([other], lambda key: 0) == ""
    clock.now = began_s + 600
    assert ledger.removed(600_000 + step_ms) == {}


def test_of_a_fleet_that_reports_zeros_a_quarter_is_removed_in_ten_minutes() -> None:
    fleet = Fleet(ApplyOptions(most_replicas=5000), [100] * 100)
    left = []
    for _ in range(3):
        for _ in range(40):
            fleet.turn([0] * 100)
            assert fleet.queue.problem.endswith("(--most-removed 50, --most-removed-fleet 25)")
        left.append(sum(fleet.sizes))
        fleet.lead()
    assert left == [7500, 5625, 4218]
    more = "no more replicas are removed within ten minutes"
    assert set(fleet.waits.values()) == {
        f"hpabatch: waits: --most-removed 50: {more}",
        f"hpabatch: waits: --most-removed-fleet 25: of all targets {more}",
    }


@pytest.mark.parametrize(
    ("sizes", "wanted", "first"),
    [([3], [1], [1]), ([2], [1], [1]), ([1], [0], [0]), ([10], [0], [5]), ([100], [50], [50]),
     ([3, 3], [1, 1], [1, 3]), ([2, 100], [1, 1], [1, 51])],
)  # fmt: skip
def test_a_small_fleet_shrinks(sizes: list[int], wanted: list[int], first: list[int]) -> None:
    fleet = Fleet(ApplyOptions(), sizes)
    fleet.turn(wanted)
    assert fleet.sizes == first
    for _ in range(200):
        fleet.turn(wanted)
    assert fleet.sizes == wanted
    assert fleet.queue.problem == ""


@settings(max_examples=effort(40), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=6),
    st.builds(
        ApplyOptions, most_replicas=st.integers(1, 30),
        most_removed=st.integers(10, 100), most_removed_fleet=st.integers(10, 100),
    ),
    st.data(),
)  # fmt: skip
def test_no_limit_is_exceeded_and_what_is_wanted_is_written_in_the_end(
    pairs: list[tuple[int, int]], limits: ApplyOptions, data: st.DataObject
) -> None:
    fleet = Fleet(limits, [before for before, _ in pairs], 60_000)
    for _ in range(12):
        fleet.turn(
            data.draw(st.lists(st.integers(0, 40), min_size=len(pairs), max_size=len(pairs)))
        )
    wanted = [after for _, after in pairs]
    while fleet.sizes != wanted:
        before = list(fleet.sizes)
        for _ in range(11):
            fleet.turn(wanted)
        assert fleet.sizes != before, "nothing waits for longer than the window"
    _check(fleet, [before for before, _ in pairs])


def _check(fleet: Fleet, sizes: list[int]) -> None:
    """Check all changes of a fleet, by adding them up anew."""
    limits, passes = fleet.limits, sorted({ms for ms, *_ in fleet.made})
    for now in passes:
        made = [change[1:] for change in fleet.made if change[0] == now]
        assert sum(abs(after - before) for _, before, after in made) <= limits.most_replicas
        earlier = [0] * len(sizes)
        for ms, h, before, after in fleet.made:
            if now - 600_000 < ms < now:
                earlier[h] += max(before - after, 0)
        largest = max(size + gone for size, gone in zip(sizes, earlier, strict=True))
        fleet_most = max(
            limits.most_removed_fleet * (sum(sizes) + sum(earlier)),
            limits.most_removed * largest,
        )
        for h, before, after in made:
            if after < before:
                most = limits.most_removed * (before + earlier[h]) / 100
                assert before - after + earlier[h] < most + 1
        removed = sum(max(before - after, 0) for _, before, after in made)
        assert not removed or removed + sum(earlier) < fleet_most / 100 + 1
        for h, _, after in made:
            sizes[h] = after


def test_the_log_is_appended_to_and_each_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "state" / "log.jsonl"
    for count in (1, 2):
        journal = Journal(path, {"identity": f"p{count}", "cluster": "east"}, lambda: 1_500)
        assert (
            journal.add([{"event": "will", "to": 0, "error": "", "why": "a\u202eb"}] * count) == ""
        )
        lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["identity"] for line in lines] == ["p1", "p2", "p2"]
    assert lines[0]["ts"] == "1970-01-01T00:00:01.500Z"
    assert (lines[0]["to"], "error" in lines[0]) == (0, False)
    assert path.stat().st_mode & 0o077 == 0


def test_a_log_that_was_moved_is_begun_anew_and_half_a_line_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"event": "wi')
    journal = Journal(path, {})
    journal.add([{"event": "start"}])
    assert path.read_text().splitlines()[0] == '{"event": "wi'
    assert json.loads(path.read_text().splitlines()[1])["event"] == "start"
    path.rename(tmp_path / "log.1")
    assert journal.add([{"event": "will"}]) == ""
    assert '"will"' in path.read_text()
    assert '"will"' not in (tmp_path / "log.1").read_text()
    path.unlink()
    assert journal.add([{"event": "done"}]) == ""
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["event"] == "done"


def test_a_new_log_is_flushed_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def note(file: int) -> None:
        flushed.append(os.readlink(f"/proc/self/fd/{file}"))
        fsync(file)

    monkeypatch.setattr(os, "fsync", note)
    path = tmp_path / "log"
    journal = Journal(path, {})
    journal.add([{"event": "start"}])
    path.rename(tmp_path / "log.1")
    journal.add([{"event": "will"}])
    journal.add([{"event": "will"}])
    assert flushed == [str(p) for p in (*[tmp_path] * 2, path, tmp_path, path, path)]


def test_a_log_that_is_full_is_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "_MOST_BYTES", 4000)
    path = tmp_path / "log.jsonl"
    journal = Journal(path, {})
    for _ in range(150):
        assert journal.add([{"event": "will"}]) == ""
    assert {one.name for one in tmp_path.iterdir()} == {path.name, f"{path.name}.1"}
    assert sum(one.stat().st_size for one in tmp_path.iterdir()) < 9000
    older, newer = (one.read_text().splitlines() for one in (tmp_path / f"{path.name}.1", path))
    assert {json.loads(line)["event"] for line in older + newer} == {"will"}


def test_of_two_instances_one_moves_a_full_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other has seen it full, too, and must not move the new file over the old one."""
    monkeypatch.setattr(journal_module, "_MOST_BYTES", 1000)
    path, real = tmp_path / "log", fcntl.flock
    first, second = Journal(path, {}), Journal(path, {})
    path.write_text('{"event": "old"}\n' * 100)

    def overtaken(file: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        first.add([{"event": "will"}])
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", overtaken)
    second.add([{"event": "will"}])
    assert path.with_name("log.1").read_text().count("old") == 100
    assert path.read_text().count("will") == 2


def test_after_half_a_line_the_next_begins_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path / "log", {})
    write, left = os.write, [5]

    def fills(file: int, data: bytes) -> int:
        if not left:
            raise OSError(28, "No space left on device")
        return write(file, data[: left.pop()])

    monkeypatch.setattr(os, "write", fills)
    assert "No space left" in journal.add([{"event": "will"}])
    assert "No space left" in journal.problem
    monkeypatch.setattr(os, "write", write)
    assert journal.add([{"event": "done"}]) == journal.problem == ""
    half, whole = (tmp_path / "log").read_text().splitlines()
    assert (len(half), json.loads(whole)["event"]) == (5, "done")


def test_lines_about_what_was_done_are_kept_until_they_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once each, though the disk has room for some of them only."""
    journal, write, left = Journal(tmp_path / "log", {}), os.write, [0, 5, 500]

    def fills(file: int, data: bytes) -> int:
        room = left.pop()
        if not room:
            raise OSError(28, "No space left on device")
        return write(file, data[:room])

    monkeypatch.setattr(os, "write", fills)
    journal.record([{"event": "done", "id": k} for k in (1, 2, 3)])
    assert "No space left" in journal.problem
    monkeypatch.setattr(os, "write", write)
    assert journal.add([{"event": "will", "id": 4}]) == journal.problem == ""
    first, half, *rest = (tmp_path / "log").read_text().splitlines()
    assert [json.loads(line)["id"] for line in (first, *rest)] == [1, 2, 3, 4]
    assert len(half) == 5


def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--apply-log: .* cannot be opened for appending"):
        Journal(tmp_path, {})
    journal = Journal(Path("/dev/full"), {})
    assert (
        journal.add([{"event": "will"}]) == "/dev/full cannot be written: No space left on device"
    )


class Watcher:
    """A probe that is read every 15 s."""

    def __init__(self, wait_s: float = 165) -> None:
        self.client, self.clock = FakeClient(), Clock()
        self.silence = Silence(wait_s, 15, self.clock)
        self.probe = Probe(self.client, "v2", "ours", self.silence)

    def look(self, passes: int = 1, leads: bool = True, every_s: float = 15) -> str:
        for _ in range(passes):
            self.clock.sleep(every_s)
            unread = self.probe.look(leads)
        return unread or self.silence.refusal

    def fail(self, fails: bool = True) -> None:
        self.client.before = lambda method, path: Unreachable("gone") if fails else None


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.symlink_to(tmp_path / "other")
    with pytest.raises(UsageError) as caught:
        Journal(path, {})
    assert "cannot be opened for appending: Too many levels of symbolic links" in str(caught.value)
    path.unlink()
    journal = Journal(path, {})
    path.unlink()
    path.symlink_to(tmp_path / "other")
    assert "symbolic links" in journal.add([{"event": "will"}])
    assert not (tmp_path / "other").exists()


def test_the_probe_must_be_silent_for_the_whole_time() -> None:
    assert [silence_s(period) for period in (0.1, 15, 60)] == [165, 165, 300]
    one = Watcher()
    one.look(leads=False)
    assert PROBE not in one.client.objects, "only a leader makes it"
    one.look()
    one.clock.sleep(1000)
    assert "must stay without status for 165 s" in one.look()
    assert one.look(10)
    assert one.look(every_s=14.9)
    assert one.look(every_s=0.1) == ""


def test_after_a_long_outage_the_time_of_silence_begins_anew_and_after_a_short_one_not() -> None:
    one = Watcher()
    assert one.look(13) == ""
    one.fail()
    one.look(3)
    one.fail(False)
    assert one.look() == "", "four periods"
    one.fail()
    one.look(4)
    one.fail(False)
    assert one.look() != "", "a controller may have been started meanwhile"
    assert one.look(10) != ""
    assert one.look() == ""


@pytest.mark.parametrize(
    "status", [{"currentReplicas": 1}, {"conditions": [{"type": "AbleToScale"}]}]
)
def test_a_status_on_the_probe_begins_the_time_anew(status: dict[str, object]) -> None:
    one = Watcher()
    assert one.look(13) == ""
    one.client.put(PROBE, status=status)
    named = "another controller acts on HPAs: the probe HPA ours/hpabatch-probe has got"
    assert named in one.look()
    assert PROBE not in one.client.objects
    assert named in one.look(12), "its probe was made anew"
    assert one.look() == ""
    del one.client.objects[PROBE]
    assert "must stay without status" in one.look(), "that controller is gone"


def test_who_has_the_lease() -> None:
    election = Election(FakeClient(), Candidate("ours", "me"))
    assert lease_refusal(election) == "nobody has the lease"
    client, clock = FakeClient(), Clock()
    me, other = (Election(client, Candidate("ours", k), clock=clock) for k in ("me", "other"))
    for each in (other, me):
        each.turn()
    clock.sleep(15)
    for each in (other, me):
        each.turn()
    assert (me.leader, other.leader) == ("other", "other")
    assert lease_refusal(me) == "other has the lease"
    clock.sleep(15)
    assert lease_refusal(me) == "nobody has the lease", "it has not renewed it"
    me.turn()
    assert me.leader == "me"
    clock.sleep(15)
    assert lease_refusal(me).startswith("the lease of this process has expired")
