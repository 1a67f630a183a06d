"""Windows onto rows of other imports: refused, or in their place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from hpabatch.errors import RefusedError
from hpabatch.history.reader import open_history
from hpabatch.history.store.append import open_writer
from hpabatch.importers.common.claims import DONE, Coverage, coverage, import_name, while_unreplaced
from hpabatch.importers.common.sink import Sink
from hpabatch.importers.prometheus.reading.window import Place
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.run import claim_windows
from hpabatch.importers.prometheus.site import Site
from hpabatch.importers.prometheus.windows import Window, windows
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
    claim_windows(sink, request, CLUSTER, windows(*span, 300_000, Coverage()))
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
    first = windows(BEGIN_MS + 2 * HOUR_MS - 1000, BEGIN_MS + 4 * HOUR_MS - 1000, 1, Coverage())[0]
    with sink.part(first.part(other.source(), CLUSTER, DONE)):
        pass
    claim(store, 3, 5)


TABLE_REST = "ts,app,pod,cpu,mem\n" + "".join(
    f"{BEGIN_S + 60 * k},new,new-1,0.1,1000\n" for k in range(200)
)


def first_window(begin: int, end: int) -> Window:
    """Return the first of the windows that `claim` claims of these hours."""
    span = BEGIN_MS + begin * HOUR_MS - 1000, BEGIN_MS + end * HOUR_MS - 1000
    return windows(*span, 300_000, Coverage())[0]


def test_a_table_that_replaces_windows_at_work_stops_them(tmp_path: Path) -> None:
    out = tmp_path / "store"
    sink = claim(out, 0, 40)
    source = write_csv(tmp_path, TABLE_REST), write_map(tmp_path, POD_MAP)
    with pytest.raises(RefusedError, match="an import of all workloads from"):
        import_table([source[0]], source[1], out)
    import_table([source[0]], source[1], out, replace=True)
    site = Site({}, frozenset(), {}, (CLUSTER,))
    place = Place(REQUEST, None, site, None, CLUSTER, None, sink)  # type: ignore[arg-type]
    first = first_window(0, 40)
    with pytest.raises(RefusedError, match="took the place"), place.write(first, DONE):
        pass
    # The days after the table's go on; the first one is begun again, and refused like any other.
    second = windows(first.span.until_ms, first.span.until_ms + HOUR_MS, 300_000, Coverage())[0]
    with place.write(second, DONE):
        pass
    name = first.name(REQUEST.source(), CLUSTER)
    assert import_name(name, open_writer(out)) == f"{name}-2"
    again = replace(first, again="-2")
    with pytest.raises(RefusedError, match=r"samples of shop/new .* --replace"):
        claim_windows(Sink(open_writer(out)), REQUEST, CLUSTER, [again])
    fresh = Sink(open_writer(out))
    claim_windows(fresh, replace(REQUEST, replace=True), CLUSTER, [again])
    with replace(place, sink=fresh).write(again, DONE):
        pass
    assert open_history(out).read("pod_metrics", optional=True).is_empty()
    assert coverage(open_writer(out).snapshot.parts, REQUEST.source(), CLUSTER).windows == (
        (first.span.after_ms, first.span.until_ms),
        (first.span.until_ms, first.span.until_ms + HOUR_MS),
    )  # fmt: skip


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
