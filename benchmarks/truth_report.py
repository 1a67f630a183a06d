"""The rows of judged recommendations in numbers and words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

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

Row = dict[str, Any]


def summary_of(about: Mapping[str, Any], goal: Goal, rows: Sequence[Row]) -> dict[str, Any]:
    """Return what the rows come to, as numbers and words; `about` are the options of the run."""
    verdicts = Counter(row["verdict"] for row in rows)
    advised = [row for row in rows if row["verdict"] == ADVICE]
    reasons = Counter(short_reason(row["why"]) for row in rows if row["verdict"] == NO_ADVICE)
    tallies = {
        role: tally([case_from(row, role) for row in advised], goal)
        for role in ("advised", "random", "hindsight", "oracle")
    }
    shapes = sorted({row["shape"] for row in rows})
    return {
        "options": dict(about),
        "verdicts": {
            name: _share(Share(verdicts[name], len(rows))) for name in (ADVICE, KEEP, NO_ADVICE)
        },
        "no_advice_because": dict(reasons.most_common()),
        "by_confidence": {
            f"{verdict}, {confidence}": _share(Share(sum(row["right"] for row in of), len(of)))
            for confidence in ("high", "medium", "low")
            for verdict in (ADVICE, KEEP)
            if (of := [r for r in rows if (r["verdict"], r["confidence"]) == (verdict, confidence)])
        },
        "by_truth": {role: _words(found) for role, found in tallies.items()},
        "by_shape": {
            shape: {
                "hpas": sum(row["shape"] == shape for row in rows),
                **_words(
                    tally(
                        [case_from(r, "advised") for r in advised if r["shape"] == shape],
                        goal,
                    )
                ),
            }
            for shape in shapes
        },
        "not_better": [row for row in advised if not _is_better(row, goal)],
        "seconds_an_hpa": {
            name: round(sum(row["seconds"][name] for row in rows) / len(rows), 3)
            for name in (rows[0]["seconds"] if rows else ())
        },
    }


def case_from(row: Row, role: str) -> Case:
    """Return a row's judged case of a role."""

    def verdict(name: str) -> Verdict:
        return Verdict(tuple(row[name]["weeks"]), row[name]["cost"])

    return Case(verdict("today"), verdict(role))


def _is_better(row: Row, goal: Goal) -> bool:
    case = case_from(row, "advised")
    return case.other.beats(case.today, goal)


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
        "beats": _share(found.beats),
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
    lines += ["", f"{'of the advised':16s}{'better than today':34s}{'constraint held':34s}saving"]
    for role, found in summary["by_truth"].items():
        lines.append(f"{role:16s}{_told(found['beats']):34s}{_told(found['holds']):34s}"
                     f"{_saved(found)}")  # fmt: skip
    found = summary["by_truth"]["advised"]
    lines.append(f"{'today':16s}{'':34s}{_told(found['today_holds']):34s}")
    lines.append(f"today missed it, advised holds it: {_told(found['mended'])}")
    lines.append("")
    for shape, found in summary["by_shape"].items():
        lines.append(f"{shape:16s}{_told(found['beats']):34s}{_told(found['holds']):34s}"
                     f"{_saved(found)}")  # fmt: skip
    return "\n".join(lines)


def _told(share: Mapping[str, Any]) -> str:
    if not share["total"]:
        return "-"
    low, high = share["interval_pct"]
    return f"{share['pct']} % ({low}-{high}) {share['count']}/{share['total']}"


def _saved(found: Mapping[str, Any]) -> str:
    if found["median_saving_pct"] is None:
        return "-"
    return f"median {found['median_saving_pct']} %, all {found['total_saving_pct']} %"
