"""Generator of docs/expressions.md from the tables and limits of the grammar."""

# ruff: noqa: E501 - a row of a Markdown table is one line

from __future__ import annotations

import sys
from pathlib import Path

from hpabatch.history.expressions.compiler import (
    MAX_ADDED,
    MAX_COMPILED_DEPTH,
    MAX_GROWTH,
    MAX_PATTERNS,
    MAX_SIZE,
)
from hpabatch.history.expressions.matches import MAX_PATTERN
from hpabatch.model.expressions.functions import (
    ALIASES,
    FUNCTIONS,
    PARTS,
    REFUSED,
    SYNTAX,
    TYPE_ALIASES,
    TYPES,
)
from hpabatch.model.expressions.parser import RESERVED
from hpabatch.model.expressions.tokens import MAX_CHARACTERS, MAX_DEPTH, MAX_NODES, MAX_VALUES

_HEAD = """\
# Expressions and conditions

Row expressions choose HPAs (`--where`, `where:` of scenarios and plants, `where=` in Python) and
rows of a table (`where:` of a map), and compute a map's columns (`sql:`). This page is made from
the code (`python -m hpabatch.history.expressions.documentation docs/expressions.md`).

```
hpabatch replay data/demo --out decisions.parquet --where "namespace = 'shop' AND max_replicas > 10"
```

```yaml
where: app = 'shop' AND service NOT LIKE 'test-%'
columns:
  workload: {sql: "REGEXP_REPLACE(pod, '-[a-z0-9]+-[a-z0-9]{5}$', '')"}
  cpu: {sql: "CAST(cpu_ms AS DOUBLE) / 60", unit: millicores}
```

The syntax is SQL's, without everything that reads more than one row: there are no subqueries, tables,
aggregates and windows, so that an expression neither opens files nor connects to anything. What is
wrong ends the command with exit code 2 and the position:

```
error: --where "namespce = 'shop'": unknown column 'namespce' at character 1; did you mean namespace?; ...
```

## Values

| written | is |
|---|---|
| `name`, `"name"`, `` `name` `` | a column; without quotes `Name` finds the column `name`, too (a map's columns are found as they are written) |
| `'text'`, `'it''s'` | a string |
| `5`, `-5` | a whole number of 64 bits |
| `0.5`, `1e3` | a floating-point number (DOUBLE) |
| `TRUE`, `FALSE`, `NULL` | in capitals or small letters, as all words |
| `DATE '2026-10-07'`, `TIMESTAMP '2026-10-07 14:03:00'` | a day; a timestamp, in UTC if it has no offset |
| `-- ...` to the line's end, `/* ... */` | a comment |

"""

_OPERATORS = """\
## Operators

The loosest first. Operators of a row of the table bind alike, from the left; comparisons do not
chain (`a < b < c` is refused).

| operator | is |
|---|---|
| `OR` | |
| `AND` | |
| `NOT` | |
| `IS [NOT] NULL`, `IS [NOT] TRUE`, `IS [NOT] FALSE`, `IS [NOT] DISTINCT FROM b` | never NULL |
| `=` `==` `<>` `!=` `<` `<=` `>` `>=`, `<=>` | comparisons of numbers, strings or times with their like; `<=>` is `IS NOT DISTINCT FROM` |
| `[NOT] IN (a, ...)`, `[NOT] BETWEEN a AND b` | both ends count |
| `[NOT] LIKE 'p'`, `[NOT] ILIKE 'p'` | `%` is any characters, `_` is one; ILIKE in any case |
| `~ 'p'`, `~* 'p'`, `!~ 'p'`, `!~* 'p'`, `[NOT] RLIKE 'p'`, `[NOT] REGEXP 'p'` | whether a part matches a regular expression (without look-around and back references); with `*` in any case |
| `+` `-` | |
| `*` `/` `%` | `/` gives a DOUBLE, also of whole numbers; `%` has the sign of the first |
| `-a`, `+a` | |
| `a \\|\\| b` | strings in a row; other values are converted; NULL if one is |
| `a::type` | the same as CAST |
| `CASE WHEN a THEN b ... ELSE c END`, `CASE a WHEN b THEN c ... END` | NULL without ELSE |

Arithmetic is done in 64 bits; whole numbers that do not fit wrap. What is divided by 0 is infinite
or NaN, a remainder of whole numbers NULL. A comparison with NULL is NULL, which counts as not true.
In `CASE`, `COALESCE` and `||`, a string among the values makes all of them strings. Where a
timestamp with a time zone meets one without, both count in UTC.

"""

