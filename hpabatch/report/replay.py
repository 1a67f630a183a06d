"""The result of `hpabatch replay`: one row per HPA, those most worth a look, score."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from hpabatch.engine.columns.replay import SCORE, SUMMARY
from hpabatch.engine.fleet.candidates import Candidate
from hpabatch.engine.fleet.parameters import MAX_AGE_SPACINGS, MIN_MAX_AGE_MS
from hpabatch.engine.fleet.plan import ReplayPlan
from hpabatch.engine.replay.attention import ALSO, rank_attention
from hpabatch.engine.replay.run import ReplayResult
from hpabatch.engine.replay.score import CLASSES, Score, ScoreTotals, class_table, score
from hpabatch.engine.replay.score import total as score_totals
from hpabatch.engine.replay.summary import FOREIGN_SHARE, KEY, FleetTotals, total
from hpabatch.errors import RefusedError, UsageError
from hpabatch.jobs.replay import ReplayDone
from hpabatch.model.printable import counted, printable
from hpabatch.model.suggestions import did_you_mean
from hpabatch.model.times import show_duration, show_instant
from hpabatch.report.base import (
    HPA,
    Grid,
    Head,
    Result,
    Rows,
    View,
    label,
    many_clusters,
    row_label,
    skipped_line,
    skipped_rows,
)
from hpabatch.report.forms import write_frame
from hpabatch.report.lens import lens_told, ratio_lines
from hpabatch.report.numbers import number, share, signed, skill

if TYPE_CHECKING:
    import altair as alt

SHOWN_HPAS: Final = 20

_PROOFS: Final = {
    "proved": "proved",
    "checked live": "checked on live clusters",
    "from sources": "from sources",
}
_EVENTS: Final = {
    "recorded": "policy budgets spent by the recorded changes",
    "decided": "policy budgets spent by the replay's own decisions",
}
_HELD: Final = (
    "window_up_share",
    "window_down_share",
    "policy_up_share",
    "policy_down_share",
    "disabled_up_share",
    "disabled_down_share",
)
HEADS: Final = (
    HPA,
    Head("RANGE", "minReplicas to maxReplicas",
         lambda row: f"{row['min_replicas']}-{row['max_replicas']}"),
    Head.of(SUMMARY["applied_mean"], "RECORDED", number),
    Head.of(SUMMARY["decided_mean"], "DECIDED", number),
    Head.of(SUMMARY["agreement_share"], "MATCH", share),
    Head("REVERSALS", "recorded changes of size against the direction of the one before",
         "reversals"),
    Head("AT MIN", "share of the ticks in which minReplicas held it: the metrics asked for fewer",
         "at_min_share", share),
    Head("AT MAX", "share of the ticks in which maxReplicas held it: the metrics asked for more",
         "at_max_share", share),
    Head("HELD", "share of the ticks bound by a window, a policy or a disabled direction",
         lambda row: sum(row[name] for name in _HELD), share),
    Head("FAILED", "share of the ticks with a failed metric", "invalid_share", share),
)  # fmt: skip
SCORE_HEADS: Final = (
    HPA,
    Head.of(SCORE["recorded_events"], "RECORDED"),
    Head.of(SCORE["decided_events"], "DECIDED"),
    Head.of(SCORE["precision"], "PRECISION", partial(share, digits=1)),
    Head.of(SCORE["recall"], "RECALL", partial(share, digits=1)),
    Head.of(SCORE["window_mae"], "ERROR", partial(number, digits=2)),
    Head("SKILL", "around recorded rescales, against a constant size: 1 is perfect, 0 no better",
         "window_constant_skill", skill),
    Head("SKILL TICK", "the same against the size a tick before", "window_persistence_skill",
         skill),
)  # fmt: skip
_REPRODUCED: Final = 0.99  # from this agreement on, what is left are single ticks


@dataclass(frozen=True, repr=False)
class Replay(Result):
    """A replay, in memory or to disk.

    Attributes:
        result: what came of it; of one to disk all but the decisions.
        plan: what was replayed, and under which assumptions; None: to disk.
        out: the path of the decisions; None: they are not kept.
        top: HPAs to name as worth a look; 0: none are ranked.
        history: what the next commands name.
        scored: the score to show; None: none.
    """

    result: ReplayResult | ReplayDone
    plan: ReplayPlan | None = None
    out: str | None = None
    top: int = SHOWN_HPAS
    history: str = "HISTORY"
    scored: Score | None = None

    @property
    def verdict(self) -> str:
        totals = self.totals
        line = f"{counted(totals.hpas, 'HPA')}, {counted(totals.ticks, 'decision')}"
        if (share := totals.agreement_share) is not None:
            most = share if share == 1 else min(share, 0.999)  # (100.0% is said only of all)
            line += f": {most:.1%} match the recorded size"
        if self.top and self._ranked.is_empty():
            line += "; none stands out"
        elif self.top:
            line += f"; {counted(self._ranked.height, 'HPA')} most worth a look"
        return line

    @property
    def frame(self) -> pl.DataFrame:
        return self.summary

    @property
    def summary(self) -> pl.DataFrame:
        """One row per HPA."""
        return self.result.summary

    @property
    def decisions(self) -> pl.DataFrame:
        """One row per HPA and tick; docs/output.md explains the columns."""
        assert isinstance(self.result, ReplayResult), f"the decisions are in {self.out}"
        return self.result.decisions

    @property
    def hpas(self) -> tuple[Candidate, ...]:
        """The HPAs that were replayed, with their specs."""
        return () if self.plan is None else self.plan.chosen

    @property
    def evidence(self) -> dict[str, str]:
        return self.result.evidence

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.result.warnings

    @property
    def skipped(self) -> pl.DataFrame:
        """HPAs that could not be replayed: cluster, namespace, hpa, reason."""
        columns = ["cluster", "namespace", "hpa", "reason"]
        rows = [[getattr(s, name) for name in columns] for s in self.result.skipped]
        return pl.DataFrame(rows, dict.fromkeys(columns, pl.String()), orient="row")

    @cached_property
    def totals(self) -> FleetTotals:
        """Sums over the summary."""
        return total(self.summary)

    @cached_property
    def score(self) -> Score:
        """How well the decided rescales meet the recorded ones: `hpas` and `events`."""
        assert isinstance(self.result, ReplayResult)
        return score(self.decisions, self.result.hpas)

    def attention(self, top: int = SHOWN_HPAS) -> pl.DataFrame:
        """Return the HPAs most worth a look: rank, key, rule, score, why."""
        return rank_attention(self.summary, top)

    @cached_property
    def _ranked(self) -> pl.DataFrame:
        return self.attention(self.top)

    def plot(self, name: str | None = None) -> alt.VConcatChart:
        """Return the timeline of an HPA, of the one most worth a look without a name.

        Args:
            name: NAMESPACE/NAME or CLUSTER/NAMESPACE/NAME.

        Raises:
            UsageError: there is no such HPA, or several; altair is not installed.
            RefusedError: no HPA could be replayed.
        """
        from hpabatch.report.pictures.recorded import recorded_chart

        if self.summary.is_empty():
            raise RefusedError("no HPA could be replayed, so there is nothing to draw")
        keys = {"/".join(key): key for key in self.summary.select(KEY).iter_rows()}
        row = self._first()
        asked = name or "/".join(row[part] for part in KEY)
        chosen = [key for known, key in keys.items() if f"/{known}".endswith(f"/{asked}")]
        if len(chosen) != 1:
            there = "there are several" if chosen else f"no such HPA{did_you_mean(asked, keys)}"
            raise UsageError(f"{asked}: {there}; name one as cluster/namespace/name")
        is_own = [pl.col(part) == value for part, value in zip(KEY, chosen[0], strict=True)]
        shown = label(*chosen[0], with_cluster=many_clusters(self.summary))
        own = self.decisions.filter(*is_own)
        return recorded_chart(own, shown, profile=self.evidence["k8s"])

    def write(self, path: Path | str) -> None:
        """Write the decisions as Parquet, with the evidence; the file is whole or not there.

        Raises:
            UsageError: it cannot be written.
        """
        write_frame(self.decisions, self.evidence, path)

    def body(self, view: View) -> Iterator[str | Grid]:
        yield from ratio_lines(self.evidence)
        yield from total_lines(self.totals)
        yield ""
        if self._ranked.height:
            yield f"Most worth a look ({self._ranked.height}):"
            yield _listed(self._ranked, self.summary, "rank", "why")
            yield ""
        key = ["applied_replica_hours", *KEY]
        down = [True, False, False, False]
        largest = self.summary.sort(key, descending=down, nulls_last=True)
        yield Grid.of(HEADS, largest, SHOWN_HPAS, frame=self.summary, columns=SUMMARY.columns)
        yield ""
        foreign = self.summary.filter(
            (pl.col("foreign_changes") > 0)
            & (pl.col("foreign_changes") >= FOREIGN_SHARE * pl.col("recorded_changes"))
        ).sort(["foreign_changes", *KEY], descending=down)
        apart = coarse(self.evidence)
        if foreign.height:
            count = f"{foreign['foreign_changes'].sum()}"
            shown = f", as far as samples show ({count}; {apart})" if apart else f" ({count})"
            yield f"Changes that no rule made{shown}:"
            yield _listed(foreign, self.summary, "foreign_changes", "foreign_told", SHOWN_HPAS)
            yield ""
        if self.scored is not None:
            yield from _score_parts(self.scored)
            if apart:
                yield f"the score is limited by the recording: {apart}"
            yield ""
        yield from skipped_line(self.result.skipped)

    def basis(self) -> list[str]:
        return evidence_lines(self.evidence)

    def hints(self) -> list[str]:
        lines = [f"decisions: {self.out or 'not kept; --out FILE keeps them'}"]
        if self.summary.height:
            row = self._first()
            name = printable(row_label(row, many_clusters(self.summary)))
            if sentence := self._in_short(name):
                lines.append(sentence)
            share, at = self.totals.agreement_share, row["first_mismatch_ts"]
            when = ""
            if share is not None and share < _REPRODUCED and at is not None:
                when = f" --at {show_instant(round(at.timestamp() * 1000))}"
            command = f"hpabatch explain {shlex.quote(self.history)} {shlex.quote(name)}"
            lines.append(f"next: {command}{when}")
        return lines

    def _first(self) -> dict[str, Any]:
        """Return the summary of the HPA most worth a look, else of that with most mismatches."""
        if self._ranked.height:
            return self.summary.join(self._ranked.head(1), on=KEY, how="semi").row(0, named=True)
        count = (1 - pl.col("agreement_share")) * (1 - pl.col("undecided_share")) * pl.col("ticks")
        most = self.summary.sort(count, descending=True, maintain_order=True, nulls_last=True)
        return most.row(0, named=True)

    def _in_short(self, first: str) -> str:
        """Return whether the rules reproduce the recording, and which HPA needs somebody first."""
        parts = []
        if (share := self.totals.agreement_share) is not None:
            told = (
                "the rules decide what was recorded"
                if share >= _REPRODUCED
                else (f"the recorded sizes differ from the rules' in {1 - share:.1%} of the ticks")
            )
            parts.append(told)
        if self._ranked.height:
            reason, *more_reasons = re.split(rf"\.?{re.escape(ALSO[1:])}", self._ranked["why"][0])
            others = f" (and {counted(len(more_reasons), 'reason')} more)" if more_reasons else ""
            parts.append(f"look at {first} first: {reason}{others}")
        elif self.top:
            parts.append("no HPA needs a look")
        return f"in short: {'; '.join(parts)}" if parts else ""

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "evidence": dict(self.evidence),
            "totals": self.totals._asdict(),
            "hpas": Rows(self.summary),
            "attention": Rows(self._ranked),
            "skipped": skipped_rows(self.result.skipped),
            "warnings": list(self.warnings),
            "out": self.out,
        }
        if self.scored is not None:
            classes = class_table(self.scored.events)
            found["score"] = {
                "totals": score_totals(self.scored.hpas)._asdict(),
                "classes": Rows(classes.with_columns(pl.col("class", "binding").cast(pl.String))),
                "hpas": Rows(self.scored.hpas),
            }
        return found


# ---- what the result rests on --------------------------------------------------------------------


def rules_line(evidence: Mapping[str, str]) -> str:
    """Return the rules and how they are proved."""
    name, kind = evidence.get("k8s", "?"), evidence.get("k8s_evidence", "")
    words, proof = _PROOFS.get(kind, kind), evidence.get("k8s_proof")
    if proof and kind in _PROOFS:  # with several versions the words name each one's proof already
        words += f" {proof}" if kind == "proved" else f": {proof}"
    gates = evidence.get("feature_gates")
    return f"rules of Kubernetes {name}{f' with {gates}' if gates else ''} ({words})"


def evidence_lines(evidence: Mapping[str, str]) -> list[str]:
    """Return two lines: the rules and how they are proved; the parameters and their sources."""
    events = evidence.get("events", "")
    return [f"{rules_line(evidence)}; {_EVENTS.get(events, events)}", _parameters(evidence)]


def _parameters(evidence: Mapping[str, str]) -> str:
    """Return the parameters that count: of a grid, only where HPAs are decided on it."""
    instants = evidence.get("instants", "grid")
    grid = ("sync_period", "phase") if instants.endswith("grid") else ()
    known = ", ".join(
        f"{name.replace('_', ' ')} {in_seconds(evidence[name])}"
        for name in (*grid, "delay", "max_age")
        if name in evidence
    )
    known += lens_told(evidence)
    return known if instants == "grid" else f"instants: {instants}; {known}"


def coarse(evidence: Mapping[str, str]) -> str:
    """Return that samples lie farther apart than the syncs, "" where that is not known.

    An estimated max age says it: it is MAX_AGE_SPACINGS spacings, and MIN_MAX_AGE_MS at least.
    """
    names = ("max_age", "delay", "sync_period")
    parts = [re.match(r"(\d+) ms\b", evidence.get(name, "")) for name in names]
    if not all(parts) or "estimated" not in evidence["max_age"]:
        return ""
    age_ms, delay_ms, period_ms = (int(part[1]) for part in parts if part)
    apart_ms = round((age_ms - delay_ms) / MAX_AGE_SPACINGS)
    if age_ms - delay_ms <= MIN_MAX_AGE_MS or apart_ms <= period_ms:
        return ""
    return f"samples are {show_duration(apart_ms)} apart, syncs {show_duration(period_ms)}"


def in_seconds(text: str) -> str:
    """Return `15000 ms (assumed)` as `15 s (assumed)`."""
    found = re.match(r"(\d+)000 ms\b", text)
    return f"{found[1]} s{text[found.end() :]}" if found else text


# ---- summary -------------------------------------------------------------------------------------


def total_lines(totals: FleetTotals) -> list[str]:
    """Return the fleet's sums as lines."""
    applied, decided = totals.applied_replica_hours, totals.decided_replica_hours
    change = f" ({signed(100 * (decided - applied) / applied, 1)}%)" if applied else ""
    lines = [f"replica-hours: {applied:,.1f} recorded, {decided:,.1f} decided{change}"]
    if totals.first_ts and totals.last_ts:
        lines[0] += f", from {_short(totals.first_ts)} to {_short(totals.last_ts)}"
    if totals.undecided_share:
        lines.append(
            f"no decision was possible in {totals.undecided_share:.1%} of the ticks "
            "(metrics, selector or scale were not usable)"
        )
    return lines


