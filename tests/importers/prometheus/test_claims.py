"""Windows of an import: which there are, and those onto rows of other imports."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpabatch.errors import RefusedError, UsageError
from hpabatch.history.reader import open_history
from hpabatch.history.store.append import open_writer
from hpabatch.history.store.replace import BEGIN
from hpabatch.importers.common.claims import (
    DONE,
    begun_ends,
    coverage,
    import_name,
    while_unreplaced,
    windows_at_work,
)
from hpabatch.importers.common.work import Sink
from hpabatch.importers.prometheus.reading.window import (
    DAY_MS,
    Window,
    WindowImport,
    has_begun,
    windows,
)
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.run import claim_windows
from hpabatch.importers.prometheus.site import Site
from tests.history.frames import frame
from tests.importers.tables import BEGIN_S, POD_MAP, import_table, write_csv, write_map

CLUSTER = "default"
BEGIN_MS = BEGIN_S * 1000
HOUR_MS = 3_600_000
REQUEST = PrometheusRequest(url="http://x:9090", start="-1d", out="history")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store with an hour of two workloads, and a status in it."""
    rows = [
        f"{BEGIN_S + 60 * k},{app},{app}-1,0.1,1000" for k in range(60) for app in ("web", "db")
    ]
    text = "\n".join(["ts,app,pod,cpu,mem", *rows, ""])
    import_table([write_csv(tmp_path, text)], write_map(tmp_path, POD_MAP), tmp_path / "history")
    status = frame("hpa_status").head(1).with_columns(
        cluster=pl.lit(CLUSTER),
        namespace=pl.lit("shop"),
        ts=pl.lit(BEGIN_MS + 60_000).cast(pl.Datetime("ms", "UTC")),
    )  # fmt: skip
    with open_writer(tmp_path / "history").part("status") as part:
        part.add("hpa_status", status)
    return tmp_path / "history"


def claim(store: Path, begin: int, end: int, request: PrometheusRequest = REQUEST) -> Sink:
    """Claim hours; return where their rows go."""
    sink = Sink(open_writer(store))
    span = BEGIN_MS + begin * HOUR_MS - 1000, BEGIN_MS + end * HOUR_MS - 1000
    claim_windows(sink, request, CLUSTER, windows(*span, 300_000, ()))
    return sink


def test_another_time_or_other_namespaces_are_free(store: Path) -> None:
    claim(store, 1, 30)
    claim(store, 0, 1, replace(REQUEST, namespace=("other",)))
    assert open_history(store).read("pod_metrics").height == 120


def test_rows_of_others_are_refused_or_replaced(store: Path) -> None:
    number = open_writer(store).snapshot.number
    with pytest.raises(RefusedError, match=r"120 samples of shop/db, shop/web from .* --replace"):
        claim(store, 0, 2)
    assert open_writer(store).snapshot.number == number
    claim(store, 0, 2, replace(REQUEST, replace=True))
    history = open_history(store)
    for table in ("pod_metrics", "pods", "hpa_status"):
        assert history.read(table, optional=True).is_empty(), table
    assert history.read("provenance").filter(pl.col("method") == "rows").is_empty()
    # It goes on with its own rows, whatever it is told of others.
    with open_writer(store).part("prometheus/rows") as part:
        part.add("pod_metrics", frame("pod_metrics").with_columns(cluster=pl.lit(CLUSTER)))
    number = open_writer(store).snapshot.number
    claim(store, 0, 2)
    assert open_writer(store).snapshot.number == number


def test_an_import_of_other_options_at_work_is_seen(store: Path) -> None:
    other = replace(REQUEST, all_workloads=True)
    sink = claim(store, 2, 4, other)
    with pytest.raises(RefusedError, match="an import of all workloads"):
        claim(store, 3, 5)
    first = windows(BEGIN_MS + 2 * HOUR_MS - 1000, BEGIN_MS + 4 * HOUR_MS - 1000, 1, ())[0]
    with sink.part(f"{first.name(other.source(), CLUSTER)}/{DONE}"):
        pass
    claim(store, 3, 5)


TABLE_REST = "ts,app,pod,cpu,mem\n" + "".join(
    f"{BEGIN_S + 60 * k},new,new-1,0.1,1000\n" for k in range(200)
)


def first_window(begin: int, end: int) -> Window:
    """Return the first of the windows that `claim` claims of these hours."""
    span = BEGIN_MS + begin * HOUR_MS - 1000, BEGIN_MS + end * HOUR_MS - 1000
    return windows(*span, 300_000, ())[0]


def test_a_table_that_replaces_windows_at_work_stops_them(tmp_path: Path) -> None:
    out = tmp_path / "store"
    sink = claim(out, 0, 40)
    source = write_csv(tmp_path, TABLE_REST), write_map(tmp_path, POD_MAP)
    with pytest.raises(RefusedError, match="an import of all workloads from"):
        import_table([source[0]], source[1], out)
    import_table([source[0]], source[1], out, replace=True)
    site = Site({}, frozenset(), {}, (CLUSTER,))
    first = first_window(0, 40)
    place = WindowImport(REQUEST, None, site, CLUSTER, None, sink, first)  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="took the place"), place.write(DONE):
        pass
    # The days after the table's go on; the first one is begun again, and refused like any other.
    second = windows(first.span.until_ms, first.span.until_ms + HOUR_MS, 300_000, ())[0]
    with replace(place, window=second).write(DONE):
        pass
    name = first.name(REQUEST.source(), CLUSTER)
    assert import_name(name, open_writer(out)) == f"{name}-2"
    again = replace(first, again="-2")
    with pytest.raises(RefusedError, match=r"samples of shop/new .* --replace"):
        claim_windows(Sink(open_writer(out)), REQUEST, CLUSTER, [again])
    fresh = Sink(open_writer(out))
    claim_windows(fresh, replace(REQUEST, replace=True), CLUSTER, [again])
    with replace(place, sink=fresh, window=again).write(DONE):
        pass
    assert open_history(out).read("pod_metrics", optional=True).is_empty()
    assert coverage(open_writer(out).snapshot.parts, REQUEST.source(), CLUSTER) == [
        (first.span.after_ms, first.span.until_ms),
        (first.span.until_ms, first.span.until_ms + HOUR_MS),
    ]  # fmt: skip


