"""The rows of judged recommendations in numbers and words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from statistics import median
from typing import Any, Final

from benchmarks.truth_judge import (
    ADVICE,
    KEEP,
    NO_ADVICE,
    Case,
    Goal,
    Share,
    Tally,
    Verdict,
    tally,
)
from hpabatch.engine.advise.request import CONFIDENCES

Row = dict[str, Any]

_NEAR_POINTS: Final = 2.0
_OFF_POINTS: Final = 5.0
_MAX: Final = "max="
OTHER_EXPORTS: Final = {"full": "the full export", "totals": "totals of workloads"}
"""By which what came as CSV is asked, too, by the names of their answers in rows."""
_PARTS: Final = (("change", (ADVICE,)), ("keep", (KEEP,)))


def summary_of(about: Mapping[str, Any], goal: Goal, asked: Sequence[Row]) -> dict[str, Any]:
    """Return what the rows come to, as numbers and words; `about` are the options of the run.

    Rows that were not judged, as their specs were stated wrong, are counted by themselves.
    """
    rows = [row for row in asked if "today" in row]
    verdicts = Counter(row["verdict"] for row in rows)
    advised = [row for row in rows if row["verdict"] == ADVICE]
    reasons = Counter(short_reason(row["why"]) for row in rows if row["verdict"] == NO_ADVICE)
    tallies = {
        role: tally([case_from(row, role) for row in advised], goal)
        for role in ("advised", "random", "hindsight", "oracle")
    }
    return {
        "options": dict(about),
        "verdicts": {
            name: _share(Share(verdicts[name], len(rows))) for name in (ADVICE, KEEP, NO_ADVICE)
        },
        "no_advice_because": dict(reasons.most_common()),
        "by_confidence": _by_confidence(rows),
        "high_or_medium": _sure(rows),
        "saved_as_said": _as_said(advised),
        "raises_max": _share(_right([row for row in advised if _MAX in row["advised"]["setting"]])),
        "stated_wrong": _stated_wrong([row for row in asked if "today" not in row]),
        "round_trips": {
            name: _round_trip([row for row in rows if name in row], name) for name in OTHER_EXPORTS
        },
        "by_truth": {role: _words(found) for role, found in tallies.items()},
        "saving_of_all_pct": {role: _saving(rows, role) for role in tallies},
        "of_hindsight_pct": _ratio(advised),
        "by_way": _by("way", rows, advised, goal),
        "by_limit": _by("limit", rows, advised, goal),
        "by_kind": _by("kind", rows, advised, goal),
        "by_shape": _by("shape", rows, advised, goal),
        "not_right": [row for row in rows if row["right"] is False],
        "seconds_an_hpa": {
            name: round(sum(row["seconds"][name] for row in rows) / len(rows), 3)
            for name in (rows[0]["seconds"] if rows else ())
        },
    }


def _by_confidence(rows: Sequence[Row]) -> dict[str, Any]:
    """Return how many answers are right, by confidence, and by confidence and answer."""
    found = {}
    for confidence in CONFIDENCES:
        theirs = [row for row in rows if row["confidence"] == confidence]
        for name, verdicts in ((confidence, (ADVICE, KEEP)), *_PARTS):
            of = [row for row in theirs if row["verdict"] in verdicts]
            key = name if name == confidence else f"  {confidence}, {name}"
            found[key] = _share(_right(of))
    return found


def _right(rows: Sequence[Row]) -> Share:
    return Share(sum(row["right"] for row in rows), len(rows))


def _as_said(advised: Sequence[Row]) -> dict[str, Any]:
    """Return by confidence how many changes save about what is said of them."""
    of = {name: [row for row in advised if row["confidence"] == name] for name in CONFIDENCES}
    return {
        name: _share(
            Share(
                sum(_off(row, "advised", row["saved_pct"]) <= _OFF_POINTS for row in theirs),
                len(theirs),
            )
        )
        for name, theirs in of.items()
    }


def _off(row: Row, role: str, said: float | None) -> float:
    """Return by how many points a role's setting saves something else than is said of it."""
    true = 100 * (1 - row[role]["cost"] / row["today"]["cost"])
    return inf if said is None else abs(true - said)


def _sure(rows: Sequence[Row]) -> dict[str, Any]:
    return _share(Share(sum(row["confidence"] in CONFIDENCES[:2] for row in rows), len(rows)))


def _stated_wrong(rows: Sequence[Row]) -> dict[str, Any]:
    """Return what is said of HPAs whose stated specs are not the controller's."""
    counts = Counter(row["confidence"] or NO_ADVICE for row in rows)
    return {name: _share(Share(counts[name], len(rows))) for name in (*CONFIDENCES, NO_ADVICE)}