_REST = """\
## What differs from SQL elsewhere

* `x IS TRUE` of NULL is FALSE and `x IS NOT TRUE` is TRUE, as the standard says.
* Numbers with a decimal point are DOUBLE: `ROUND(2.5)` is 2.
* `LENGTH(x) - 10` can be negative, and small integer columns do not wrap at 255.
* Conditions are TRUE, FALSE or NULL: `NOT 5` and `5 AND TRUE` are refused.
* There are no intervals: `EXTRACT(EPOCH FROM a) - EXTRACT(EPOCH FROM b)` are seconds.
* A whole quotient is `TRUNC(a / b)`.

"""


def page() -> str:
    """Return the page."""
    return _HEAD + _OPERATORS + _functions() + _types() + _limits() + _REST.rstrip() + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _functions() -> str:
    usages = {function.usage: function.does for function in FUNCTIONS.values()}
    usages |= {
        SYNTAX["CAST"]: "converted; a value that cannot be ends the command",
        SYNTAX["TRY_CAST"]: "converted; NULL where that is not possible",
        SYNTAX["EXTRACT"]: "a part of a date or timestamp",
        SYNTAX["IF"]: "the first value if the condition is true, otherwise the second",
    }
    rows = [f"| `{_cell(usage)}` | {_cell(usages[usage])} |" for usage in sorted(usages)]
    aliases = ", ".join(f"`{name}` ({ALIASES[name]})" for name in sorted(ALIASES))
    parts = ", ".join(f"`{name}`{f' ({does})' if does else ''}" for name, does in PARTS.items())
    lines = ["## Functions", "", "NULL gives NULL unless stated. Arguments in quotes are constants.",
             "", "| function | gives |", "|---|---|", *rows, "",
             f"Other names: {aliases}. Refused: {', '.join(sorted(REFUSED))}.", "",
             f"Parts for EXTRACT: {parts}."]  # fmt: skip
    return "\n".join(lines) + "\n\n"


def _types() -> str:
    rows = [
        f"| `{name}` | {', '.join(f'`{k}`' for k, v in TYPE_ALIASES.items() if v == name)} | {does} |"
        for name, does in TYPES.items()
    ]
    words = ", ".join(sorted(RESERVED))
    return "\n".join(
        ["## Types", "", "| type | other names | is |", "|---|---|---|", *rows, "",
         "A string becomes a DATE as `2026-10-07`; a TIMESTAMP as that, `2026-10-07 14:03`, "
         "`2026-10-07 14:03:00` or `2026-10-07T14:03:00.5`, without an offset.", "",
         f"Words that are columns only in double quotes: {words}."]
    ) + "\n\n"  # fmt: skip


def _limits() -> str:
    limits = {
        "characters": f"{MAX_CHARACTERS:,}",
        "constants in all `IN` lists": f"{MAX_VALUES:,}",
        "names, constants and operators besides": f"{MAX_NODES:,}",
        "levels of parentheses, calls, CASE, NOT and signs": str(MAX_DEPTH),
        "operators in a chain of `+ - * / %`, branches of CASE": f"about {MAX_COMPILED_DEPTH}",
        "operations after compilation (`%` and SUBSTR use an operand twice)": f"{MAX_SIZE:,}",
        "regular expressions and LIKE with `%` or `_` inside": str(MAX_PATTERNS),
        "characters of such a pattern": f"{MAX_PATTERN:,}",
        "a string that is made": f"{MAX_GROWTH} times the longest column of its row and "
        f"{MAX_ADDED:,} bytes",
    }
    rows = [f"| {what} | {limit} |" for what, limit in limits.items()]
    return "\n".join(["## Limits", "", "| at most | |", "|---|---|", *rows]) + "\n\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
