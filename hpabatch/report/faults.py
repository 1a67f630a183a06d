"""Faults for programs: SARIF 2.1.0 for code hosts, JUnit XML for CI servers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from hpabatch import __version__
from hpabatch.engine.findings.catalogue import CATALOGUE
from hpabatch.inputs.manifests import STDIN
from hpabatch.model.printable import printable_line
from hpabatch.report.base import Fault

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"high": "error", "medium": "warning", "low": "note"}
_PAGE: Final = "docs/findings.md"


def sarif_text(faults: Iterable[Fault]) -> str:
    """Return a SARIF log of one run; ignored faults are suppressed results."""
    found = list(faults)
    names = list(dict.fromkeys(fault.finding for fault in found))
    driver = {"name": "hpabatch", "version": __version__, "rules": list(map(_rule, names))}
    results = [_result(fault, names.index(fault.finding)) for fault in found]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(name: str) -> dict[str, Any]:
    kind = CATALOGUE[name]
    return {
        "id": name,
        "shortDescription": {"text": name.replace("_", " ")},
        "help": {
            "text": f"{_sarif(kind.fix)} ({_PAGE})",
            "markdown": f"{_sarif(kind.fix)} ([{_PAGE}]({_PAGE}#{name}))",
        },
        "defaultConfiguration": {"level": _LEVELS[kind.severity]},
    }


def _result(fault: Fault, index: int) -> dict[str, Any]:
    named, part = printable_line(fault.name), printable_line(fault.part)
    found: dict[str, Any] = {
        "ruleId": fault.finding,
        "ruleIndex": index,
        "level": _LEVELS[CATALOGUE[fault.finding].severity],
        "message": {"text": _sarif(f"{fault.name}: {fault.text}" if named else fault.text)},
        # (lines move; the HPA and what is wrong with it stay)
        "partialFingerprints": {"hpabatch/v1": f"{named}:{fault.finding}" + (part and f":{part}")},
    }
    place: dict[str, Any] = {}
    if named:
        place["logicalLocations"] = [{"fullyQualifiedName": named, "kind": "resource"}]
    if fault.source and fault.source != STDIN:
        path = Path(fault.source)
        raw = str(path).encode("utf-8", "surrogateescape")
        uri = f"file://{quote(raw)}" if path.is_absolute() else quote(raw)
        physical = {"artifactLocation": {"uri": uri}, "region": {"startLine": max(fault.line, 1)}}
        place["physicalLocation"] = physical
    if place:
        found["locations"] = [place]
    if fault.ignored:
        found["suppressions"] = [{"kind": "external", "justification": printable_line(fault.text)}]
    return found


def _sarif(text: str) -> str:
    """Return a line of text as SARIF's messages have it, in which brackets make links."""
    line = printable_line(text).replace("\\", "\\\\")
    return line.replace("[", "\\[").replace("]", "\\]")


def junit_text(faults: Iterable[Fault]) -> str:
    """Return a JUnit report: a case for each fault, one that passes where there is none."""
    found = sorted(faults, key=lambda fault: fault.name)
    cases = []
    for fault in found:
        kind = _attribute(CATALOGUE[fault.finding].severity)
        head = f"classname={_attribute(fault.name or 'fleet')} name={_attribute(fault.finding)}"
        if fault.source:
            head += f' file={_attribute(fault.source)} line="{fault.line}"'
        message, text = _attribute(fault.text), escape(printable_line(fault.text))
        inner = f"<failure message={message} type={kind}>{text}</failure>"
        if fault.ignored:
            inner = f"<skipped message={message}/>"
        cases.append(f"<testcase {head}>{inner}</testcase>")
    failures = sum(not fault.ignored for fault in found)
    cases = cases or ['<testcase classname="hpabatch" name="no finding"/>']
    counts = f'tests="{len(cases)}" failures="{failures}" skipped="{len(found) - failures}"'
    return "\n".join([
        '<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>",
        f'<testsuite name="hpabatch" {counts} errors="0">', *cases, "</testsuite>", "</testsuites>",
        "",
    ])  # fmt: skip


def _attribute(text: str) -> str:
    return quoteattr(printable_line(text))