def _round_trip(rows: Sequence[Row], by: str) -> dict[str, Any]:
    """Return what is left of changes by another export where the same came as CSV.

    Only of changes of high or medium confidence; `apart_pct`: by how many points the savings on
    later weeks differ, HPA by HPA.
    """
    sure = [
        row
        for row in rows
        if row[by]["verdict"] == ADVICE and row[by]["confidence"] in CONFIDENCES[:2]
    ]
    apart = sorted(
        100 * abs(row[by]["cost"] - row["advised"]["cost"]) / row["today"]["cost"] for row in sure
    )
    same = sum(row["verdict"] == ADVICE for row in sure)
    near = sum(points <= _NEAR_POINTS for points in apart)
    return {
        "sure": _sure(sure),
        "changes": _share(Share(same, len(sure))),
        "near": _share(Share(near, len(sure))),
        "apart_median_pct": round(median(apart), 1) if apart else None,
        "misjudged": _share(Share(len(_misjudged(rows, by)), len(rows))),
        "saving_other_pct": _saving([{**row, "advised": row[by]} for row in sure], "advised"),
        "saving_pct": _saving(sure, "advised"),
    }


def _misjudged(rows: Sequence[Row], by: str) -> list[Row]:
    """Return those graded high by one export whose saving the other states wrong."""

    def sides(row: Row) -> tuple[tuple[str | None, float], ...]:
        other = row[by]
        return (
            (
                row["confidence"],
                _off(row, by, other["saved_pct"]) if other["verdict"] == ADVICE else 0.0,
            ),
            (
                other["confidence"],
                _off(row, "advised", row["saved_pct"]) if row["verdict"] == ADVICE else 0.0,
            ),
        )

    high = CONFIDENCES[0]
    return [
        row for row in rows if any(name == high and off > _OFF_POINTS for name, off in sides(row))
    ]


def _saving(rows: Sequence[Row], role: str) -> float | None:
    """Return what a role's settings save of today's cost."""
    before, after = (sum(row[name]["cost"] for row in rows) for name in ("today", role))
    return round(100 * (1 - after / before), 1) if before else None


def _ratio(advised: Sequence[Row]) -> float | None:
    """Return the saving of the changes as a share of hindsight's for the same HPAs."""
    ours, theirs = _saving(advised, "advised"), _saving(advised, "hindsight")
    return round(100 * ours / theirs, 1) if ours is not None and theirs else None


def _by(name: str, rows: Sequence[Row], advised: Sequence[Row], goal: Goal) -> dict[str, Any]:
    """Return the advised cases by what was drawn of their HPAs."""
    found = {}
    for value in sorted({row[name] for row in rows}):
        theirs = [case_from(row, "advised") for row in advised if row[name] == value]
        count = sum(row[name] == value for row in rows)
        sure = [r for r in rows if r[name] == value and r["confidence"] in CONFIDENCES[:2]]
        words = {
            "hpas": count,
            "advised": _share(Share(len(theirs), count)),
            "sure_right": _share(Share(sum(row["right"] for row in sure), len(sure))),
        }
        found[value] = words | _words(tally(theirs, goal))
    return found


def case_from(row: Row, role: str) -> Case:
    """Return a row's judged case of a role."""

    def verdict(name: str) -> Verdict:
        return Verdict(tuple(row[name]["weeks"]), row[name]["cost"])

    return Case(verdict("today"), verdict(role))


def short_reason(why: str) -> str:
    """Return the first reason of a text without its numbers and names, to be counted."""
    first = why.split(";")[0].strip()
    return re.sub(r"[-+]?\d[\d.,:TZ%-]*", "#", first)[:110] or "no reason given"


def _share(share: Share) -> dict[str, Any]:
    low, high = share.interval_pct
    return {
        "count": share.count,
        "total": share.total,
        "pct": None if share.pct is None else round(share.pct, 1),
        "interval_pct": [round(low, 1), round(high, 1)],
    }


def _words(found: Tally) -> dict[str, Any]:
    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 1)

    return {
        "right": _share(found.right),
        "harmless": _share(found.harmless),
        "holds": _share(found.holds),
        "holds_on_average": _share(found.holds_on_average),
        "today_holds": _share(found.today_holds),
        "mended": _share(found.mended),
        "median_saving_pct": rounded(found.median_saving_pct),
        "total_saving_pct": rounded(found.total_saving_pct),
    }


