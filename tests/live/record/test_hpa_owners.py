"""Owners of HPAs in a recording: written when they change, and gone with their HPA."""

from __future__ import annotations

from hpabatch.cluster.objects.types import HpaObject
from hpabatch.live.record.hpa_rows import HpaRows
from hpabatch.live.record.segments import Segment
from hpabatch.model.objects.hpa import HPA

KEY = ("shop", "web")


def seen(owner: str, generation: int = 1) -> HpaObject:
    return HpaObject(*KEY, HPA("web", "shop", uid="u", owner=owner, generation=generation))


def owners(segment: Segment) -> list[tuple[int, str | None]]:
    frames = dict(segment.frames())
    if "hpa_context" not in frames:
        return []
    rows = frames["hpa_context"]
    assert rows["budgets"].null_count() == rows["spreads"].null_count() == rows.height
    times = rows["ts"].dt.timestamp("ms").to_list()
    return list(zip(times, rows["owner"].to_list(), strict=True))


def test_an_owner_is_written_when_it_changes() -> None:
    rows, segment = HpaRows(), Segment("east")
    rows.put(seen("ScaledObject/web"), 1, segment)
    rows.put(seen("ScaledObject/web", 2), 2, segment)
    rows.put(seen("Canary/web", 2), 3, segment)
    rows.put(seen("", 2), 4, segment)
    assert owners(segment) == [(1, "ScaledObject/web"), (3, "Canary/web"), (4, None)]


def test_an_hpa_without_an_owner_has_no_row() -> None:
    rows, segment = HpaRows(), Segment("east")
    rows.put(seen(""), 1, segment)
    rows.remove(KEY, 2, segment)
    rows.write_all(3, segment)
    assert owners(segment) == []


def test_an_owner_goes_with_its_hpa() -> None:
    rows, segment = HpaRows(), Segment("east")
    rows.put(seen("ScaledObject/web"), 1, segment)
    rows.remove(KEY, 2, segment)
    rows.put(seen(""), 3, segment)
    assert owners(segment) == [(1, "ScaledObject/web"), (2, None)]


def test_the_state_that_is_written_anew_has_the_owner() -> None:
    rows, segment, anew = HpaRows(), Segment("east"), Segment("east")
    rows.put(seen("ScaledObject/web"), 1, segment)
    rows.write_all(9, anew)
    assert owners(anew) == [(9, "ScaledObject/web")]
