"""Settings that are right and settings that are wrong, as `fidelity` answers on them.

    python -m benchmarks.answers_truth --seed 101 --hpas 100 --days 3 --work build/answers_truth

Controllers whose settings are known are recorded and thinned (`benchmarks.answers_record`). Each is
answered on with its true settings, and with settings that are wrong by one deviation each. Seeds
below 100 are for tuning.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from benchmarks.answers_record import (
    K8S,
    NEVER_PCT,
    Known,
    Source,
    import_source,
    memory_metric,
    record,
    stated,
)
from hpabatch.engine.fidelity.answer import RIGHT, UNTOLD, WRONG, answers
from hpabatch.engine.fidelity.walk import walk_shards
from hpabatch.engine.fleet.parameters import ReplayParameters
from hpabatch.engine.fleet.plan import plan_replay
from hpabatch.history.reader import open_history
from hpabatch.model.objects.hpa import Behavior, HPASpec, MetricSpec, ScalingRules
from hpabatch.model.quantity import Quantity

SOURCES: Final = (
    Source(15_000),
    Source(30_000),
    Source(60_000),
    Source(300_000),
    Source(15_000, windows=True),
    Source(30_000, windows=True),
    Source(60_000, windows=True),
    Source(300_000, windows=True),
    Source(15_000, pods=False),
    Source(60_000, pods=False),
)
WRONG_BY: Final = {
    # How settings are wrong: the deviation that would tell, as the truth's own answer names it.
    "target +10": "target +10 points",
    "target -10": "target -10 points",
    "window doubled": "scale-down window doubled",
    "window halved": "scale-down window halved",
    "tolerance": "the other tolerance",
    "metric": "",
}


def wrong_spec(known: Known, by: str) -> HPASpec | None:
    """Return a spec that is wrong by one deviation; None: this HPA has no such."""
    spec = known.truth.spec
    if by.startswith("target"):
        points = 10 if by.endswith("+10") else -10
        return replace(spec, metrics=tuple(_moved(m, points) for m in spec.metrics))
    if by.startswith("window"):
        rules = _side(spec, up=False)
        seconds = rules.stabilization_window_seconds
        seconds = 300 if seconds is None else seconds
        if not seconds:
            return None
        seconds = seconds * 2 if by.endswith("doubled") else seconds // 2
        return _with(spec, down=replace(rules, stabilization_window_seconds=seconds))
    if by == "tolerance":
        return _with(
            spec,
            up=_other_tolerance(_side(spec, up=True)),
            down=_other_tolerance(_side(spec, up=False)),
        )
    if known.memory_pct is None or not _never(spec.metrics[-1]):
        return None
    drives = memory_metric(max(int(known.memory_pct * 0.75), 1))
    return replace(spec, metrics=(*spec.metrics[:-1], drives))


def _moved(metric: MetricSpec, points: int) -> MetricSpec:
    source = metric.resource
    if source is None or _never(metric):
        return metric
    pct = max((source.target.average_utilization or 0) + points, 1)
    target = replace(source.target, average_utilization=pct)
    return replace(metric, resource=replace(source, target=target))


def _never(metric: MetricSpec) -> bool:
    source = metric.resource
    return source is not None and source.target.average_utilization == NEVER_PCT


def _side(spec: HPASpec, up: bool) -> ScalingRules:
    found = spec.behavior and (spec.behavior.scale_up if up else spec.behavior.scale_down)
    return found or ScalingRules()


def _other_tolerance(rules: ScalingRules) -> ScalingRules:
    now = 0.1 if rules.tolerance is None else rules.tolerance.approx_float()
    return replace(rules, tolerance=Quantity.parse("0.2" if now < 0.15 else "0.1"))


def _with(
    spec: HPASpec, up: ScalingRules | None = None, down: ScalingRules | None = None
) -> HPASpec:
    behavior = Behavior(
        scale_up=up or _side(spec, up=True), scale_down=down or _side(spec, up=False)
    )
    return replace(spec, behavior=behavior)


def answered(history: Path, known: Sequence[Known], by: str) -> pl.DataFrame:
    """Return the answers on a source's HPAs with true ("") or wrong settings."""
    pairs = [(k, k.truth.spec if not by else wrong_spec(k, by)) for k in known]
    kept = [(k, spec) for k, spec in pairs if spec is not None]
    hpas = stated([k for k, _ in kept], [spec for _, spec in kept if spec is not None])
    names = [(h.namespace, h.name) for h in hpas]
    wanted = pl.DataFrame(names, schema=["namespace", "hpa"], orient="row")
    plan = plan_replay(
        open_history(history), ReplayParameters(K8S), hpas,
        lambda frame: frame.join(
            wanted, on=["namespace", "hpa"], how="semi", maintain_order="left"
        ),
    )  # fmt: skip
    return pl.concat([answers(walk) for walk in walk_shards(plan)])


def of_source(history: Path, known: Sequence[Known]) -> Iterator[dict[str, Any]]:
    """Yield a row for each HPA and each way in which its settings are stated."""
    true = answered(history, known, "")
    told = {(r["namespace"], r["hpa"]): r["told_apart"] or "" for r in true.to_dicts()}
    for by in ("", *WRONG_BY):
        found = true if not by else answered(history, known, by)
        for row in found.to_dicts():
            key = row["namespace"], row["hpa"]
            would_show = bool(by and WRONG_BY[by]) and WRONG_BY[by] in told[key].split(", ")
            if by == "metric":  # the deviation is there in the wrong spec alone
                would_show = "without resource/memory" in (row["answer_why"] or "") and (
                    row["answer"] == WRONG
                )
            yield {"by": by, "detectable": would_show, **row}


def table_of(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row per source and way: how many settings, and the shares of each answer."""
    share = [(pl.col("answer") == a).mean().alias(a) for a in (RIGHT, WRONG, UNTOLD)]
    return rows.group_by("source", "by", maintain_order=True).agg(
        pl.len().alias("settings"),
        *share,
        pl.col("detectable").sum(),
        (pl.col("answer") == WRONG).filter("detectable").mean().alias("of_detectable_wrong"),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; print the table as measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hpas", type=int, default=100)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--work", type=Path, default=Path("build/answers_truth"))
    given = parser.parse_args(arguments)
    folder = given.work / f"{given.seed}-{given.hpas}-{given.days}"
    known, tables = record(given.hpas, given.seed, given.days, folder / "raw")
    found = []
    for source in SOURCES:
        history = import_source(tables, known, source, folder / source.name)
        rows = pl.DataFrame(list(of_source(history, known)), infer_schema_length=None)
        found.append(rows.with_columns(source=pl.lit(source.name)))
        with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=160, float_precision=3):
            print(table_of(found[-1]), flush=True)
    pl.concat(found, how="vertical_relaxed").write_parquet(folder / "answers.parquet")
    return 0


if __name__ == "__main__":
    sys.exit(main())