def table(summary: Mapping[str, Any]) -> str:
    """Return the summary for people."""
    o = summary["options"]
    lines = [
        f"seed {o['seed']}, {o['hpas']} HPAs; recorded {o['recorded_weeks']} weeks, judged on the "
        f"{o['judged_weeks']} after; sync {o['sync_ms'] // 1000} s, samples "
        f"{o['sample_ms'] // 1000} s, Kubernetes {o['k8s']}",
        f"goal: {o['goal']['measure']} < {o['goal']['most']:g} a week, then least "
        f"{o['goal']['cost']}; grid {' '.join(o['grids'])}",
        "",
    ]
    lines += [f"{name:10s} {_told(share)}" for name, share in summary["verdicts"].items()]
    lines += [f"  {n:4d}  {why}" for why, n in summary["no_advice_because"].items()]
    lines += ["", "right, by confidence"]
    lines += [f"{name:20s} {_told(share)}" for name, share in summary["by_confidence"].items()]
    lines += [f"high or medium: {_told(summary['high_or_medium'])}"]
    lines += [f"changes that raise maxReplicas: {_told(summary['raises_max'])}"]
    lines += ["", f"the saving is within {_OFF_POINTS:g} points of what is said"]
    lines += [f"{name:20s} {_told(share)}" for name, share in summary["saved_as_said"].items()]
    wrong = summary["stated_wrong"]
    lines += ["", "settings that are stated wrong"]
    lines += [f"{name:20s} {_told(share)}" for name, share in wrong.items()]
    for name, trip in summary["round_trips"].items():
        lines += _told_trip(name, trip)
    lines += ["", f"{'of the advised':16s}{'right':34s}{'constraint held':34s}saving"]
    for role, found in summary["by_truth"].items():
        lines.append(f"{role:16s}{_told(found['right']):34s}{_told(found['holds']):34s}"
                     f"{_saved(found)}")  # fmt: skip
    found = summary["by_truth"]["advised"]
    lines.append(f"{'today':16s}{'':34s}{_told(found['today_holds']):34s}")
    lines.append(f"today missed it, advised holds it: {_told(found['mended'])}")
    lines.append(f"right, or cheaper and in no week worse: {_told(found['harmless'])}")
    all_told = summary["saving_of_all_pct"].items()
    lines += [
        f"saving of the changes: {summary['of_hindsight_pct']} % of hindsight's",
        "saving over all HPAs: " + ", ".join(f"{role} {pct} %" for role, pct in all_told),
    ]
    lines += ["", f"{'':20s}{'high or medium, right':34s}"]
    for found in (summary["by_way"], summary["by_limit"], summary["by_kind"]):
        lines += [f"{name:20s}{_told(theirs['sure_right'])}" for name, theirs in found.items()]
    lines += ["", f"{'':20s}{'advised':29s}{'right':34s}{'constraint held':34s}saving"]
    for found in (summary[f"by_{name}"] for name in ("way", "limit", "kind", "shape")):
        lines += [_line(name, theirs) for name, theirs in found.items()]
    lines += ["", "right: better than today's by the goal, with the constraint held in every week"]
    return "\n".join(lines)


def _told_trip(by: str, trip: Mapping[str, Any]) -> list[str]:
    return [
        "",
        f"changes of high or medium confidence by {OTHER_EXPORTS[by]}, asked of one sample a pod "
        "and minute as CSV:",
        f"high or medium {_told(trip['sure'])}; a change {_told(trip['changes'])}",
        f"saving within {_NEAR_POINTS:g} points {_told(trip['near'])}; apart by "
        f"{trip['apart_median_pct']} points (median)",
        f"high by one export, and the other is wrong by more than {_OFF_POINTS:g} points: "
        f"{_told(trip['misjudged'])}",
        f"saving of all {trip['saving_pct']} %, by {OTHER_EXPORTS[by]} "
        f"{trip['saving_other_pct']} %",
    ]


def grades(summary: Mapping[str, Any]) -> list[str]:
    """Return how often answers of each confidence are right, as a Markdown table."""
    o, sure = summary["options"], summary["high_or_medium"]
    lines = ["| confidence | answers | right | changes | right | *keep* | right |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|"]
    for name in CONFIDENCES:
        cells = []
        for key in (name, *(f"  {name}, {part}" for part, _ in _PARTS)):
            found = summary["by_confidence"][key]
            low, high = found["interval_pct"]
            share = f"{found['pct']} % ({low} to {high})" if found["total"] else "-"
            cells += [str(found["total"]), share]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    told = f"{sure['pct']:.0f} % of the HPAs have an answer of high or medium confidence."
    return [*lines, "", f"Seed {o['seed']}, {o['hpas']} HPAs. {told}"]


def _line(name: str, found: Mapping[str, Any]) -> str:
    return (
        f"{name:20s}{_told(found['advised']):29s}{_told(found['right']):34s}"
        f"{_told(found['holds']):34s}{_saved(found)}"
    )


def _told(share: Mapping[str, Any]) -> str:
    if not share["total"]:
        return "-"
    low, high = share["interval_pct"]
    return f"{share['pct']} % ({low}-{high}) {share['count']}/{share['total']}"


def _saved(found: Mapping[str, Any]) -> str:
    if found["median_saving_pct"] is None:
        return "-"
    return f"median {found['median_saving_pct']} %, all {found['total_saving_pct']} %"
