"""Ledger: what is kept, corrected and left out."""

from __future__ import annotations

import pytest

from hpabatch.cluster.connection.errors import Refused, Unreachable
from hpabatch.live.apply.ledger import Entry, Ledger, kept_ms
from hpabatch.live.passes.lanes import LaneKey
from hpabatch.model.objects.hpa import Behavior, HPASpec, ScalingPolicy, ScalingRules
from tests.live.apply.fake_writes import FakeClient
from tests.live.apply.test_scales import OpenFence

LEDGER = "/api/v1/namespaces/ours/configmaps/hpabatch-ledger"


def _kept(key: LaneKey) -> int:
    return 600_000


def test_the_ledger_survives_a_conflict() -> None:
    client = FakeClient()
    one, two = (Ledger(client, "ours", OpenFence()) for _ in range(2))
    assert one.read() == []
    old, new = Entry(0, "shop", "web", 2, 4), Entry(620_000, "shop", "web", 4, 6)
    assert one.add([old], _kept) == ""
    assert two.read() == [old]
    assert one.add([Entry(5, "shop", "cart", 1, 2)], _kept) == ""
    assert two.add([new], _kept) == "", "it is read again after a conflict"
    assert one.read() == [Entry(5, "shop", "cart", 1, 2), new]
    assert [entry.key for entry in one.read()] == [("shop", "cart"), ("shop", "web")]


def test_the_ledger_keeps_entries_as_long_as_a_policy_needs_them() -> None:
    policies = (ScalingPolicy("Pods", 1, 60), ScalingPolicy("Pods", 9, 900))
    spec = HPASpec(behavior=Behavior(ScalingRules(), ScalingRules(policies=policies)))
    assert [kept_ms(s) for s in (None, HPASpec(), spec)] == [1_800_000, 120_000, 900_000]


def test_the_ledger_loses_failed_entries_and_learns_the_times_of_others() -> None:
    client = FakeClient()
    ledger, other = (Ledger(client, "ours", OpenFence()) for _ in range(2))
    made, failed = Entry(5, "shop", "web", 2, 4), Entry(5, "shop", "cart", 1, 2)
    assert ledger.add([made, failed], _kept) == ""
    ledger.correct({made: made._replace(made_ms=905), failed: None})
    assert other.read() == [made, failed]
    assert other.add([Entry(6, "shop", "db", 1, 2)], _kept) == ""
    new = Entry(1000, "shop", "web", 4, 6)
    assert ledger.add([new], _kept) == "", "also after a conflict"
    assert other.read() == [made._replace(made_ms=905), Entry(6, "shop", "db", 1, 2), new]


def test_what_became_of_a_change_is_stored_without_waiting_for_the_next_one() -> None:
    client = FakeClient()
    ledger, other = (Ledger(client, "ours", OpenFence()) for _ in range(2))
    made = Entry(5, "shop", "web", 2, 4)
    assert ledger.add([made], _kept) == ""
    sent = len(client.sent)
    ledger.store(_kept)
    assert len(client.sent) == sent, "there is nothing to store"
    ledger.correct({made: made._replace(made_ms=905)})
    client.before = lambda method, path: Unreachable("gone")
    ledger.store(_kept)
    client.before = lambda method, path: None
    assert other.read() == [made]
    ledger.store(_kept)
    assert other.read() == ledger.known == [made._replace(made_ms=905)]


def test_the_ledger_fits_into_a_config_map() -> None:
    client = FakeClient()
    ledger = Ledger(client, "ours", OpenFence())
    names = [f"{k:0250}" for k in range(8_000)]
    assert ledger.add([Entry(1, "shop", name, 1, 2) for name in names], _kept) == ""
    assert len(client.objects[LEDGER]["data"]["changes"]) < 2**20 - 100_000
    read = Ledger(client, "ours", OpenFence()).read()
    assert [entry.name for entry in read] == names[-len(read) :]
    assert read == ledger.known


def test_small_differences_of_clocks_are_not_corrected() -> None:
    found = []
    for skew in (None, 1.5, -3.0):
        found.append(Ledger(FakeClient(), "ours", OpenFence(), lambda skew=skew: skew).skew_ms)  # type: ignore[misc]
    assert found == [0, 0, -3000]


@pytest.mark.parametrize(
    "text", ["", "x", "{}", "[1]", '[["a", "b"]]', '[[true, "a", "b", 1, 2, 0]]']
)
def test_what_is_no_entry_is_left_out(text: str) -> None:
    client = FakeClient()
    client.put(LEDGER, data={"changes": text})
    assert Ledger(client, "ours", OpenFence()).read() == []


def test_a_ledger_that_cannot_be_written_forbids_the_change() -> None:
    client, fence = FakeClient(), OpenFence()
    ledger = Ledger(client, "ours", fence)
    fence.text = "no lease"
    assert ledger.add([Entry(1, "shop", "web", 2, 4)], _kept) == "no lease"
    fence.text = ""
    client.before = lambda method, path: Refused("forbidden", 403)
    said = ledger.add([Entry(1, "shop", "web", 2, 4)], _kept)
    assert said == "the ledger (ConfigMap ours/hpabatch-ledger) cannot be written: forbidden"
