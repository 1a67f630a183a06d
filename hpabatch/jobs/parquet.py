"""Results as Parquet: zstd, texts by dictionary, the evidence in the metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import polars as pl

from hpabatch.history.checks import run_starts

EVIDENCE_KEY: Final = "hpabatch.evidence"
"""Name in a Parquet file's key-value metadata: the evidence as a JSON object of texts."""

ROW_GROUP_ROWS: Final = 1 << 20
COMPRESSION_LEVEL: Final = 3
# Only these columns get statistics, by which readers skip row groups: those of the other columns
# would take a third of the writing.
SORTED_BY: Final = ("cluster", "namespace", "hpa", "ts")
# Columns that need no mark for every value that is there, a fifth of the writing.
NEVER_NULL: Final = frozenset(
    {
        *SORTED_BY,
        "min_replicas",
        "max_replicas",
        "rescaled",
        "binding",
        "reason",
        "invalid_metrics",
    }
)
_BATCH_ROWS: Final = 1 << 16


def evidence_metadata(evidence: Mapping[str, str]) -> dict[str, str]:
    """Return the key-value metadata that a file of results has."""
    return {EVIDENCE_KEY: json.dumps(dict(evidence), sort_keys=True)}


def write_parquet(frame: pl.DataFrame, evidence: Mapping[str, str], sink: Path | IO[bytes]) -> None:
    """Write a frame as Parquet: zstd, texts by dictionary, evidence under `EVIDENCE_KEY`.

    The same frame and evidence give the same bytes with the same versions of this package and
    pyarrow. Rows are converted a row group at a time; texts cost least as Enum.

    Raises:
        OSError: the file cannot be written.
    """
    import pyarrow.parquet as pq

    dtypes = frame.schema
    whole = [name for name, dtype in dtypes.items() if dtype.is_integer()]
    times = [name for name, dtype in dtypes.items() if dtype.is_temporal()]
    texts = [name for name, dtype in dtypes.items() if _is_text(dtype)]
    schema = _arrow_schema(frame)
    with pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        # Sizes are few different numbers: cheaper by dictionary than by differences, and smaller.
        use_dictionary=[*texts, *whole, *_nested_paths(dtypes)],
        column_encoding=dict.fromkeys(times, "DELTA_BINARY_PACKED"),
        write_statistics=[name for name in SORTED_BY if name in dtypes],
        write_batch_size=_BATCH_ROWS,
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        writer.add_key_value_metadata(evidence_metadata(evidence))
        for first in range(0, max(frame.height, 1), ROW_GROUP_ROWS):
            rows = _arrow_table(frame.slice(first, ROW_GROUP_ROWS).rechunk(), schema)
            writer.write_table(rows, row_group_size=ROW_GROUP_ROWS)


def _is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical, pl.Enum)


def _nested_paths(dtypes: Mapping[str, pl.DataType]) -> list[str]:
    """Return the Parquet paths of the texts and whole numbers in columns of lists of structs."""
    return [
        f"{name}.list.element.{field.name}"
        for name, dtype in dtypes.items()
        if isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Struct)
        for field in dtype.inner.fields
        if _is_text(_instance(field.dtype)) or _instance(field.dtype).is_integer()
    ]


def _instance(dtype: Any) -> pl.DataType:
    found: pl.DataType = dtype() if isinstance(dtype, type) else dtype
    return found


def _nested_type(dtype: pl.DataType) -> Any:
    """Return the type of a value inside a list: texts are plain, their pages have dictionaries."""
    import pyarrow as pa

    if isinstance(dtype, pl.Struct):
        fields = [(f.name, _nested_type(_instance(f.dtype))) for f in dtype.fields]
        return pa.struct(fields)
    return pa.string() if _is_text(dtype) else _arrow_type(dtype)


def _arrow_type(dtype: pl.DataType) -> Any:
    import pyarrow as pa

    if isinstance(dtype, pl.List):
        return pa.list_(_nested_type(_instance(dtype.inner)))
    if _is_text(dtype):
        return pa.dictionary(pa.int32(), pa.string())
    if dtype.is_integer():
        return pa.int64()
    if dtype.is_temporal():
        return pa.timestamp("ms", tz="UTC")
    return pa.bool_() if dtype == pl.Boolean() else pa.float64()


def _arrow_schema(frame: pl.DataFrame) -> Any:
    import pyarrow as pa

    return pa.schema(
        [
            # A null where none should be is written as one; such a part joins with no other.
            pa.field(s.name, _arrow_type(s.dtype), s.name not in NEVER_NULL or s.has_nulls())
            for s in frame
        ]
    )


def _arrow_table(frame: pl.DataFrame, schema: Any) -> Any:
    import pyarrow as pa

    # The numbers of a Categorical depend on what else the process has seen, those of an Enum not.
    frame = frame.with_columns(pl.col(pl.Categorical).cast(pl.String))
    return pa.Table.from_arrays([_arrow_column(series) for series in frame], schema=schema)


def _arrow_column(series: pl.Series) -> Any:
    import pyarrow as pa

    wanted = _arrow_type(series.dtype)
    if series.dtype == pl.String():
        # Texts stand for many rows: only the first row of each run is converted.
        starts = run_starts(series.to_frame())
        array = series.gather(starts).to_arrow().dictionary_encode()
        run = np.repeat(
            np.arange(starts.size, dtype=np.int32), np.diff(np.append(starts, len(series)))
        )
        indices = array.indices.cast(wanted.index_type).take(pa.array(run))
        return pa.DictionaryArray.from_arrays(indices, array.dictionary.cast(wanted.value_type))
    array = series.to_arrow()
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(
            array.indices.cast(wanted.index_type), array.dictionary.cast(wanted.value_type)
        )
    return array.cast(wanted)
