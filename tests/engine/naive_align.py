"""The alignment once more, naively: rows as dicts, every instant looked up from scratch.

The twin of `hpabatch.engine`: it imports nothing of it. A history is a dict of table names to lists
of rows; times are whole ms, absent values None. `spec` of an `hpas` row is a v2 spec as a dict.
A `clock` is a dict of delay, max_age, period and phase (ms), and `recorded`: whether HPAs have
their recorded instants instead, or (`passes`) those of the passes of a live loop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]
Tables = dict[str, list[Row]]

# Every selector that the tests use, and what it means.
SELECTORS: dict[str, Callable[[Row], bool]] = {
    "app=web": lambda labels: labels.get("app") == "web",
    "app==web,tier!=db": lambda labels: labels.get("app") == "web" and labels.get("tier") != "db",
    "app in (api,web)": lambda labels: labels.get("app") in ("api", "web"),
    "app=api": lambda labels: labels.get("app") == "api",
    "!tier": lambda labels: "tier" not in labels,
}
BROKEN_SELECTORS = ("app=(", "app in web")
PLACE = ("cluster", "namespace")
SAMPLE_TABLES = ("pod_metrics", "pod_custom_metrics", "object_metrics", "external_metrics")
CUSTOM_WINDOW_MS = 60_000


def same(row: Row, other: Row, names: tuple[str, ...]) -> bool:
    return all(row[name] == other[name] for name in names)


def instants_of(tables: Tables, hpa: Row, clock: Row) -> list[int]:
    """Return when an HPA is synced: while samples become visible, on the grid or as recorded."""
    seen = [seen_from(row, clock["delay"]) for table in SAMPLE_TABLES for row in tables[table]]
    if clock.get("passes"):
        # (each once, though a table may hold it several times)
        own = {row["ts"] for row in tables["passes"] if row["cluster"] == hpa["cluster"]}
        if own:
            return sorted(own)
        seen += [row["ts"] for row in tables["passes"]]
    first, last = min(seen), max(seen)
    if clock["recorded"]:
        for table in ("metric_fetches", "hpa_status"):
            own = {row["ts"] for row in tables[table] if same(row, hpa, (*PLACE, "name"))}
            if own:
                return sorted(ms for ms in own if first <= ms <= last)
    before = first - first % clock["period"] + clock["phase"]
    return [ms for ms in range(before, last + 1, clock["period"]) if ms >= first]


def spec_in_force(tables: Tables, hpa: Row, now: int) -> Row | None:
    """Return the `hpas` row of an HPA (any of its rows names it) that is in force."""
    for row in tables["hpas"]:
        ended = row["valid_to"] is not None and now >= row["valid_to"]
        if same(row, hpa, (*PLACE, "name")) and row["valid_from"] <= now and not ended:
            return row
    return None


def scale_rows(tables: Tables, hpa: Row) -> list[Row]:
    """Return the rows of the scale of an HPA's target (its last spec's), in order of time."""
    rows = [row for row in tables["hpas"] if same(row, hpa, (*PLACE, "name"))]
    target = max(rows, key=lambda row: row["valid_from"])["spec"]["scaleTargetRef"]
    found = [
        row
        for row in tables["scales"]
        if same(row, hpa, PLACE)
        and row["target_kind"] == target["kind"]
        and row["target"] == target["name"]
    ]
    return sorted(found, key=lambda row: row["ts"])


def scale_read(rows: list[Row], now: int) -> Row | None:
    """Return the scale as read at `now`: a change at that very instant is not seen yet."""
    before = [row for row in rows if row["ts"] < now]
    if before:
        return before[-1]
    return rows[0] if rows and rows[0]["ts"] == now else None


def scale_error(scale: Row | None) -> str | None:
    """Return what kind of failure the reading of a scale is, None where it was read."""
    text = str((scale or {}).get("error") or "")
    if not text:
        return None
    kinds = {"unexpected GroupVersion string": "version", "no matches for kind": "kind"}
    return next((kind for begin, kind in kinds.items() if text.startswith(begin)), "get")


def is_cached(pod: Row, now: int) -> bool:
    return pod["created"] <= now and (pod["gone"] is None or now < pod["gone"])


def is_selected(scale: Row, pod: Row) -> bool:
    """Say whether a scale's selector matches a pod; without one its target's own pods count."""
    if scale["selector"] is None:
        return bool(pod["target"] == scale["target"])
    return SELECTORS[scale["selector"]](pod["labels"])


def selected_pods(tables: Tables, hpa: Row, scale: Row | None, now: int) -> list[Row]:
    """Return the cached pods that the scale's selector matches, in the order of the table's key."""
    if scale is None or scale["selector"] in ("", *BROKEN_SELECTORS):
        return []
    found = [
        pod
        for pod in tables["pods"]
        if same(pod, hpa, PLACE) and is_cached(pod, now) and is_selected(scale, pod)
    ]
    return sorted(
        found, key=lambda p: (p["target"] is not None, p["target"] or "", p["pod"], p["uid"])
    )


def pod_state(tables: Tables, pod: Row, now: int) -> Row:
    """Return what the cache shows of a pod's status."""
    states = [
        row
        for row in tables["pod_states"]
        if same(row, pod, ("cluster", "uid")) and row["ts"] <= now
    ]
    last = max(states, key=lambda row: row["ts"], default=None)
    started = pod["started"] is not None and pod["started"] <= now
    deletion = pod["deletion_requested"]
    return {
        "phase": last["phase"] if last else "Pending",
        "ready": last["ready"] if last else None,
        "transition": (last["last_transition"] or 0) if last else 0,
        "start": pod["started"] if started else None,
        "deleting": deletion is not None and deletion <= now,
    }


