"""Generator of `docs/history.md` from the registry.

`python -m hpabatch.history.documentation docs/history.md` rewrites the page; a test keeps it up to
date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hpabatch.history.columns import BOOL, INT, TEXT, Column, Table
from hpabatch.history.schema import SCHEMA_KEY, SCHEMA_VERSION, TABLE_KEY, TABLES
from hpabatch.history.store.datafiles import MAX_FILE_ROWS, MAX_GROUP_ROWS, MIN_GROUP_ROWS

_PREAMBLE = f"""# A history

A history is a set of tables with the recording of one or more clusters. This page is generated from
the registry that reader and writer follow (`python -m hpabatch.history.documentation
docs/history.md`).

Schema version {SCHEMA_VERSION}. Times are UTC, milliseconds since 1970 (Parquet timestamp with unit
ms, adjusted to UTC). Quantities are whole numbers (int64) whose unit is the last word of the name:
`_ms`, `_milli` (thousandths), `_bytes`. A null means "not there", never a magic number. Of rows
with the same key the last one counts.

## Two layouts

**Flat**: a folder with one file `pods.parquet`, or one folder `pods/` of Parquet files, per table;
by any writer, in any order, of schema version 1 to {SCHEMA_VERSION}. Good for small histories and
for exchange. Version 4 has no table `hpa_context`; version 3 also has no table `passes`, no `error`
in `scales`, and a value in every row of the metric tables; version 2 also has no table
`provenance`; version 1 also has no `metric_fetches`, no `target` in `pod_requests` and
`pod_states`, and no `origin` in `pods`. Page checksums of files that hpabatch wrote
are verified before their first reading, once each time the history is opened. Reading
a file takes about 2 ms and 5 kB of memory: 10,000 files take about half a minute. A file that
would fill the memory is refused: columns of more than 1 GiB and 1000 times the file's size, a row
group of more than 67 million rows, categories of more than 1000 bytes on average.

**Store**: what hpabatch itself writes, in a local folder or at s3://, gs:// or abfs://
(tested with s3). A URL has no `?`, `#`, `%`, and no `.` or `..` as a name.

```
_log/00000000000000000001.json …                        commits
pod_metrics/cluster=prod/day=2026-10-07/<hash>.parquet  tables that are split by UTC day
pods/cluster=prod/<hash>.parquet                        the others
_work/…                                                 unfinished files, local stores only
```

* A data file counts only if a commit names it. A commit is one JSON file, created whole or not at
  all, under the next free number; a part with several tables and days appears at once.
* The newest state is the fold of all commits since the last checkpoint. `hpabatch history compact`
  merges the files of each cluster and day and writes a checkpoint. What it replaces stays for
  readers of the older state, and is removed by a compaction that comes a day later or more.
* Inside a file rows are sorted by the table's key, so that a place (namespace and the column in
  bold below) is contiguous. Row groups hold whole places, at least {MIN_GROUP_ROWS:,} rows each
  (except a file's last) and at most {MAX_GROUP_ROWS:,}; files at most {MAX_FILE_ROWS:,} rows.
* A commit names for each file: path, table, cluster, day, number of rows and bytes, sha256, length
  and sha256 of the Parquet footer, rows, bytes and CRC-32 of each row group, rows of each place,
  and the span of its times. Readers verify a file's size and footer before the first reading, and
  in a local folder the checksums of the row groups that they read, each once; `hpabatch history
  check` verifies everything. The commit itself ends with a sha256 of its contents.
* A part that takes longer than a day during a compaction may have to be written again; in that
  case nothing of it was added.
* In `pod_requests` and `pod_states` a row without target is replaced by a row with a target and
  otherwise the same key.
* A sample of a live recorder (method `recorder` in `provenance`) holds until a newer one of the
  same pod or series, or until a row without a value withdraws it. All times at which a recorder saw
  something are on one clock, that of `passes`: a decision saw everything before its pass. Where an
  API's sample is not later than the previous one, its `ts` is moved to 1 ms after that; in
  `pod_metrics` `window_ms` grows by as much, so that the sample's beginning stays. Several changes
  of one object in 1 ms are one row. A recorder keeps a spec if a controller can decide on it, even
  if today's API server would refuse it. A table without rows is absent, and in a store with
  `passes` no table is required. `pod_metrics` may be absent where other metrics were recorded and
  no HPA of the history has a metric of usage.
* In an object storage a failed request is repeated up to 4 times within a minute; one without a
  response ends after 30 s, so a stalled service ends the command after about a minute, with exit
  code 2. A commit whose response was lost is recognized by its bytes. An interrupted operation has
  no effect or its full effect, and the same command finishes it.
* Cluster names in paths keep letters, digits, `.`, `_` and `-`; every other byte becomes `~xx`.
* Encodings: zstd, dictionaries for texts, DELTA_BINARY_PACKED for numbers and times, page
  checksums. The Parquet key-value metadata holds `{SCHEMA_KEY}` and `{TABLE_KEY}`.

`hpabatch history migrate OLD NEW` copies a flat history, or a store, into a new store; a store with
other contents is refused.

## Tables
"""


def registry_markdown() -> str:
    """Return the page."""
    parts = [_PREAMBLE]
    for table in TABLES.values():
        parts.append(_section(table))
    return "\n".join(parts)


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
    Path(sys.argv[1]).write_text(registry_markdown())
