"""The page as a result: gathered shard by shard, shown as HTML, Markdown, JSON or a table."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

import polars as pl

from hpabatch.engine.capacity.run import CapacityPlan
from hpabatch.engine.columns.findings import FINDINGS
from hpabatch.engine.explain.request import ExplainRequest
from hpabatch.engine.findings.run import judged_findings
from hpabatch.engine.fleet.candidates import Skipped
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.fleet.request import lens_file
from hpabatch.engine.replay.run import join_notes, replay_shards
from hpabatch.engine.replay.summary import KEY, join_summaries
from hpabatch.errors import UsageError
from hpabatch.history.files import atomic_path
from hpabatch.history.replaced import check_replaced
from hpabatch.jobs.parquet import EVIDENCE_KEY
from hpabatch.jobs.replay import NothingReplayedError
from hpabatch.model.options import Request, flag
from hpabatch.model.printable import printable
from hpabatch.model.progress import Progress, silent
from hpabatch.model.times import show_duration
from hpabatch.report.base import Grid, Head, Output, Result, View
from hpabatch.report.capacity import Plan
from hpabatch.report.forms import report_bytes
from hpabatch.report.numbers import number
from hpabatch.report.page.advice import check_origin, read_advice
from hpabatch.report.page.document import Gathered, document_of, redacted
from hpabatch.report.page.request import ReportRequest
from hpabatch.report.page.series import FleetSizes, moments_of, timeline_of

ALL_MOMENTS: Final = 40_000
LEAST_MOMENTS: Final = 40
MOST_MOMENTS: Final = 400
"""Moments of an HPA: so many of the fleet's, but no fewer and no more."""
SHOWN: Final = 15
_NAMING: Final = ("text", "texts", "path", "paths")
"""Kinds of options whose values may be names."""
_LISTS: Final = {
    "act": "Do now",
    "harm": "Harmed today",
    "ask": "Cannot be judged",
}
_HEADS: Final = (
    Head("HPA", value="hpa", left=True, folds=True),
    Head("WHAT", value="what", left=True, folds=True),
    Head("EFFECT", value="effect", left=True, folds=True),
    Head("DETAIL", value="detail", left=True, folds=True),
    Head("GRADE", value="grade", show=lambda grade: grade or "", left=True),
)


_SINCE: Final = (
    Head("SINCE", value="since", left=True),
    *_HEADS[:1],
    Head("FINDING", value="finding", left=True),
    Head("WHAT", value="why", left=True, folds=True),
)


