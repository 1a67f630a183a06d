"""The run of a gate: what head changes against base, simulated on one history where there is one.

Only HPAs whose settings differ are simulated; of the others nothing can differ. Costs are those of
the simulated pods of each side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from hpabatch.engine.columns.gate import BASE, GATE, HEAD
from hpabatch.engine.compare.sides import LeftOut, Side
from hpabatch.engine.findings.lint import lint
from hpabatch.engine.fit.overrides import read_plants
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.gate.limits import FINDINGS, SIMULATED, Limit, parse_limit
from hpabatch.engine.gate.measure import Measured, measure_simulated
from hpabatch.engine.gate.request import GateRequest
from hpabatch.engine.replay.summary import KEY
from hpabatch.engine.simulate.run import LoopOptions
from hpabatch.errors import UsageError
from hpabatch.history.base import History
from hpabatch.inputs.documents import digests_of
from hpabatch.inputs.manifests import CheckedEntry
from hpabatch.inputs.prices import read_price_file
from hpabatch.model.progress import Progress, silent
from hpabatch.model.settings.patch import spec_differences
from hpabatch.model.versions import Profile

CHANGED: Final = "changed"
NEW: Final = "new"
REMOVED: Final = "removed"
SAME: Final = "same"

Name = tuple[str, str]
"""Namespace and name of an HPA in manifests."""
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Manifested:
    """One side: its valid HPAs, its paths, and what stdin had if it is one of these."""

    checked: Sequence[CheckedEntry]
    paths: Sequence[str]
    stdin: bytes = b""

    def hpas(self) -> dict[Name, list[CheckedEntry]]:
        """Return the valid documents by HPA; of several `kubectl apply` leaves the last."""
        found: dict[Name, list[CheckedEntry]] = {}
        for item in self.checked:
            if item.hpa is not None:
                name = item.hpa.namespace or "default", item.hpa.shown_name
                found.setdefault(name, []).append(item)
        return found

    @property
    def unread(self) -> list[CheckedEntry]:
        """Documents that cannot be read, or that the server refuses."""
        return [item for item in self.checked if item.hpa is None]


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A limit that an HPA, or the sum over all (`key` None), exceeds, with both measures."""

    key: Key | None
    limit: Limit
    base: float | None
    head: float | None


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate found.

    Attributes:
        rows: one per HPA whose settings or findings differ; columns as registered.
        exceeded: limits that are exceeded.
        unknown: HPAs of which nothing trustworthy can be said, with the reason.
        findings: those of head that base does not have.
        ignored: those that head ignores, and base does not.
        unread: documents of head that cannot be read or are refused. What these leave out is
            neither removed nor fixed.
        fixed: how many of base's findings head does not have.
        hpas: how many HPAs base and head have.
        places: file and line of head's HPAs.
        allow_unknown: unknown ones pass.
        warnings, evidence: of the simulation.
    """

    rows: pl.DataFrame
    exceeded: Sequence[Exceeded]
    unknown: Mapping[Key, str]
    findings: pl.DataFrame
    ignored: pl.DataFrame
    unread: Sequence[CheckedEntry]
    fixed: int
    hpas: int
    places: Mapping[Name, tuple[str, int]]
    allow_unknown: bool
    warnings: Sequence[str]
    evidence: Mapping[str, str]

    @property
    def exceeds(self) -> bool:
        """Whether a limit is exceeded, or an HPA is unknown that must not be."""
        return bool(self.exceeded or (self.unknown and not self.allow_unknown))

    @property
    def passes(self) -> bool:
        """Whether all of head was read, and nothing is exceeded or unknown."""
        return not (self.exceeds or self.unread)


def gate(
    request: GateRequest,
    base: Manifested,
    head: Manifested,
    profile: Profile,
    history: History | None = None,
    progress: Progress = silent,
) -> GateResult:
    """Compare two sets of manifests, and hold the differences against limits.

    Raises:
        HistoryError, UsageError: the history, a plant file or a price file cannot be used.
    """
    given = base.hpas(), head.hpas()
    before, after = ({name: items[-1] for name, items in side.items()} for side in given)
    changes = {name: change for name, change in _changes(before, after)
               if not (head.unread and change[0] == REMOVED)}  # fmt: skip
    changed = [name for name, (kind, _) in changes.items() if kind == CHANGED]
    measured = Measured(pl.DataFrame(), pl.DataFrame(), (), (), {})
    if history is not None and changed:
        measured = _measured(request, history, (before, after), changed, progress)
    fresh, ignored, fixed, counts = _findings(base, head, profile)
    values = [
        {tuple(row[part] for part in KEY): row for row in side.iter_rows(named=True)}
        for side in (measured.before, measured.after)
    ]
    unknown = {} if history is None else dict(_unknown(changes, values, measured.left_out))
    twice = set(_twice(*given))
    for name in twice:
        keys = [key for key in {*values[1], *unknown} if key[1:] == name] or [("", *name)]
        why = "it is given twice with different specs, of which the last would be applied"
        unknown |= dict.fromkeys(keys, why)
    named = {_name(row) for row in fresh.iter_rows(named=True)}
    rows = []
    for name in sorted({*changes, *named, *twice}):
        kind, settings = changes.get(name, (SAME, []))
        keys = sorted(key for key in {*values[1], *unknown} if key[1:] == name)
        for key in keys or [("", *name)]:
            row = dict(zip(KEY, key, strict=True))
            row |= {"change": kind, "settings": "; ".join(settings)}
            for end, side, count in zip((BASE, HEAD), values, counts, strict=True):
                both = side.get(key, {}) | {m: count.get(name, Counter())[m] for m in FINDINGS}
                row |= {f"{end}{m}": both.get(m) for m in (*SIMULATED, *FINDINGS)}
                row |= {"currency": both.get("currency")}
            rows.append((key, row))
    exceeded = list(_judged([parse_limit(text) for text in request.fail_on], rows, unknown))
    for key, row in rows:
        own = "; ".join(e.limit.text for e in exceeded if e.key in (key, ("", *key[1:])))
        row |= {"unknown": unknown.get(key), "exceeded": own or None}
    return GateResult(
        rows=pl.DataFrame([{n: row[n] for n in GATE.names} for _, row in rows], GATE.schema),
        exceeded=exceeded,
        unknown=unknown,
        findings=fresh,
        ignored=ignored,
        unread=head.unread,
        fixed=0 if head.unread else fixed,
        hpas=len({*before, *after}),
        places={name: (item.entry.source, item.entry.line) for name, item in after.items()},
        allow_unknown=request.allow_unknown,
        warnings=measured.warnings,
        evidence=measured.evidence,
    )


def _name(row: Mapping[str, Any]) -> Name:
    return row["namespace"] or "default", row["hpa"]


def _changes(
    before: Mapping[Name, CheckedEntry], after: Mapping[Name, CheckedEntry]
) -> Iterator[tuple[Name, tuple[str, list[str]]]]:
    """Yield the HPAs that differ, with how, and each setting as `minReplicas 2 -> 3`."""
    for name in {**before, **after}:
        old, new = (side[name].hpa if name in side else None for side in (before, after))
        if old is None or new is None:
            yield name, (NEW if old is None else REMOVED, [])
        elif settings := spec_differences(old.spec, new.spec):
            yield name, (CHANGED, settings)


def _twice(
    before: Mapping[Name, Sequence[CheckedEntry]], after: Mapping[Name, Sequence[CheckedEntry]]
) -> Iterator[Name]:
    """Yield the HPAs of which a side has several specs, and the other side not the same ones.

    Which of them a cluster gets is not for the manifests to tell: overlays are alternatives.
    """
    for name in {**before, **after}:
        old, new = ([item.hpa and item.hpa.spec for item in side.get(name, ())]
                    for side in (before, after))  # fmt: skip
        if old != new and any(spec != own[0] for own in (old, new) for spec in own):
            yield name


def _measured(
    request: GateRequest,
    history: History,
    sides: Sequence[Mapping[Name, CheckedEntry]],
    changed: Sequence[Name],
    progress: Progress,
) -> Measured:
    """Simulate the changed HPAs with the settings of both sides."""
    parameters = replay_parameters(request, events="decided")
    options = LoopOptions(
        plants=read_plants(request),
        prices=None if request.prices is None else read_price_file(request.prices),
        seed=request.seed,
        files=digests_of((*request.plant, request.prices)),
    )
    wanted = pl.DataFrame(changed, {name: pl.String() for name in KEY[1:]}, orient="row")
    before, after = (
        Side(title, parameters, tuple(item.hpa for item in side.values() if item.hpa is not None))
        for title, side in zip(("base", "head"), sides, strict=True)
    )
    return measure_simulated(
        history,
        before,
        after,
        options,
        lambda all: all.join(wanted, on=KEY[1:], how="semi"),
        progress,
    )


def _findings(
    base: Manifested, head: Manifested, profile: Profile
) -> tuple[pl.DataFrame, pl.DataFrame, int, list[dict[Name, Counter[str]]]]:
    """Return head's new findings, its new ignored ones, how many went, and the counts of both."""
    lints = [lint(side.checked, side.paths, profile, side.stdin) for side in (base, head)]
    counts: list[dict[Name, Counter[str]]] = [{}, {}]
    known = []
    for judged, count in zip(lints, counts, strict=True):
        rows = list(judged.found.iter_rows(named=True))
        known.append([(_name(row), row["finding"]) for row in rows])
        for row in rows:
            names = ("findings", f"findings_{row['severity']}")
            count.setdefault(_name(row), Counter()).update(names)
    hidden = [
        [(_name(row), row["finding"]) for row in judged.ignored.iter_rows(named=True)]
        for judged in lints
    ]
    fresh = lints[1].found.filter([item not in known[0] for item in known[1]])
    ignored = lints[1].ignored.filter([item not in hidden[0] for item in hidden[1]])
    later = {*known[1], *hidden[1]}
    return fresh, ignored, sum(item not in later for item in known[0]), counts