def test_every_window_of_a_run_is_claimed(tmp_path: Path) -> None:
    claim(tmp_path / "store", 0, 60)
    with pytest.raises(RefusedError, match="an import of all workloads"):
        claim(tmp_path / "store", 50, 51, replace(REQUEST, all_workloads=True))


def test_a_replacement_that_never_began_has_replaced_nothing(store: Path) -> None:
    """It was killed after its marks, before its claim."""
    (name,) = [part[: -len("/end")] for part in open_writer(store).snapshot.parts
               if part.endswith("/end")]  # fmt: skip
    with open_writer(store).part(f"{name}/replaced-by/table/other"):
        pass
    assert import_name(name, open_writer(store)) == name
    with Sink(open_writer(store)).part(f"{name}/more", while_unreplaced(name)):
        pass
    with open_writer(store).part("table/other/begin"):
        pass
    assert import_name(name, open_writer(store)) == f"{name}-2"


HOUR = 3_600_000
LOOKBACK = 300_000


@pytest.mark.parametrize(("done_to", "at_work"), [(None, 1), (5, 1), (8, 0)])
def test_a_window_that_another_run_has_covered_is_not_at_work(
    done_to: int | None, at_work: int
) -> None:
    parts = {f"prometheus/me/main/0-{6 * HOUR}/begin"}
    if done_to is not None:
        parts |= {f"prometheus/me/main/0-{done_to * HOUR}/{name}" for name in ("begin", DONE)}
    assert windows_at_work(parts, "main", (HOUR, 2 * HOUR)).height == at_work


@given(st.integers(0, 10 * DAY_MS), st.integers(1, 5 * DAY_MS))
def test_windows_follow_one_another_and_end_at_days(start: int, length: int) -> None:
    found = windows(start, start + length, LOOKBACK, ())
    assert found[0].span.after_ms == start
    assert found[-1].span.until_ms == start + length
    assert [w.initial for w in found] == [True] + [False] * (len(found) - 1)
    for one, other in pairwise(found):
        assert one.span.until_ms == other.span.after_ms
        assert one.span.until_ms % DAY_MS == 0


@given(st.integers(0, 3 * DAY_MS), st.integers(1, 3 * DAY_MS), st.integers(1, 3 * DAY_MS))
def test_a_second_run_adds_what_is_missing(start: int, first: int, more: int) -> None:
    done = windows(start, start + first, LOOKBACK, ())
    covered = [(w.span.after_ms, w.span.until_ms) for w in done]
    rest = windows(start, start + first + more, LOOKBACK, covered)
    assert rest[0].span.after_ms == start + first
    assert not any(w.initial for w in rest)
    assert windows(start, start + first, LOOKBACK, covered) == []


def test_parts_tell_what_is_complete() -> None:
    request = PrometheusRequest(url="http://x:9090")
    source = request.source()
    first, second = windows(0, 2 * DAY_MS, LOOKBACK, ())
    names = [window.name(source, "a/b") for window in (first, second)]
    parts = {f"{names[0]}/{DONE}", f"{names[1]}/usage-0"}
    assert coverage(parts, source, "a/b") == [(0, DAY_MS)]
    assert coverage(parts, source, "a") == []
    assert has_begun(parts, source)
    assert not has_begun(parts, PrometheusRequest(url="http://x:9090", all_workloads=True).source())


def test_a_hole_is_refused() -> None:
    covered = [(0, DAY_MS)]
    with pytest.raises(UsageError, match="no holes"):
        windows(DAY_MS + HOUR, 2 * DAY_MS, LOOKBACK, covered)


def test_an_earlier_time_is_refused() -> None:
    with pytest.raises(UsageError, match="grows forward only"):
        windows(0, 3 * DAY_MS, LOOKBACK, [(DAY_MS, 2 * DAY_MS)])


def test_what_was_begun_is_continued_to_its_end_until_the_history_is_past_it() -> None:
    """Several windows may complete one that was begun."""
    begun = {f"prometheus/s/a/0-{10 * HOUR_MS}/{BEGIN}"}
    assert list(begun_ends(begun, "s")) == [10 * HOUR_MS]
    assert list(begun_ends(begun, "other")) == []
    half = {*begun, f"prometheus/s/a/0-{6 * HOUR_MS}/{DONE}"}
    assert list(begun_ends(half, "s")) == [10 * HOUR_MS]
    assert (
        list(begun_ends({*half, f"prometheus/s/a/{6 * HOUR_MS}-{10 * HOUR_MS}/{DONE}"}, "s")) == []
    )
