"""The document of the page, `report.json`: everything that it shows, as JSON values.

Strings are printable; only `key` holds names as they are. `timelines` and `moments` are in the
order of `hpas`.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import polars as pl

from hpabatch.engine.advise.objective import saving_told
from hpabatch.engine.capacity.run import CapacityPlan
from hpabatch.engine.findings.catalogue import CATALOGUE, RECORDING
from hpabatch.engine.findings.ignores import Judged
from hpabatch.engine.findings.run import unjudged
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.run import ReplayNotes
from hpabatch.engine.replay.summary import FleetTotals, join_summaries, total
from hpabatch.model.printable import counted, printable, printable_line, printable_lines
from hpabatch.report.amounts import fleet_amounts
from hpabatch.report.base import Grid, View, label
from hpabatch.report.capacity import Plan
from hpabatch.report.numbers import share
from hpabatch.report.page.redact import Names
from hpabatch.report.page.series import MEANINGS, MOMENT
from hpabatch.report.pictures.data import length_text
from hpabatch.report.recommend import coarse_told
from hpabatch.report.replay import in_seconds, rules_line

KIND: Final = "hpabatch report"
FORMAT: Final = 1
Key = tuple[str, str, str]
WEEK_HOURS: Final = 168.0
_UNITS: Final = {"cost": "", "core_hours": "requested cores", "pod_hours": "replicas"}
_RANK: Final = {"high": 0, "medium": 1, "low": 2, None: 3}
_HPA: Final = (
    *("target_kind", "target", "min_replicas", "max_replicas", "metric", "applied_mean"),
    *("applied_replica_hours", "agreement_share", "reversals", "reversals_per_day"),
    *("at_min_share", "at_max_share", "invalid_share", "undecided_share", "hours", "error"),
    *("recorded_changes", "foreign_changes"),
)
_HELD: Final = (
    *("window_up_share", "window_down_share", "policy_up_share", "policy_down_share"),
    *("disabled_up_share", "disabled_down_share"),
)
_PLANNED: Final = 20
"""HPAs in the chart of a plan."""
_GAP: Final = 0.02
"""Share of the time without a decision from which on a gap is named."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a page is made of.

    Attributes:
        history: as the commands of the page name it; "": names are replaced, so there are none.
        command: what made the page.
        options: of `hpabatch explain`, so that it decides as the page does.
        notes: on the replay: HPAs left out, warnings, evidence.
        summary: one row per HPA.
        found, ignored: its findings, and those that annotations ignore.
        timelines, moments: by HPA (`series`); of moments also how many there are.
        fleet: the sum of the recorded sizes over time.
        advice: recommendations (`page.advice`).
        planned: a capacity plan.
    """

    history: str
    command: str
    options: str
    notes: ReplayNotes
    summary: pl.DataFrame
    found: pl.DataFrame
    ignored: pl.DataFrame
    timelines: Mapping[Key, Any]
    moments: Mapping[Key, tuple[list[Any], int]]
    fleet: Mapping[str, Any]
    advice: Sequence[dict[str, Any]] = ()
    planned: CapacityPlan | None = None


def redacted(given: Gathered, plan: ReplayPlan) -> Gathered:
    """Return what a replay of a plan gave, with other names."""
    names = Names(plan)
    summary = join_summaries([names.frame(given.summary)])
    place = MOMENT.index("metric")
    moments = {}
    for key, (rows, count) in given.moments.items():
        told = [[*row[:place], names.told(row[place]), *row[place + 1 :]] for row in rows]
        moments[names.key(key)] = told, count
    planned = given.planned and replace(
        given.planned,
        hpas=names.frame(given.planned.hpas),
        totals=names.frame(given.planned.totals),
    )
    return replace(
        given,
        history="",
        notes=names.notes(given.notes),
        summary=summary,
        found=names.findings(given.found, summary, plan),
        ignored=names.frame(given.ignored),
        timelines={names.key(key): timeline for key, timeline in given.timelines.items()},
        moments=moments,
        advice=[names.advice(item) for item in given.advice],
        planned=planned,
    )


def document_of(given: Gathered) -> dict[str, Any]:
    """Return the document."""
    totals = total(given.summary)
    rows = {_key(row): row for row in given.summary.iter_rows(named=True)}
    there = {*rows, *(s.key for s in given.notes.skipped)}
    many = len({cluster for cluster, *_ in there if cluster}) > 1

    def name(key: Sequence[str]) -> str:
        return printable(label(*key, with_cluster=many))

    parts = ("finding", "severity", "group", "score", "why", "fix", "evidence")
    findings = [
        {"hpa": name(_key(row)), "key": _key(row)} | {part: row[part] for part in parts}
        for row in given.found.iter_rows(named=True)
    ]
    known = [item for item in given.advice if tuple(item["key"]) in there]
    advice = [item | {"hpa": name(item["key"])} for item in known]
    if len(known) < len(given.advice):
        others = counted(len(given.advice) - len(known), "HPA")
        unknown = f"--advice is about {others} more, which are not in the replay: left out"
        notes = replace(given.notes, warnings=(*given.notes.warnings, unknown))
        given = replace(given, notes=notes)
    without = unjudged(given.summary, Judged(given.found, given.ignored))
    skipped = [*without, *(replace(s, reason=f"left out: {s.reason}") for s in given.notes.skipped)]
    lists = {
        "act": list(_once(_to_do(findings, advice))),
        "harm": list(_once(_harm(findings, advice, rows))),
        "ask": list(_once(_questions(findings, advice, skipped, name))),
    }
    told = {
        "kind": KIND,
        "format": FORMAT,
        "redacted": not given.history,
        "history": given.history or "a fleet",
        "command": given.command,
        "explain": f"hpabatch explain {shlex.quote(given.history)}" if given.history else None,
        "explain_options": given.options,
        "span": {"from": totals.first_ts, "to": totals.last_ts},
        "since": None,
        "verdict": _verdict(totals, findings, advice, lists),
        "amounts": list(_amounts(totals, advice, len(there))),
        "trust": list(_trust(totals, given.notes, advice)),
        "lists": lists,
        "findings": findings,
        "ignored": [{"key": _key(row), "finding": row["finding"]}
                    for row in given.ignored.iter_rows(named=True)],
        "hpas": [_hpa(row, name(key), advice, findings) for key, row in rows.items()],
        "fleet": given.fleet,
        "advice": advice,
        "plan": _tables(given.planned),
        "plan_sizes": list(_sizes(given.planned, name)),
        "provenance": _provenance(given, rows, name),
        "moment_fields": list(MOMENT),
        "rules": MEANINGS,
        "timelines": [given.timelines.get(key) for key in rows],
        "moments": [
            {"rows": some, "all": count}
            for some, count in (given.moments.get(key, ([], 0)) for key in rows)
        ],
    }  # fmt: skip
    return shown(told)  # type: ignore[no-any-return]


def _key(row: Mapping[str, Any]) -> Key:
    return row["cluster"], row["namespace"], row["hpa"]


def shown(value: Any, key: str = "") -> Any:
    """Return JSON values with printable strings; a patch keeps its lines, `key` its names."""
    match value:
        case str() if key == "patch":
            return printable_lines(value)
        case str():
            return printable_line(value)
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {k: shown(v, k) for k, v in value.items()}
        case list() | tuple() if key == "key":
            return list(value)
        case list() | tuple() if key not in ("values", "timelines"):
            return [shown(v) for v in value]
    return value


def _hpa(
    row: Mapping[str, Any], name: str, advice: Iterable[Any], findings: Iterable[Any]
) -> dict[str, Any]:
    key = _key(row)
    own = [item["severity"] for item in findings if item["key"] == key]
    answers = [item["answer"] for item in advice if tuple(item["key"]) == key]
    return {
        "hpa": name,
        "key": key,
        "namespace": row["namespace"],
        **{column: row[column] for column in _HPA},
        "held_share": sum(row[column] for column in _HELD),
        "findings": len(own),
        "severity": own[0] if own else None,
        "answer": answers[0] if answers else None,
    }


# ---- verdict -------------------------------------------------------------------------------------


def _verdict(
    totals: FleetTotals,
    findings: Sequence[Mapping[str, Any]],
    advice: Sequence[Mapping[str, Any]],
    lists: Mapping[str, Sequence[Any]],
) -> str:
    looked = len({item["key"] for item in findings if item["severity"] == "high"})
    if totals.undecided_share == 1:
        return f"none of {counted(totals.hpas, 'HPA')} could be judged"
    parts = [
        f"{counted(totals.hpas, 'HPA')} used {totals.applied_replica_hours:,.0f} replica-hours"
    ]
    if totals.first_ts and totals.last_ts:
        begin, end = (datetime.fromisoformat(t) for t in (totals.first_ts, totals.last_ts))
        parts[0] += f" in {length_text((end - begin).total_seconds() / 3600)}"
    if looked:
        have = "has a finding" if looked == 1 else "have findings"
        parts.append(f"{looked} {have} of high severity")
    elif not findings:
        parts.append("nothing stands out")
    changes = sum(item["answer"] == "change" for item in advice)
    if advice:
        parts.append(f"{changes} of {counted(len(advice), 'HPA')} should change")
    if harmed := len({tuple(item["key"]) for item in lists["harm"]}):
        parts.append(f"{harmed} {'are' if harmed > 1 else 'is'} harmed today")
    return "; ".join(parts)


def _amounts(
    totals: FleetTotals, advice: Sequence[Mapping[str, Any]], asked: int
) -> Iterator[dict[str, Any]]:
    """Yield what the fleet takes, and with all changes, as a range."""
    yield {"name": "replica-hours recorded", "now": totals.applied_replica_hours, "unit": ""}
    answers = [(item["answer"], item["amounts"]) for item in advice]
    currency = next((item["currency"] for item in advice if item["currency"]), "")
    for fleet in fleet_amounts(answers, asked):
        is_money = fleet.measure == "cost"
        yield {
            "name": "cost a month" if is_money else f"{_UNITS[fleet.measure]} on average",
            "now": fleet.now,
            "low": fleet.low,
            "high": fleet.high,
            "change": fleet.change,
            "unit": currency if is_money else "",
            "covers": fleet.covers,
        }


def _trust(
    totals: FleetTotals, notes: ReplayNotes, advice: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, str]]:
    """Yield how far each claim can be relied on: its grade, and what that rests on."""
    evidence, same = notes.evidence, totals.agreement_share
    if same is None:
        yield _claim("the rules decide as the controller did", "not known", "no size was decided")
    else:
        grade = "high" if same >= 0.99 else "medium" if same >= 0.9 else "low"
        shown = f"{min(same, 0.999) if same < 1 else 1:.1%}"
        why = f"{shown} of the decisions have the recorded size; {rules_line(evidence)}"
        yield _claim("the rules decide as the controller did", grade, why)
    gone = totals.undecided_share or 0.0
    grade = "high" if gone < 0.01 else "medium" if gone < 0.2 else "low"
    why = f"no decision was possible in {gone:.1%} of the ticks; "
    why += f"{counted(len(notes.skipped), 'HPA')} left out"
    yield _claim("what was recorded is complete", grade, why)
    if assumed := _assumptions(evidence):
        why = f"assumed or estimated: {', '.join(assumed)}"
        yield _claim("times of syncs and samples are right", "medium", why)
    if not advice:
        why = "nothing was simulated: add --advice with a folder of hpabatch advise"
        yield _claim("savings", "not known", why)
        return
    sure = [item["confidence"] for item in advice if item["answer"] == "change"]
    counts = ", ".join(f"{sure.count(c)} {c}" for c in ("high", "medium", "low") if c in sure)
    grade = "mixed" if len(set(sure)) > 1 else next(iter(sure), "not known")
    why = f"changes by confidence: {counts or 'none'}; simulated, and judged on blocks of time "
    trained = [
        n for item in advice if item["answer"] == "change" and (n := item["training_blocks"])
    ]
    few = " ".join(coarse_told(min(trained, default=None)))
    why += "that they were not chosen on" + (f". {few}" if few else "")
    yield _claim("savings", str(grade), why)


def _claim(claim: str, grade: str, why: str) -> dict[str, str]:
    return {"claim": claim, "grade": grade, "why": why}


# ---- lists ---------------------------------------------------------------------------------------


def _changes(advice: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the recommended changes: broken SLOs first, then the surest, then the largest."""

    def order(item: Mapping[str, Any]) -> tuple[Any, ...]:
        saved = (item["saving_pct"] or 0.0) * (item["today"].get(item["minimize"]) or 0.0)
        return not item["slo_broken"], _RANK[item["confidence"]], -saved, item["key"]

    for item in sorted((i for i in advice if i["answer"] == "change"), key=order):
        doubts = "; ".join(item["doubts"]) or "none is known"
        yield {
            "hpa": item["hpa"],
            "key": item["key"],
            "what": ", ".join(item["changes"]),
            "effect": _effect(item),
            "detail": f"risk: {doubts}",
            "grade": item["confidence"],
            "of": "confidence",
        }