def seen_from(row: Row, delay: int) -> int:
    fetched: int | None = row["fetched_at"]
    return int(row["ts"]) + delay if fetched is None else fetched


def visible(samples: list[Row], now: int, max_age: int | None) -> Row | None:
    """Return the newest of the samples seen so far (`seen`), unless it is too old or withdrawn.

    `max_age` None: no sample ever is too old. `gone` ones say that there is none any more.
    """
    seen = [sample for sample in samples if sample["seen"] <= now]
    newest = max(seen, key=lambda sample: int(sample["ts"]), default=None)
    if newest is None or newest["gone"]:
        return None
    return newest if max_age is None or now - newest["ts"] <= max_age else None


def usage_items(tables: Tables, pod: Row, delay: int) -> list[Row]:
    """Return a pod's items as metrics.k8s.io lists them: one per time, with its containers."""
    items: dict[int, Row] = {}
    for row in tables["pod_metrics"]:
        if same(row, pod, ("cluster", "uid")):
            items.setdefault(row["ts"], {"ts": row["ts"], "rows": []})["rows"].append(row)
    for item in items.values():
        fetched = [row["fetched_at"] for row in item["rows"] if row["fetched_at"] is not None]
        item["seen"] = max(fetched) if fetched else item["ts"] + delay
        first = min(item["rows"], key=lambda row: str(row["container"]))
        item["window"] = first["window_ms"] or 0
        item["gone"] = all(
            row["cpu_milli"] is None and row["memory_bytes"] is None for row in item["rows"]
        )
    return list(items.values())


def usage_of(item: Row, resource: str, container: str) -> int | None:
    """Return the milli usage of a pod's item, of one container or all; None: it is dropped."""
    rows = [row for row in item["rows"] if container in ("", row["container"])]
    column, factor = {"cpu": ("cpu_milli", 1), "memory": ("memory_bytes", 1000)}[resource]
    if not rows or any(row[column] is None for row in rows):
        return None
    return sum(int(row[column]) * factor for row in rows)


def requests_in_force(tables: Tables, pod: Row, now: int) -> list[Row]:
    """Return the newest row of each container; before the first ones those count."""
    rows = [row for row in tables["pod_requests"] if same(row, pod, ("cluster", "uid"))]
    if not rows:
        return []
    at = max(now, min(row["valid_from"] for row in rows))
    newest: dict[tuple[Any, ...], Row] = {}
    for row in sorted(rows, key=lambda row: int(row["valid_from"])):
        if row["valid_from"] <= at:
            newest[row["kind"], row["index"], row["container"]] = row
    return sorted(newest.values(), key=lambda row: (row["kind"] != "app", row["index"]))


