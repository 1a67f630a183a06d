"""Scales of one kind and name in several groups: the readable one is recorded."""

from __future__ import annotations

import polars as pl

from hpabatch.cluster.objects.types import ScaleKey, ScaleObject
from hpabatch.layout import codes
from hpabatch.live.record.objects import NOT_THERE, Scales
from hpabatch.live.record.rows import Rows

GOOD = ScaleKey("apps", "Deployment", "shop", "web")
BAD = GOOD._replace(group="example.org")
SCALE = ScaleObject(GOOD, 3, 3, "app=web")
ERROR = ScaleObject(BAD, error="no matches", code=codes.SCALE_NO_RESOURCE)


def recorded(*changes: tuple[ScaleKey, ScaleObject | None, int]) -> list[tuple[int, str | None]]:
    rows = Rows("east")
    scales = Scales(rows)
    for key, scale, at_ms in changes:
        scales.put(key, scale, at_ms)
    found = dict(rows.segment.frames())["scales"].with_columns(pl.col("ts").to_physical())
    return list(found.select("ts", "error").iter_rows())


def test_an_hpa_whose_group_is_corrected() -> None:
    # Within a pass, scales without an HPA are taken away last.
    found = recorded((BAD, ERROR, 1), (GOOD, SCALE, 2), (BAD, None, 2))
    assert found == [(1, "no matches"), (2, None)]


def test_two_hpas_on_one_target_of_which_one_has_a_wrong_group() -> None:
    told = ((GOOD, SCALE, 1), (BAD, ERROR, 2), (GOOD, None, 3), (BAD, None, 4))
    assert recorded(*told) == [(1, None), (3, "no matches"), (4, NOT_THERE)]
