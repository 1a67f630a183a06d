"""Generator of the tables in `docs/history.md` from the registry.

`python -m benchmarks.history_tables docs/history.md` rewrites them; a test keeps them up to
date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpabatch.history.columns import BOOL, INT, TEXT, Column, Table
from hpabatch.history.schema import TABLES

_HEADING = "\n## Tables\n"


def with_tables(page: str) -> str:
    """Return the page with the tables of the registry at its end."""
    head = page.partition(_HEADING)[0]
    return "".join([head, _HEADING, *(f"\n{_section(table)}" for table in TABLES.values())])


def _section(table: Table) -> str:
    key = ", ".join(f"**{name}**" if name == table.place else name for name in table.key)
    facts = [f"Key and order: {key}."]
    facts.append(f"Split by the UTC day of `{table.day}`." if table.day else "Not split by day.")
    if table.needed_by:
        facts.append(f"Needed by: {', '.join(table.needed_by)}.")
    lines = [
        f"### {table.name}",
        "",
        f"One row is {table.doc}. {' '.join(facts)}",
        "",
        "| column | type | may be | meaning |",
        "|---|---|---|---|",
    ]
    lines += [f"| `{c.name}` | {_type(c)} | {_may_be(c)} | {_meaning(c)} |" for c in table.columns]
    return "\n".join([*lines, ""])


def _type(column: Column) -> str:
    if column.json:
        return f"JSON {column.json}"
    if column.dtype == TEXT:
        return "string"
    if column.dtype == INT:
        return f"int64, {column.unit}" if column.unit else "int64"
    return "boolean" if column.dtype == BOOL else "timestamp"


def _may_be(column: Column) -> str:
    words = []
    if column.nullable:
        words.append("null")
    if column.optional:
        words.append("absent")
    return ", ".join(words)


def _meaning(column: Column) -> str:
    text = column.doc
    if column.not_before:
        text += f"; not before `{column.not_before}`"
    if column.fill is not None:
        text += f"; null is read as `{column.fill}`" if column.fill else "; null is read as empty"
    if column.minimum is not None or column.maximum is not None:
        low = "" if column.minimum is None else f"at least {column.minimum}"
        high = "" if column.maximum is None else f"at most {column.maximum}"
        text += f" ({', '.join(bound for bound in (low, high) if bound)})"
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(with_tables(Path(sys.argv[1]).read_text()))
