"""Sizes of scale targets, as rows of the table scales.

Generic in the kind: `kube_deployment_spec_replicas{deployment=…}` and its like of every other kind.
kube-state-metrics exports no selector of a scale.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from hpabatch.history.columns import INT32_MAX
from hpabatch.importers.common.continued import is_new
from hpabatch.importers.prometheus.client.samples import Findings, Span
from hpabatch.importers.prometheus.reading.gauges import Gauge

SCALES: Final = pl.Schema(
    {
        **dict.fromkeys(("namespace", "target_kind", "target"), pl.String()),
        **dict.fromkeys(("ts", "spec_replicas", "status_replicas"), pl.Int64()),
        "selector": pl.String(),
    }
)

_SIZES = ("spec_replicas", "status_replicas")


def scale_rows(
    kind: str,
    label: str,
    spec: Gauge,
    status: Gauge,
    span: Span,
    *,
    initial: bool,
    findings: Findings | None = None,
) -> pl.DataFrame:
    """Return the changes of targets' sizes: at each change of either gauge, the latest of both.

    Args:
        kind: of the targets, as in scaleTargetRef.
        label: with their name.
        spec: spec.replicas, by namespace and label.
        status: status.replicas, alike. Where one of both says nothing, it is as the other one.
        span: the window.
        initial: whether the sizes at span.after_ms are written, too.
        findings: gets ("assumed", …) per target of which only one of both is known, and
            ("value", …) per size that is none.

    Returns:
        SCALES (ts in ms; selector null), sorted by namespace, target and ts.
    """
    noted = Findings() if findings is None else findings
    key = ["namespace", label]
    parts = [
        _whole(gauge.changes, noted).select(*key, "ts", pl.col("value").alias(name))
        for gauge, name in zip((spec, status), _SIZES, strict=True)
    ]
    rows = pl.concat(parts, how="diagonal").group_by([*key, "ts"]).agg(pl.col(_SIZES).max())
    rows = rows.drop_nulls(key).sort([*key, "ts"])
    rows = rows.with_columns(pl.col(_SIZES).forward_fill().over(key))
    unknown = rows.group_by(key).agg(pl.col(_SIZES).is_null().all())
    for name in _SIZES:
        noted.note("assumed", f"{name} of a {kind}: as its other size", int(unknown[name].sum()))
    spec_of, status_of = (pl.col(name) for name in _SIZES)
    rows = rows.with_columns(
        spec_replicas=pl.coalesce(spec_of, status_of),
        status_replicas=pl.coalesce(status_of, spec_of),
    )
    rows = rows.filter(is_new(key, _SIZES))
    if not initial:
        rows = rows.filter(pl.col("ts") > span.after_ms)
    named = rows.rename({label: "target"}).with_columns(
        target_kind=pl.lit(kind), selector=pl.lit(None, dtype=pl.String)
    )
    return named.select(list(SCALES)).cast(SCALES)


def _whole(changes: pl.DataFrame, findings: Findings) -> pl.DataFrame:
    """Return changes whose value can be a size."""
    good = changes.filter(pl.col("value").is_between(0, INT32_MAX))
    findings.note("value", "a size that is none", changes.height - good.height)
    return good.with_columns(pl.col("value").round(0).cast(pl.Int64))