def request_of(rows: list[Row], resource: str, container: str) -> int | None:
    """Return a pod's request in milli, None where one is missing (no overhead, no init)."""
    column = f"{resource}_milli"
    level = [row for row in rows if row["kind"] == "pod"]
    parts = [row for row in rows if row["kind"] in ("app", "sidecar")]
    if (
        level
        and not container
        and any(level[0][c] is not None for c in ("cpu_milli", "memory_milli"))
    ):
        known = [row[column] for row in parts if row[column] is not None]
        own: int | None = level[0][column]
        return own if own is not None else (sum(known) if known else None)
    if container:
        parts = [row for row in parts if row["container"] == container][:1]
    if (container and not parts) or not rows or any(row[column] is None for row in parts):
        return None
    return sum(int(row[column]) for row in parts)


def print_selector(selector: Row | None) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted((selector or {}).get("matchLabels", {}).items()))


def pod_answers(tables: Tables, pods: list[Row], metric: Row, clock: Row) -> Row:
    """Return what a metric about pods shows: the answer, and per pod its sample and request."""
    kind = metric["type"]
    member = metric[kind[0].lower() + kind[1:]]
    container = member.get("container", "")
    samples: list[Any] = []
    requests: list[int | None] = []
    listed = False
    for pod in pods:
        if kind == "Pods":
            name, selector = member["metric"]["name"], member["metric"].get("selector")
            items = [
                row
                | {"seen": seen_from(row, clock["delay"]), "value": row["value_milli"]}
                | {"gone": row["value_milli"] is None}
                for row in tables["pod_custom_metrics"]
                if same(row, pod, ("cluster", "uid"))
                and row["metric"] == name
                and row["selector"] == print_selector(selector)
            ]
            for item in items:
                window = item["window_ms"]
                item["window"] = CUSTOM_WINDOW_MS if window is None else window
            requests.append(0)
        else:
            items = usage_items(tables, pod, clock["delay"])
            for item in items:
                item["value"] = usage_of(item, member["name"], container)
            rows = requests_in_force(tables, pod, clock["now"])
            requests.append(request_of(rows, member["name"], container))
        shown = visible(items, clock["now"], clock["max_age"])
        listed = listed or shown is not None
        present = shown is not None and shown["value"] is not None
        samples.append(
            (shown["value"], shown["ts"], shown["window"]) if shown and present else None
        )
    return {
        "answer": "ok" if listed else "empty",
        "samples": samples,
        "requests": requests,
        "values": [],
    }


def total_answers(tables: Tables, hpa: Row, metric: Row, clock: Row) -> Row:
    """Return what an Object or External metric shows: the values of its series."""
    if metric["type"] == "Object":
        member, table = metric["object"], "object_metrics"
        described = member["describedObject"]
        name = hpa["namespace"] if described["kind"] == "Namespace" else described["name"]
        wanted = {"kind": described["kind"], "name": name}
    else:
        member, table, wanted = metric["external"], "external_metrics", {}
    wanted["metric"] = member["metric"]["name"]
    wanted["selector"] = print_selector(member["metric"].get("selector"))
    series: dict[str, list[Row]] = {}
    for row in tables[table]:
        if same(row, hpa, PLACE) and all(row[k] == v for k, v in wanted.items()):
            row = row | {"seen": seen_from(row, clock["delay"])}
            row["gone"] = row["value_milli"] is None
            series.setdefault(row.get("series", ""), []).append(row)
    shown = [visible(series[k], clock["now"], clock["max_age"]) for k in sorted(series)]
    values = [row["value_milli"] for row in shown if row is not None]
    return {
        "answer": "ok" if values else "empty",
        "samples": None,
        "requests": None,
        "values": values,
    }