def _unknown(
    changes: Mapping[Name, tuple[str, list[str]]],
    values: Sequence[Mapping[Key, Mapping[str, Any]]],
    left_out: Iterable[LeftOut],
) -> Iterator[tuple[Key, str]]:
    """Yield HPAs whose change is not known, each with why."""
    told = [item for item in left_out if (item.namespace, item.hpa) in changes]
    for item in told:
        yield (item.cluster, item.namespace, item.hpa), f"{item.side}: {item.reason}"
    known = {*values[1], *((item.cluster, item.namespace, item.hpa) for item in told)}
    for name, (kind, _) in changes.items():
        keys = [key for key in values[1] if key[1:] == name]
        for key in keys:
            doubts = [part for side in values for part in side[key]["why_not"].split("; ") if part]
            if doubts:
                yield key, "; ".join(dict.fromkeys(doubts))
        if kind != CHANGED:
            other = "base" if kind == NEW else "head"
            yield ("", *name), f"{other} has no such HPA to compare it with"
        elif not any(key[1:] == name for key in known):
            yield ("", *name), "it was not simulated"


def _judged(
    limits: Iterable[Limit], rows: Sequence[tuple[Key, Mapping[str, Any]]], unknown: dict[Key, str]
) -> Iterator[Exceeded]:
    """Yield the limits that are exceeded; an HPA that one cannot be held against is unknown.

    The other limits hold it, too. Findings are of a manifest, in however many clusters.
    """
    lacking: dict[Key, list[str]] = {}
    for limit in limits:
        found: dict[Key | None, tuple[Any, Any]] = {}
        currencies = set()
        for key, row in rows:
            own = ("", *key[1:]) if limit.is_of_findings else key
            if not limit.is_of_findings and (row["change"] != CHANGED or own in unknown):
                continue
            before, after = (row[f"{end}{limit.measure}"] for end in (BASE, HEAD))
            if limit.judge(before, after) is None:
                lacking.setdefault(own, []).append(f"{limit.measure} is not known")
                continue
            found[own] = before, after
            currencies.add(row["currency"])
        pairs = [(key, *pair) for key, pair in found.items()]
        if limit.of_total and pairs:
            if limit.measure == "cost" and len(currencies) > 1:
                raise UsageError(f"{limit.text}: costs are in {', '.join(sorted(currencies))}")
            bases, heads = ([pair[k] or 0 for pair in pairs] for k in (1, 2))
            pairs = [(None, sum(bases), sum(heads))]
        for whose, before, after in pairs:
            if limit.judge(before, after):
                yield Exceeded(whose, limit, before, after)
    unknown |= {key: "; ".join(dict.fromkeys(whys)) for key, whys in lacking.items()}