@dataclass(frozen=True, repr=False)
class FleetReport(Result):
    """A page on a history.

    Attributes:
        told: the document, as JSON values.
        skipped: HPAs that could not be replayed.
    """

    told: Mapping[str, Any]
    skipped: tuple[Skipped, ...] = ()

    @classmethod
    def read(cls, path: Path | str, option: str = "") -> Self:
        """Return the page of a `report.json` (UsageError: it is none); `option`: that names it."""
        from hpabatch.report.page.last import read_document

        return cls(read_document(str(path), option))

    def since(self, last: FleetReport) -> Self:
        """Return the page with what is new, fixed and worse since an earlier one.

        Raises:
            UsageError: names are replaced in one of them.
        """
        from hpabatch.report.page.last import compared

        return replace(self, told={**self.told, "since": compared(self.told, last.told)})

    @property
    def judged(self) -> bool:
        """Whether anything could be decided."""
        return any(hpa["undecided_share"] not in (None, 1.0) for hpa in self.told["hpas"])

    @property
    def verdict(self) -> str:
        """What the HPAs used, how many need a look, and how many should change."""
        return str(self.told["verdict"])

    @property
    def frame(self) -> pl.DataFrame:
        """The findings, with the labels of their HPAs."""
        names = ["hpa", *FINDINGS.names[len(KEY) :]]
        rows = [{name: row.get(name) for name in names} for row in self.told["findings"]]
        schema = {"hpa": pl.String()} | {n: FINDINGS.schema[n] for n in names[1:]}
        return pl.DataFrame(rows, schema=schema)

    @property
    def evidence(self) -> Mapping[str, str]:
        """What it rests on."""
        return self.told["provenance"]["evidence"]  # type: ignore[no-any-return]

    def body(self, view: View) -> Iterator[str | Grid]:
        """Generate amounts, the three lists, and how far the claims can be relied on."""
        yield from map(amount_line, self.told["amounts"])
        yield ""
        if since := self.told["since"]:
            counts = [f"{len(since[name])} {name}" for name in ("new", "worse", "fixed")]
            if ignored := since.get("ignored"):
                counts.append(f"{len(ignored)} ignored now")
            yield f"since the report to {since['span']['to']}: {', '.join(counts)}"
            rows = [item | {"since": n} for n in ("new", "worse", "fixed") for item in since[n]]
            yield Grid.of(_SINCE, rows, SHOWN, "the page has all")
            yield ""
        for name, title in _LISTS.items():
            rows = self.told["lists"][name]
            yield f"{title} ({len(rows)}):"
            if rows:
                yield Grid.of(_HEADS, rows, SHOWN, "the page has all")
            yield ""
        for claim in self.told["trust"]:
            yield f"trust in “{claim['claim']}”: {claim['grade']} ({claim['why']})"

    def basis(self) -> Sequence[str]:
        """Return what made it."""
        return [f"made by: {self.told['command']}"]

    def document(self) -> Mapping[str, Any]:
        """Return the document of the page."""
        return self.told

    def own(self, output: Output, view: View) -> str | None:
        """Return JSON with a line for each part: an indented list of steps would be long."""
        if output is not Output.json:
            return None
        return "{\n" + ",\n".join(
            f"{json.dumps(name)}: {json.dumps(part, allow_nan=False)}"
            for name, part in self.told.items()
        ) + "\n}\n"  # fmt: skip

    @property
    def html(self) -> str:
        """The page: one file, which needs no other and no network."""
        from hpabatch.report.page.html import page_of

        return page_of(self.told)

    def write(self, path: Path | str, form: Output | None = None) -> None:
        """Write the page, or another form; the file is whole or not there.

        Raises:
            UsageError: it cannot be written.
        """
        check_replaced(path, "html" if form is None else form)
        data = self.html.encode() if form is None else report_bytes(self, form)
        with atomic_path(path) as temporary:
            temporary.write_bytes(data)


def amount_line(amount: Mapping[str, Any]) -> str:
    """Return an amount: `requested cores on average: 27.4 -> 23.1 to 23.9 (-15.7% to -12.8%)`."""
    now, unit = amount["now"], amount["unit"]
    line = f"{amount['name']}: {number(now)} {unit}".rstrip()
    if amount.get("low") is None:
        return line
    low, high = amount["low"], amount["high"]
    ends = [number(low), number(high)]
    line += f" -> {' to '.join(dict.fromkeys(ends))}"
    return f"{line} with all changes ({amount['change']}; {amount['covers']})"