def answer_of(tables: Tables, hpa: Row, metric: int, now: int) -> str | None:
    """Return the newest recorded answer of a metrics API, None without one."""
    rows = [
        row
        for row in tables["metric_fetches"]
        if same(row, hpa, (*PLACE, "name")) and row["metric_index"] == metric and row["ts"] <= now
    ]
    newest = max(rows, key=lambda row: int(row["ts"]), default=None)
    return None if newest is None else str(newest["answer"])


def reached_scale(tables: Tables, hpa: Row, now: int) -> Row | None:
    """Return the scale of an HPA whose sync at `now` comes to its pods, else None."""
    row = spec_in_force(tables, hpa, now)
    scale = scale_read(scale_rows(tables, hpa), now)
    if row is None or scale is None or scale["selector"] in ("", *BROKEN_SELECTORS):
        return None
    if scale.get("error"):
        return None
    size, spec = scale["spec_replicas"], row["spec"]
    return scale if size and spec["minReplicas"] <= size <= spec["maxReplicas"] else None


def registered_scale(tables: Tables, hpa: Row, clock: Row, before: tuple[int, str]) -> Row | None:
    """Return the scale with whose selector an HPA is known at (instant, name of who asks).

    It is known from its own syncs on, those of lesser names first; an HPA that goes and a
    controller that starts are forgotten at once.
    """
    now, _ = before
    syncs = instants_of(tables, hpa, clock)
    lost = starts_of(tables, hpa, clock)
    rows = [row for row in tables["hpas"] if same(row, hpa, (*PLACE, "name"))]
    for row in rows:
        end = row["valid_to"]
        if end is not None and _is_forgotten(row, rows, syncs, _has_passes(tables, hpa, clock)):
            lost.append(end)
    events = [(ms, "", False) for ms in lost if ms <= now]
    events += [(ms, hpa["name"], True) for ms in syncs if (ms, hpa["name"]) < before]
    known = None
    for ms, _, is_sync in sorted(events):
        known = (reached_scale(tables, hpa, ms) or known) if is_sync else None
    return known


def _is_forgotten(row: Row, rows: list[Row], syncs: list[int], at_passes: bool) -> bool:
    """Say whether an HPA is gone at the end of one of its rows.

    At passes it is only if one of them missed it, or another object has its name.
    """
    end = row["valid_to"]
    later = sorted((r for r in rows if r["valid_from"] >= end), key=lambda r: r["valid_from"])
    if not at_passes or not later:
        return not later or later[0]["valid_from"] > end
    after = later[0]
    return after["uid"] != row["uid"] or any(end <= ms < after["valid_from"] for ms in syncs)


def is_ambiguous(tables: Tables, hpa: Row, pods: list[Row], now: int, clock: Row) -> bool:
    """Say whether another HPA's known selector matches one of these pods."""
    if reached_scale(tables, hpa, now) is None:
        return False
    names = {r["name"] for r in tables["hpas"] if same(r, hpa, PLACE)} - {hpa["name"]}
    for name in sorted(names):
        other = {"cluster": hpa["cluster"], "namespace": hpa["namespace"], "name": name}
        scale = registered_scale(tables, other, clock, (now, hpa["name"]))
        if scale is not None and any(is_selected(scale, pod) for pod in pods):
            return True
    return False


def starts_of(tables: Tables, hpa: Row, clock: Row) -> list[int]:
    """Return when whoever decides began with empty memory: the controller, or a live loop."""
    mine = [row for row in tables["passes"] if row["cluster"] == hpa["cluster"]]
    if clock.get("passes") and mine:
        return [row["ts"] for row in mine if row["start"]]
    return [
        row["ts"]
        for row in tables["controller"]
        if row["event"] == "start" and row["cluster"] == hpa["cluster"]
    ]


def restarted_at(tables: Tables, hpa: Row, now: int, clock: Row) -> int:
    """Return when the controller lost its memory last since the HPA's last sync, 0 if it did not.

    A sync that found the HPA gone is over at the one that finds it again.
    """
    ticks = instants_of(tables, hpa, clock)
    before = [tick for tick in ticks if tick < now]
    synced = [tick for tick in before if spec_in_force(tables, hpa, tick)]
    since = synced[-1] if synced else -1
    starts = starts_of(tables, hpa, clock)
    if synced and synced[-1] != before[-1]:
        return now
    return max((max(start, 1) for start in starts if since < start <= now), default=0)