def _short(time: str) -> str:
    return time.replace(".000Z", "Z")


def _listed(
    rows: pl.DataFrame, fleet: pl.DataFrame, first: str, last: str, most: int | None = None
) -> Grid:
    wide: dict[str, Any] = {"left": True, "folds": True}
    heads = (Head("", value=first), Head("", value="label", **wide), Head("", value=last, **wide))
    return Grid.of(heads, rows, most, fleet=fleet, with_heads=False)


# ---- score ---------------------------------------------------------------------------------------


def _score_parts(score: Score) -> Iterator[str | Grid]:
    """Generate the score for people: the fleet's, each class of disagreement, each HPA's."""
    totals = score_totals(score.hpas)
    yield (
        f"Controller score: {totals.scored} of {counted(totals.hpas, 'HPA')} can be scored; "
        f"{counted(totals.recorded_events, 'rescale')} recorded, "
        f"{totals.decided_events:,} decided, {totals.matched_events:,} of them match"
    )
    if totals.scored:
        yield (
            f"precision {share(totals.precision, 1)}, recall {share(totals.recall, 1)} of the "
            "instants (whether the settings are the controller's: hpabatch fidelity)"
        )
        yield sizes_line(totals)
        yield (
            f"around rescales: error {number(totals.window_mae, 2)}, skill "
            f"{skill(totals.window_constant_skill)} against a constant, "
            f"{skill(totals.window_persistence_skill)} against the size a tick before"
        )
    if totals.unscored_extra:
        yield (
            f"{totals.unscored_extra:,} more were decided for HPAs that cannot be scored "
            "(their recorded size stood still)"
        )
    classes = totals.classes.items()
    yield from (f"  {CLASSES[name]}: {count:,}" for name, count in classes if count)
    if totals.scored:
        known = score.hpas.filter(pl.col("unscored").is_null())
        most = known.sort(["recorded_events", *KEY], descending=[True, False, False, False])
        where = "--output json has all"
        yield Grid.of(
            SCORE_HEADS, most, SHOWN_HPAS, where,
            frame=score.hpas, columns=SCORE.columns,
        )  # fmt: skip
    unscored = score.hpas["unscored"].drop_nulls().value_counts().sort("unscored")
    for reason, count in unscored.iter_rows():
        yield f"not scorable: {counted(count, 'HPA')}: {reason}"


def sizes_line(totals: ScoreTotals) -> str:
    """Return how near the decided sizes are, beside what a constant would come to."""
    return (
        f"sizes: as recorded in {share(totals.agreement_share, 1)} of the ticks (a constant: "
        f"{share(totals.constant_agreement_share, 1)}), within 1 in "
        f"{share(totals.within_1_share, 1)} ({share(totals.constant_within_1_share, 1)}); mean "
        f"error {number(totals.mae, 2)}, skill "
        f"{skill(totals.constant_skill)} against a constant, "
        f"{skill(totals.persistence_skill)} against the size a tick before"
    )