def report_of(
    plan: ReplayPlan, request: ReportRequest, history: str, progress: Progress = silent
) -> FleetReport:
    """Return the page on the HPAs of a replay plan; memory is bounded by a shard.

    Raises:
        HistoryError: a table is broken.
        UsageError: the advice or the plan cannot be read.
        NothingReplayedError: no HPA could be replayed.
    """
    last = request.compare and FleetReport.read(request.compare, "--compare ")
    evidence, origins = plan.evidence, []
    advice: list[dict[str, Any]] = []
    if request.advice is not None:
        advice, warning = read_advice(request.advice, evidence, plan.clocks.to_ms)
        origins.append(warning)
    planned = None if request.plan is None else _read_plan(request.plan)
    if planned is not None:
        origins.append(check_origin("--plan", str(request.plan), planned.evidence, evidence))
    step_ms = plan.clocks.grid.period_ms
    fleet = FleetSizes(plan.clocks.from_ms, plan.clocks.to_ms + step_ms, step_ms)
    most = max(LEAST_MOMENTS, min(ALL_MOMENTS // max(len(plan.chosen), 1), MOST_MOMENTS))
    facts, summaries, timelines, moments = [], [], {}, {}
    for k, shard in enumerate(replay_shards(plan, range(len(plan.shards)))):
        progress("deciding", k / len(plan.shards))
        facts.append(shard.facts)
        summaries.append(shard.summary)
        first = 0
        for cluster, namespace, hpa, count in shard.summary.select(*KEY, "ticks").iter_rows():
            # (decisions stand HPA by HPA, in the order of the summary)
            key, ticks = (cluster, namespace, hpa), shard.decisions.slice(first, count)
            first += count
            if not count:
                continue
            timelines[key] = timeline_of(ticks)
            moments[key] = moments_of(ticks, most)
            fleet.add(ticks)
    notes, summary = join_notes(plan, facts), join_summaries(summaries)
    if summary.is_empty():
        raise NothingReplayedError(notes.skipped, notes.warnings)
    judged = judged_findings(summary, plan)
    given = Gathered(
        history=history,
        command=f"hpabatch report {_given(request, history, ReportRequest)}",
        options=_given(request, "", ExplainRequest),
        notes=notes,
        summary=summary,
        found=judged.found,
        ignored=judged.ignored,
        timelines=timelines,
        moments=moments,
        fleet=fleet.told(),
        advice=advice,
        planned=planned,
    )
    given = redacted(given, plan) if request.redact else given
    more = tuple(filter(None, origins))
    notes = replace(given.notes, warnings=(*given.notes.warnings, *more))
    found = FleetReport(document_of(replace(given, notes=notes)), notes.skipped)
    return found.since(last) if last else found


def read_beside(request: ReportRequest) -> dict[str, list[Path]]:
    """Return by option what is read beside the history."""
    files = {"--compare": request.compare, "--lens": lens_file(request)}
    return {
        option: [Path(folder), *Path(folder).rglob("*.parquet")]
        for option, folder in (("--advice", request.advice), ("--plan", request.plan))
        if folder is not None
    } | {option: [Path(file)] for option, file in files.items() if file is not None}


def _given(request: ReportRequest, history: str, kind: type[Request]) -> str:
    """Return the history and the options that were given, as the command line takes them.

    Without a history only what is no argument. Where names are replaced, what may hold one is `…`.
    """
    words = ["…" if request.redact else history] if history else []
    for name, option in kind.options().items():
        value = getattr(request, name, option.default)
        if value == option.default or (option.positional and not history):
            continue
        if option.kind == "flag":
            words.append(flag(name, option))
            continue
        for one in value if isinstance(value, tuple) else (value,):
            text = show_duration(one) if option.kind == "duration" else str(one)
            text = "…" if request.redact and option.kind in _NAMING else text
            words += [text] if option.positional else [flag(name, option), text]
    return " ".join(word if word == "…" else shlex.quote(printable(word)) for word in words)


def _read_plan(folder: str) -> CapacityPlan:
    """Return a capacity plan without its sentences."""
    try:
        hpas, totals = (
            pl.read_parquet(Path(folder) / f"{name}.parquet") for name in ("hpas", "totals")
        )
        metadata = pl.read_parquet_metadata(Path(folder) / "hpas.parquet")
        found = CapacityPlan(hpas, totals, (), (), json.loads(metadata[EVIDENCE_KEY]))
        list(Plan.of(found).body(View()))
    except (OSError, pl.exceptions.PolarsError, KeyError, ValueError):
        raise UsageError(
            f"--plan {folder}: expected a folder that `hpabatch plan --out` wrote, got one whose "
            "hpas.parquet or totals.parquet cannot be read; name another"
        ) from None
    return found