def observe(tables: Tables, hpa: Row, now: int, clock: Row) -> Row | None:
    """Return what the controller sees of an HPA at `now`, None where it does not exist."""
    row = spec_in_force(tables, hpa, now)
    if row is None:
        return None
    scale = scale_read(scale_rows(tables, hpa), now)
    pods = selected_pods(tables, hpa, scale, now)
    metrics = []
    for m, metric in enumerate(row["spec"]["metrics"]):
        if metric["type"] in ("Object", "External"):
            shown = total_answers(tables, hpa, metric, clock | {"now": now})
        else:
            shown = pod_answers(tables, pods, metric, clock | {"now": now})
        answer = answer_of(tables, hpa, m, now)
        if answer in ("empty", "error"):
            shown["answer"] = answer
        metrics.append(shown)
    selector = "ok"
    if scale is not None and scale["selector"] == "":
        selector = "missing"
    elif scale is not None and scale["selector"] in BROKEN_SELECTORS:
        selector = "invalid"
    elif is_ambiguous(tables, hpa, pods, now, clock):
        selector = "ambiguous"
    return {
        "now": now,
        "max_replicas": row["spec"]["maxReplicas"],
        "scale": scale and (scale["spec_replicas"], scale["status_replicas"]),
        "scale_error": scale_error(scale),
        "selector": selector,
        "restart": restarted_at(tables, hpa, now, clock),
        "pods": [pod_state(tables, pod, now) for pod in pods],
        "metrics": metrics,
    }


def size_changes(tables: Tables, hpa: Row) -> list[tuple[int, int, int]]:
    """Return (ms, before, after) of the recorded changes of the target's size.

    Before the scale was read for the first time there was no size that could change.
    """
    rows = list(itertools.dropwhile(lambda row: bool(row.get("error")), scale_rows(tables, hpa)))
    pairs = itertools.pairwise(rows)
    return [
        (b["ts"], a["spec_replicas"], b["spec_replicas"])
        for a, b in pairs
        if a["spec_replicas"] != b["spec_replicas"]
    ]


def known_changes(
    tables: Tables, hpa: Row, ticks: list[Row], clock: Row
) -> list[tuple[int, int, int]]:
    """Return the changes that whoever decides at some ticks may know of.

    Nobody knows of one from before the first tick, nor a live loop of one from before a pass at
    which it remembers nothing of the HPA. A size that a loop could not read when it began is no
    change when it can be read.
    """
    found = []
    for change in size_changes(tables, hpa):
        if change[0] in _found_late(tables, hpa, clock):
            continue
        later = [tick for tick in ticks if tick["now"] > change[0]]
        lost = bool(later) and later[0]["restart"] and _has_passes(tables, hpa, clock)
        if change[0] >= ticks[0]["now"] and not lost:
            found.append(change)
    return found


def _found_late(tables: Tables, hpa: Row, clock: Row) -> set[int]:
    """Return when sizes were read for the first time by loops that could not at the beginning."""
    if not _has_passes(tables, hpa, clock):
        return set()
    rows, found = scale_rows(tables, hpa), set()
    passes = sorted(row["ts"] for row in tables["passes"] if row["cluster"] == hpa["cluster"])
    for start in starts_of(tables, hpa, clock):
        before = [row for row in rows if row["ts"] < start]
        if before and scale_error(before[-1]):
            seen = max((ts for ts in passes if ts < start), default=-1)
            read = [row["ts"] for row in rows if row["ts"] > seen and not scale_error(row)]
            found |= set(read[:1])
    return found


def _has_passes(tables: Tables, hpa: Row, clock: Row) -> bool:
    own = any(row["cluster"] == hpa["cluster"] for row in tables["passes"])
    return bool(clock.get("passes")) and own
