"""Prometheus import: the windows of each cluster, read, converted and committed in order.

The parts of a window are committed one after the other; the last of them completes it. The rows of
a window depend on the server, the files beside it, and what the store has of the window before, not
on how often a run was interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.history.store.append import StoreWriter, open_writer
from hpabatch.history.store.replace import SAMPLES, rows_in_the_way
from hpabatch.history.store.shards import StoreHistory
from hpabatch.importers.common.claims import (
    PREFIX,
    Look,
    begun_ends,
    claim,
    coverage,
    import_name,
    windows_at_work,
)
from hpabatch.importers.common.work import Sink, check_work, locked, work_folder
from hpabatch.importers.prometheus.client.http import Limits, Server
from hpabatch.importers.prometheus.client.login import Login, server_url
from hpabatch.importers.prometheus.reading.window import (
    Window,
    WindowImport,
    check_order,
    first_start,
    has_begun,
    windows,
)
from hpabatch.importers.prometheus.request import PrometheusRequest
from hpabatch.importers.prometheus.result import ImportResult
from hpabatch.importers.prometheus.site import Beside, look_at, read_beside
from hpabatch.model.progress import Progress
from hpabatch.model.times import show_instant

_NO_START = "expected --start, such as --start 2026-10-01, got none"


def import_prometheus(
    request: PrometheusRequest,
    login: Login,
    *,
    limits: Limits | None = None,
    progress: Progress = lambda message, share: None,
    say: Callable[[str], None] | None = None,
    now_ms: Callable[[], int] = lambda: round(time.time() * 1000),
) -> ImportResult:
    """Import from a server into a store.

    Args:
        request: what to import, and where to; a store is made where there is none.
        login: credentials for the server.
        limits: of requests to the server; None: as the request says.
        progress: gets a message and the share that is done.
        say: gets a sentence about every failed attempt.
        now_ms: the current time, for relative times and a request without an end.

    Raises:
        UsageError, HistoryError: the server or a file cannot be read, or the store not written.
        RefusedError: a file beside holds something that is not valid, or another import has rows
            of the same workloads and time.
    """
    request.check()
    out, work = request.out, request.work
    if out is None:
        raise UsageError(
            "--out: expected a store that gets the rows, got none; name a folder or URL"
        )
    if work is not None:
        check_work(work, out)
    limits = limits or Limits(
        concurrency=request.concurrency,
        timeout_s=request.timeout_ms / 1000,
        gzip=request.compress,
    )
    limits = replace(limits, most_samples=request.max_samples)
    request = replace(request, url=server_url(request.url))
    span = request.span_ms(now_ms())
    _check_time(request, span, now_ms())
    beside = read_beside(request)
    with Server(request.url, login, limits, tell=say) as server:
        progress("reading the server's series", 0.0)
        # A wrong address leaves nothing behind.
        server.build_info()
        name = f"prometheus-{request.source()}"
        store = open_writer(out, begin=False)
        folder = work_folder(out, name, work)
        with locked(folder, store):
            start_ms, end_ms = _time(request, span, store, now_ms())
            return _import(request, start_ms, end_ms, beside, store, server, progress)


_Span = tuple[int | None, int | None]


def _latest(request: PrometheusRequest, now_ms: int) -> int:
    """Return the last possible end: after it, samples may still come in."""
    return (now_ms - 2 * request.max_gap_ms) // 60_000 * 60_000


def _check_time(request: PrometheusRequest, span: _Span, now_ms: int) -> None:
    """Refuse an impossible time before the first request (UsageError)."""
    start, end = span
    if start is None and not request.resume:
        raise UsageError(_NO_START)
    if end is not None and end > _latest(request, now_ms):
        raise UsageError(
            f"--end {show_instant(end)} is too late: what was scraped after "
            f"{show_instant(_latest(request, now_ms))} may not all be there yet"
        )
    if start is not None and end is not None:
        check_order(start, end)


def _time(
    request: PrometheusRequest, span: _Span, store: StoreWriter, now_ms: int
) -> tuple[int, int]:
    """Return begin and end of the import (ms), by default those of the import that is continued.

    Raises:
        UsageError: they are neither given nor known, or an import was begun and --resume is
            missing.
    """
    parts, source = store.snapshot.parts, request.source()
    begun = has_begun(parts, source)
    if begun and not request.resume:
        raise UsageError(
            f"an import from {request.url} into {store.storage.location} was begun before: add "
            "--resume to continue it or to append to it, or use another --out"
        )
    if request.resume and not begun and any(part.startswith(f"{PREFIX}/") for part in parts):
        raise UsageError(
            f"the import into {store.storage.location} had other options: "
            "repeat those (--namespace, --cluster, --cluster-label, --all-workloads, "
            "--tenant), or leave out --resume"
        )
    start = first_start(parts, source) if span[0] is None else span[0]
    if start is None:
        raise UsageError(_NO_START)
    end = span[1]
    if end is None:
        end = max(begun_ends(parts, source), default=_latest(request, now_ms))
    check_order(start, end)
    return start, end


def _import(
    request: PrometheusRequest,
    start_ms: int,
    end_ms: int,
    beside: Beside,
    store: StoreWriter,
    server: Server,
    progress: Progress,
) -> ImportResult:
    began, sink = time.monotonic(), Sink(store)
    site = look_at(server, request, beside.queries, start_ms, end_ms)
    result = ImportResult(start_ms, end_ms, site)
    work: list[tuple[str, Window]] = []
    for cluster in site.clusters:
        covered = coverage(store.snapshot.parts, request.source(), cluster)
        result.earlier += len(covered)
        for window in windows(start_ms, end_ms, request.max_gap_ms, covered):
            base = window.name(request.source(), cluster)
            # A window has another name if another import took its place unfinished.
            again = import_name(base, store).removeprefix(base)
            work.append((cluster, replace(window, again=again)))
    for cluster in site.clusters:
        claim_windows(sink, request, cluster, [window for c, window in work if c == cluster])
    for number, (cluster, window) in enumerate(work):

        def tell(share: float, done: int = number, window: Window = window) -> None:
            rate = server.samples / max(time.monotonic() - began, 1e-3)
            day = show_instant(window.span.after_ms)[:10]
            message = f"{day}: {server.samples:,} samples, {rate:,.0f} samples/s"
            progress(message, (done + share) / len(work))

        WindowImport(request, beside, site, cluster, server, sink, window).run(result, tell)
        result.windows += 1
        server.retry_sizes()
    result.samples, result.halved = server.samples, server.halved
    result.notes.update(dict.fromkeys(beside.notes))
    result.findings.add(server.findings)
    result.figures = asdict(server.figures)
    return result


def claim_windows(
    sink: Sink, request: PrometheusRequest, cluster: str, work: Sequence[Window]
) -> None:
    """Claim the windows of a cluster that are still to be imported, in order.

    Raises:
        RefusedError: another import has rows of the same workloads and time, or is at work on
            that time; or they cannot be taken away alone.
        UsageError: the store cannot be written.
    """
    store, source = sink.store, request.source()
    if store is None:
        return
    parts = store.refresh().parts
    begun = {part.rpartition("/")[0] for part in parts}
    fresh = [window for window in work if window.name(source, cluster) not in begun]
    if not fresh:
        return

    def looking(span: tuple[int, int]) -> Look:
        def look(history: StoreHistory) -> tuple[pl.DataFrame, pl.DataFrame]:
            sizes = pl.concat([history.sizes(table) for table in SAMPLES])
            own = sizes.filter(pl.col("cluster") == cluster, pl.col("place").is_not_null())
            if request.namespaces:
                own = own.filter(pl.col("namespace").is_in(sorted(request.namespaces)))
            names = own.select("cluster", "namespace", pl.col("place").alias("target")).unique()
            first, last = (pl.lit(ms, pl.Int64()) for ms in span)
            spans = names.with_columns(first=first, last=last).sort("namespace", "target")
            others = windows_at_work(history.snapshot.parts, cluster, span, source)
            return spans, pl.concat([rows_in_the_way(history, spans), others])

        return look

    # The first claim is on all of the time: a pod of several days is taken away at once.
    last_ms = fresh[-1].span.until_ms
    for number, window in enumerate(fresh):
        until_ms = window.span.until_ms if number else last_ms
        look = looking((window.span.after_ms + 1, until_ms))
        name = window.name(source, cluster)
        claim(sink, name, look, request.replace, every_table=True)