def _effect(item: Mapping[str, Any]) -> str:
    """Return the saving as a range, or what ends a broken SLO costs."""
    ends = [e for e in (item["saving_low_pct"], item["saving_high_pct"]) if e is not None]
    if item["saving_pct"] is not None:
        ends.append(item["saving_pct"])
    if not ends:
        return "ends a broken SLO" if item["slo_broken"] else ""
    words = saving_told(ends, item["minimize"], is_lower_bound=item["is_held_at_max"])
    return f"ends a broken SLO, with {words}" if item["slo_broken"] else words


def _to_do(
    findings: Iterable[Mapping[str, Any]], advice: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return what stands still, then recommended changes, then what else is to be corrected.

    Findings of medium severity on an HPA come after its change, and so are under it; one of low
    severity is left out there.
    """
    changed = {tuple(item["key"]) for item in advice if item["answer"] == "change"}
    wrong = [item for item in findings if item["group"] == "act"]
    first = [_entry(item) for item in wrong if item["severity"] == "high"]
    last = [
        _entry(item)
        for item in wrong
        if item["severity"] == "medium"
        or (item["severity"] == "low" and item["key"] not in changed)
    ]
    return [*first, *_changes(advice), *last]


def _entry(item: Mapping[str, Any], effect: str = "") -> dict[str, Any]:
    return {
        "hpa": item["hpa"],
        "key": item["key"],
        "what": item["why"],
        "effect": effect,
        "detail": item["fix"],
        "grade": item["severity"],
        "of": "severity",
    }


def _once(entries: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield an entry per HPA, the first; what the others of it say is under it.

    Under a recommended change that is no other remedy.
    """
    found: dict[Key, dict[str, Any]] = {}
    for item in entries:
        first = found.setdefault(tuple(item["key"]), item)
        if first is item:
            continue
        has_remedy = first["of"] == "confidence" or item["detail"] in first["detail"]
        fix = "" if has_remedy else item["detail"]
        also = "; ".join(filter(None, (f"also: {item['what']}", item["effect"], fix)))
        first["detail"] = "; ".join(filter(None, (first["detail"], also)))
    yield from found.values()


def _harm(
    findings: Iterable[Mapping[str, Any]],
    advice: Sequence[Mapping[str, Any]],
    rows: Mapping[Key, Mapping[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Yield what does harm; where a change is recommended, that is the remedy, and no other."""
    changes = {
        tuple(item["key"]): ", ".join(item["changes"])
        for item in advice
        if item["answer"] == "change"
    }
    for item in findings:
        if item["group"] != "harm" or _is_of_spec(item):
            continue
        change = changes.get(item["key"])
        is_at_max = item["finding"] == "at_max"
        effect = held_at_max(rows[item["key"]], costs=change is None) if is_at_max else ""
        yield _entry(item, effect) | ({"detail": f"recommended: {change}"} if change else {})


def _is_of_spec(item: Mapping[str, Any]) -> bool:
    """Say whether the spec alone shows a finding: it may do harm, and nothing shows that it did."""
    return item["score"] is None and CATALOGUE[item["finding"]].source != RECORDING


def held_at_max(row: Mapping[str, Any], *, costs: bool = True) -> str:
    """Return for how long maxReplicas held an HPA, and what a larger one costs at most.

    By the week, unless less was recorded: a week is not told from hours.
    """
    span = min(row["hours"], WEEK_HOURS)
    per = " a week" if span == WEEK_HOURS else f" of {length_text(span)}"
    hours, needed = row["at_max_share"] * span, row["asked_at_max"]
    most = (needed - row["bound_max"]) * hours
    held = f"{hours:.1f} h{per} at the limit"
    more = f"maxReplicas {needed} costs at most {most:,.0f} replica-hours{per}"
    # (what is asked for by memory that pods do not share grows with them)
    known = costs and not (row.get("metric") or "").startswith("memory")
    return f"{held}; {more}, and is too few if a limit cut usage off" if known else held


def _questions(
    findings: Sequence[Mapping[str, Any]],
    advice: Iterable[Mapping[str, Any]],
    skipped: Iterable[Skipped],
    name: Any,
) -> Iterator[dict[str, Any]]:
    """Yield what is open, of findings first, and what could not be judged at all."""
    for item in findings:
        if item["group"] == "ask" or (item["group"] == "harm" and _is_of_spec(item)):
            yield _entry(item)
    for item in advice:
        if item["answer"] == "no advice":
            needs = "; ".join(item["surer"]) or "record more, or state what is not known"
            why = f"no advice: {'; '.join(item['reasons'])}"
            yield _open(item["hpa"], item["key"], why, needs)
    yield from (_open(name(s.key), s.key, s.reason, "") for s in skipped)


def _open(hpa: str, key: Sequence[str], what: str, detail: str) -> dict[str, Any]:
    parts = {"hpa": hpa, "key": key, "what": what, "effect": "", "detail": detail}
    return parts | {"grade": None, "of": ""}


# ---- plan ----------------------------------------------------------------------------------------


def _tables(planned: CapacityPlan | None) -> list[dict[str, Any]]:
    """Return the tables of a capacity plan, as strings."""
    if planned is None:
        return []
    grids = [part for part in Plan.of(planned).body(View()) if isinstance(part, Grid)]
    return [
        {
            "title": title,
            "heads": [head.name for head in grid.heads],
            "meanings": [head.meaning for head in grid.heads],
            "left": [head.left for head in grid.heads],
            "rows": [list(map(printable, row)) for row in grid.rows],
            "more": grid.more,
        }
        for title, grid in zip(("Sums", "HPAs"), grids, strict=False)
    ]


def _sizes(planned: CapacityPlan | None, name: Any) -> Iterator[dict[str, Any]]:
    """Yield sizes without maxReplicas beside it, at the least growth, of what it holds longest."""
    if planned is None:
        return
    least = planned.hpas.filter(pl.col("growth") == pl.col("growth").min())
    some = least.sort(
        "held_minutes", "cluster", "namespace", "hpa", descending=[True, *[False] * 3]
    )
    for row in some.head(_PLANNED).iter_rows(named=True):
        sizes = {part: row[f"desired_{part}"] for part in ("p50", "p95", "max")}
        yield {"hpa": name(_key(row)), "limit": row["max_replicas"], **sizes}


# ---- provenance ----------------------------------------------------------------------------------


def _assumptions(evidence: Mapping[str, str]) -> list[str]:
    return [
        f"{name.replace('_', ' ')} {in_seconds(value)}"
        for name, value in evidence.items()
        if value.endswith(("(assumed)", "(estimated)"))
    ]


def _provenance(
    given: Gathered, rows: Mapping[Key, Mapping[str, Any]], name: Any
) -> dict[str, Any]:
    gaps = [
        f"{name(key)}: no decision in {share(row['undecided_share'])} of its ticks"
        + (f" ({row['error']})" if row["error"] else "")
        for key, row in rows.items()
        if (row["undecided_share"] or 0.0) > _GAP
    ]
    return {
        "evidence": dict(given.notes.evidence),
        "warnings": list(given.notes.warnings),
        "gaps": gaps,
        "assumptions": _assumptions(given.notes.evidence),
    }
