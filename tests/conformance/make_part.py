"""Choose the compact committed part of the golden data; the same data give the same bytes.

HPABATCH_GOLDEN=folder python -m tests.conformance.make_part

Every distinguishing property of the big files is to occur: cases and timelines are taken greedily,
the one with the most new properties first. Timelines are cut, which is allowed: a tick depends on
earlier ones only. All rows of the unit tables are taken.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sys
from collections.abc import Callable, Hashable, Iterator
from itertools import pairwise
from pathlib import Path

from tests.conformance.golden import Json, golden_files, golden_folder, read_rows

_TARGET = Path(__file__).parent / "golden"
_CASES = 300
_TIMELINES = 16
_TICKS = 160
_RANDOM_PARTS = re.compile(r"[a-z-]*-\d+|\d+")

Properties = set[Hashable]


def case_properties(case: Json) -> Properties:
    """Return what a calculator case shows: kind, profile, tags, flags, its error's pattern."""
    expected, tags = case["expected"], case["tags"]
    source: Json = next((v for k, v in case["metric"].items() if k != "type"), {})
    kind = (tags[0], *sorted(source.get("target", {})))
    properties: Properties = {(kind, tag) for tag in tags[1:]}
    properties |= {
        (kind, flag)
        for flag in ("impl_defined", "int64_wrap", "order_dependent", "expected_v1_36")
        if case.get(flag)
    }
    properties |= {(kind, "tolerance", d) for d in case["flags"] if d.startswith("scale_")}
    if expected["error"] is not None:
        properties.add((tags[0], _RANDOM_PARTS.sub("#", expected["error"])))
    else:
        change = expected["replicas"] - case["spec_replicas"]
        properties.add((kind, tags[1], "up" if change > 0 else "down" if change else "same"))
    texts = re.findall(r'"(-?[\d.]+)([A-Za-z]*)"', json.dumps([case["metric"], case["pods"]]))
    return properties | {("quantity suffix", suffix) for _, suffix in texts}


def timeline_properties(timeline: Json) -> Properties:
    """Return what a timeline shows: tags, conditions and their changes, edits and faults."""
    properties: Properties = set(timeline["tags"]) | {("gate", *timeline["flags"])}
    for tick in timeline["ticks"]:
        properties |= tick.keys() - {"selector"}
        properties.add(("selector", tick.get("selector")))
    reasons = [
        {(c["type"], c["status"], c["reason"]) for c in e["conditions"] or ()}
        for e in timeline["expected"]
    ]
    behavior = timeline["hpa"]["spec"].get("behavior") is not None
    properties |= {("condition", behavior, c) for now in reasons for c in now}
    properties |= {("after", a) for before, now in pairwise(reasons) for a in now - before}
    return properties


def cut(timeline: Json) -> Json:
    """Return the first ticks of a timeline."""
    return timeline | {key: timeline[key][:_TICKS] for key in ("ticks", "expected")}


def choose(rows: list[Json], properties_of: Callable[[Json], Properties], count: int) -> list[Json]:
    """Return `count` rows that cover as many properties as can be, in their first order."""
    left = {k: properties_of(row) for k, row in enumerate(rows)}
    covered: Properties = set()
    chosen: list[int] = []
    while left and len(chosen) < count:
        best = max(left, key=lambda k: (len(left[k] - covered), -k))
        covered |= left.pop(best)
        chosen.append(best)
    return [rows[k] for k in sorted(chosen)]


def write_rows(path: Path, rows: list[Json]) -> None:
    """Write gzipped JSON Lines without a time stamp."""
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _all_rows(kind: str) -> Iterator[Json]:
    for path in golden_files(kind):
        yield from read_rows(path)


def main() -> None:
    """Write the part beside this file.

    Raises:
        SystemExit: HPABATCH_GOLDEN does not name another folder.
    """
    if golden_folder().resolve() == _TARGET.resolve():
        sys.exit("HPABATCH_GOLDEN: name the folder with the golden files")
    _TARGET.mkdir(exist_ok=True)
    cases = choose(list(_all_rows("calculator")), case_properties, _CASES)
    write_rows(_TARGET / "calculator_part.jsonl.gz", cases)
    timelines = choose([cut(t) for t in _all_rows("timeline")], timeline_properties, _TIMELINES)
    write_rows(_TARGET / "timeline_part.jsonl.gz", timelines)
    for path in golden_files("behavior"):
        shutil.copyfile(path, _TARGET / path.name)


if __name__ == "__main__":
    main()
