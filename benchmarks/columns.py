"""Generated tables of the pages: result columns and bindings (docs/output.md), screen heads.

    python -m benchmarks.columns

A test compares the pages with what this module makes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from benchmarks.readme import replace_part
from hpabatch.engine.columns import (
    capacity,
    compare,
    fidelity,
    findings,
    gate,
    history,
    replay,
    simulate,
    sweep,
)
from hpabatch.engine.columns.column import Table
from hpabatch.engine.findings.catalogue import CATALOGUE
from hpabatch.layout.codes import BINDINGS
from hpabatch.report import (
    analyze,
    fit,
    recommend,
)
from hpabatch.report import capacity as plan
from hpabatch.report import compare as comparing
from hpabatch.report import fidelity as scores
from hpabatch.report import findings as finding
from hpabatch.report import gate as gating
from hpabatch.report import replay as replaying
from hpabatch.report import simulate as simulating
from hpabatch.report import sweep as sweeping
from hpabatch.report.base import HPA, Head

ROOT: Final = Path(__file__).resolve().parents[1]
TABLES: Final[dict[str, dict[str, Table]]] = {
    "Replays": {
        "Decisions": replay.DECISIONS,
        "Decisions with --why": replay.WHY,
        "Metrics of a decision": replay.METRICS,
        "Summary": replay.SUMMARY,
        "Most worth a look": replay.ATTENTION,
        "Controller score": replay.SCORE,
        "Findings": findings.FINDINGS,
        "Rescales of the score": replay.EVENTS,
    },
    "Comparisons": {"Differences": compare.DIFFERENCES, "Gate": gate.GATE},
    "Decisions one by one": {
        "Explanation": history.EXPLANATION,
        "Objects": history.GET,
        "Live loop": history.LIVE,
    },
    "Histories": {
        "Tables of a history": history.HISTORY_TABLES,
        "Check": history.CHECK,
        "Quality": history.QUALITY,
        "Problems": history.PROBLEMS,
        "Observations": history.OBSERVATIONS,
    },
    "Manifests": {"Validation": history.VALIDATION, "Analysis": history.ANALYSIS},
    "Simulations": {
        "Measures": simulate.MEASURES,
        "Trajectories": simulate.POINTS,
        "Facts of a fit": simulate.FIT_FACTS,
        "Fidelity": fidelity.FIDELITY_HPAS,
        "Signals of a fidelity score": fidelity.SIGNALS,
        "Changes of a fidelity score": fidelity.CHANGES,
    },
    "Sweeps and recommendations": {
        "Settings": sweep.SETTINGS,
        "HPAs of a sweep": sweep.SWEEP_HPAS,
        "Blocks": sweep.BLOCKS,
        "Sweep summary": sweep.SWEEP_SUMMARY,
        "Recommendations": sweep.ADVICE,
        "Candidates": sweep.CANDIDATES,
        "Walk-forward": sweep.FOLDS,
    },
    "Capacity plans": {"HPAs of a plan": capacity.PLAN_HPAS, "Sums": capacity.PLAN_TOTALS},
}
HEADS: Final[dict[str, tuple[Head, ...]]] = {
    "analyze": analyze.HEADS,
    "analyze `--hpa`": analyze.BAND_HEADS,
    "compare": (*comparing.HEADS, *comparing.LEFT_OUT_HEADS),
    "fidelity": scores.HEADS,
    "findings": finding.HEADS,
    "fit": fit.HEADS,
    "gate": (*gating.HEADS, *gating.EXCEEDED_HEADS, *gating.UNKNOWN_HEADS, *gating.FINDING_HEADS),
    "plan (sums)": plan.TOTAL_HEADS,
    "plan (HPAs)": plan.HPA_HEADS,
    "recommend": recommend.HEADS,
    "replay": replaying.HEADS,
    "replay `--score`": replaying.SCORE_HEADS,
    "simulate": simulating.HEADS,
    "sweep": sweeping.HEADS,
}
_LIVE: Final = {
    "CLUSTER": "the size that the cluster's own controller decides",
    "DESIRED": "the size that hpabatch decides",
    "WHY": "the reason of the decision",
}


def column_lines() -> list[str]:
    """Return the tables of all result columns."""
    lines: list[str] = []
    for group, tables in TABLES.items():
        lines += [f"## {group}", ""]
        for name, table in tables.items():
            lines += [f"### {name}", "", f"A row is {table.title}. From: {table.source}.", ""]
            lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
            lines += [f"| `{c.name}` | {c.type} | {c.unit} | {_cell(c.meaning)} |" for c in table]
            lines.append("")
    return lines[:-1]


def binding_lines() -> list[str]:
    """Return the table of the bindings."""
    rows = [f"| `{words.name}` | {words.sentence} |" for words in BINDINGS.values()]
    return ["| value | meaning |", "|---|---|", *rows]


def head_lines() -> list[str]:
    """Return the table of the heads on the screens; equal meanings stand once."""
    screens: dict[tuple[str, str], list[str]] = {}
    for screen, heads in HEADS.items():
        for head in heads:
            if head.name and head.meaning != HPA.meaning:
                screens.setdefault((head.name.strip(), head.meaning), []).append(screen)
    for name, meaning in _LIVE.items():
        screens.setdefault((name, meaning), []).append("live")
    rows = [
        f"| {name} | {', '.join(found)} | {_cell(meaning)} |"
        for (name, meaning), found in sorted(screens.items())
    ]
    return ["| column | screen | meaning |", "|---|---|---|", *rows]


def _cell(meaning: str) -> str:
    return meaning.replace("|", "\\|")


def output_page(text: str) -> str:
    """Return docs/output.md with its tables renewed."""
    return replace_part(replace_part(text, "columns", column_lines()), "bindings", binding_lines())


def glossary_page(text: str) -> str:
    """Return docs/glossary.md with the heads of the screens renewed."""
    return replace_part(text, "heads", head_lines())


def findings_page(text: str) -> str:
    """Return docs/findings.md with the catalogue renewed."""
    head = ["| finding | seen in | severity | group | what to do |", "|---|---|---|---|---|"]
    rows = [
        f'| <a id="{k.name}"></a>`{k.name}` | {k.source} | {k.severity} | {k.group} | '
        f"{_cell(k.fix)} |"
        for k in CATALOGUE.values()
    ]
    return replace_part(text, "catalogue", [*head, *rows])


def main() -> None:
    """Write the pages."""
    pages = {"output.md": output_page, "glossary.md": glossary_page, "findings.md": findings_page}
    for name, make in pages.items():
        path = ROOT / "docs" / name
        path.write_text(make(path.read_text()))


if __name__ == "__main__":
    main()
