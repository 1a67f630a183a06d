"""Findings that an HPA's annotation ignores: `ID[, ID] until 2027-01-31: why`, a line for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

import polars as pl

from hpabatch.engine.columns.findings import FINDINGS
from hpabatch.engine.findings.catalogue import CATALOGUE, GATE, SEVERITIES
from hpabatch.engine.fleet.candidates import IGNORE
from hpabatch.engine.replay.summary import KEY
from hpabatch.model.suggestions import did_you_mean

BAD: Final = "bad_ignore"
_IGNORED: Final = [
    kind.name for kind in CATALOGUE.values() if kind.source != GATE and kind.name != BAD
]
"""Findings that an annotation may ignore: neither a gate's limits nor its own mistakes."""

Key = tuple[str, str, str]


class Annotated(NamedTuple):
    """An annotation, evidence of where it stands (JSON), and that in words, "" if it is an HPA."""

    text: str
    evidence: str
    place: str = ""


class Judged(NamedTuple):
    """Findings that count, and those that an annotation ignores until a day; `FINDINGS`' columns.

    The sentence of an ignored one ends with its reason.
    """

    found: pl.DataFrame
    ignored: pl.DataFrame


class _Ignore(NamedTuple):
    until: date
    reason: str


def judge(
    rows: Iterable[Mapping[str, Any]],
    annotated: Mapping[Key, Annotated],
    today: date | None = None,
) -> Judged:
    """Return findings with severity, group and what to do, the worst first, ignored ones apart.

    An annotation holds until the end of its day, UTC. One that ended, and one that cannot be read,
    ignores nothing; the finding's sentence, or a finding `BAD`, says so.
    """
    today = today or datetime.now(UTC).date()
    ignores: dict[tuple[Key, str], _Ignore] = {}
    bad = []
    for key, annotation in annotated.items():
        for line in filter(None, map(str.strip, annotation.text.splitlines())):
            mistake = _read(line, key, ignores)
            if mistake:
                why = f'{IGNORE} "{line}" ignores nothing: {mistake}{annotation.place}'
                evidence = {"why": why, "evidence": annotation.evidence}
                bad.append(dict(zip(KEY, key, strict=True)) | {"finding": BAD} | evidence)
    told: tuple[list[Any], list[Any]] = [], []
    for row in (*rows, *bad):
        kind = CATALOGUE[row["finding"]]
        ignore = ignores.get(((row["cluster"], row["namespace"], row["hpa"]), kind.name))
        why = row["why"]
        if ignore is not None:
            word = "ignored until" if ignore.until >= today else "its ignore ended"
            why += f" ({word} {ignore.until}: {ignore.reason})"
        more = {"why": why, "severity": kind.severity, "group": kind.group, "fix": kind.fix}
        told[ignore is not None and ignore.until >= today].append({**row, **more})
    return Judged(*map(_sorted, told))


def _read(line: str, key: Key, ignores: dict[tuple[Key, str], _Ignore]) -> str:
    """Take a line of an annotation; return what is wrong with it, or ""."""
    named, _, rest = line.partition(" until ")
    day, _, reason = map(str.strip, rest.partition(":"))
    if not reason:
        return "expected FINDING until YYYY-MM-DD: REASON"
    try:
        until = date.fromisoformat(day)
    except ValueError:
        return f"{day} is no date"
    names = [name.strip() for name in named.split(",")]
    for name in names:
        if name not in _IGNORED:
            word = (
                f"{name} cannot be ignored" if name in CATALOGUE else f"there is no finding {name}"
            )
            return word + did_you_mean(name, _IGNORED) * (name not in CATALOGUE)
    ignores |= {(key, name): _Ignore(until, reason) for name in names}
    return ""


def _sorted(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    found = pl.DataFrame(list(rows), schema=FINDINGS.schema)  # (no score: null)
    rank = pl.col("severity").replace_strict(SEVERITIES, range(3), return_dtype=pl.Int8)
    down = [False, True, *[False] * len(KEY), False]
    return found.sort([rank, "score", *KEY, "finding"], descending=down, nulls_last=True)
