"""Recommendations as frames (HPAs, candidates, folds of the walk-forward), and certificates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

import numpy as np
import polars as pl

import hpabatch
from hpabatch.engine.advise.answer import CHANGE, NONE
from hpabatch.engine.advise.bounds import floor_of
from hpabatch.engine.advise.judge import TODAY, Judged, front_of, saving_pct
from hpabatch.engine.advise.rules import remedies
from hpabatch.engine.advise.run import Recommendation, Recommendations, UnitAdvice
from hpabatch.engine.advise.unit import KEY, TODAY_ID, Array, Key, UnitBlocks, key_of
from hpabatch.engine.columns.column import Table
from hpabatch.engine.columns.recorded import ABOVE_MINUTES, recorded_name
from hpabatch.engine.columns.sweep import ADVICE, CANDIDATES, FOLDS
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.settings.patch import patch_document

SHOWN: Final = (
    "pod_hours",
    "core_hours",
    "gib_hours",
    "cost",
    "saturated_minutes",
    *ABOVE_MINUTES,
    "unserved",
    "waiting",
    "short_pod_hours",
    "rescales",
    "at_max_minutes",
)
RECORDED_SHOWN: Final = ("pod_hours", "saturated_minutes", "rescales")
CONTROLLER: Final = ("controller_answer", "controller_explained_share")
REGRET: Final = "regret_pct"

COLUMNS: Final = ADVICE.meanings

CANDIDATE_COLUMNS: Final = CANDIDATES.meanings

FOLD_COLUMNS: Final = FOLDS.meanings

Row = dict[str, Any]


def advice_frame(found: Recommendations) -> pl.DataFrame:
    """Return one row per HPA with the columns of `COLUMNS`."""
    currencies = _currencies(found)
    rows = []
    for item in found.items:
        row: Row = dict.fromkeys(COLUMNS)
        row |= dict(zip(KEY, item.key, strict=True))
        row |= {
            "unit": item.unit,
            "answer": item.answer,
            "setting_id": item.setting_id,
            "setting": None if item.setting_id is None else found.specs.names[item.setting_id],
            "considered": None
            if item.considered_id is None
            else found.specs.names[item.considered_id],
            "confidence": item.confidence,
            "reasons": "; ".join(item.reasons),
            "doubts": "; ".join(doubt.long for doubt in item.doubts) or None,
            "surer": "; ".join(remedies(item.doubts)) or None,
            "notes": "; ".join(item.notes),
            "goal": str(found.options.goal),
            "currency": currencies.get(item.key),
            "patch": json.dumps(item.patch) if item.patch else None,
            "source": None if item.source is None else item.source.name,
            "withheld": item.withheld or None,
        }
        names = ("days", "ceiling", "advice", "plant_skill", *CONTROLLER)
        row |= {name: found.facts[item.key][name] for name in names}
        if item.advice is not None:
            row["members"] = len(item.advice.unit.members)
            if item.advice.judged is not None:
                row |= _judged(item.advice.judged, found.options.rules.robust)
                row |= _own(item.advice.judged, item.member)
        rows.append(row)
    for skipped in found.skipped:
        row = dict.fromkeys(COLUMNS) | dict(zip(KEY, skipped.key, strict=True))
        row |= {"answer": NONE, "reasons": skipped.reason, "goal": str(found.options.goal)}
        rows.append(row)
    return pl.DataFrame(rows, schema=_schema(ADVICE))


AMOUNTS: Final = ("cost", "core_hours", "pod_hours")
_PODS_RECORDED: Final = recorded_name("pod_hours")


def today_sums(found: Recommendations, names: Sequence[str]) -> dict[Key, Row]:
    """Return hours and sums of each HPA under today's setting; None: not always known."""
    blocks = found.result.blocks
    today = blocks.filter((pl.col("setting_id") == TODAY_ID) & (pl.col("hours") > 0))
    summed = today.group_by(KEY, maintain_order=True).agg(
        pl.col("hours").sum(),
        *(
            pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()).alias(name)
            for name in names
        ),
    )
    return {key_of(row): row for row in summed.iter_rows(named=True)}


def amounts(found: Recommendations) -> dict[Key, dict[str, dict[str, float]]]:
    """Return by HPA and measure of `AMOUNTS` what it takes in an hour, of all blocks.

    `now` is the recorded amount where the recorded pods are known (a pod costs what it does in the
    model), `modelled` that of today's setting; `after` is with its answer, `low` and `high` the
    ends of that: the interval is known only of the saving of the objective.
    """
    sums = today_sums(found, (*AMOUNTS, _PODS_RECORDED))
    told: dict[Key, dict[str, dict[str, float]]] = {}
    for item in found.items:
        row = sums.get(item.key, {})
        pods, recorded = row.get("pod_hours"), row.get(_PODS_RECORDED)
        scale = recorded / pods if pods and recorded is not None else 1.0
        own = told[item.key] = {}
        for name in AMOUNTS:
            if row.get(name) is None:
                continue
            modelled = row[name] / row["hours"]
            left = _left(item, found, name)
            parts = {"after": left[0], "low": min(left), "high": max(left)}
            own[name] = {"now": modelled * scale, "modelled": modelled} | {
                part: modelled * scale * share for part, share in parts.items()
            }
    return told


def _left(item: Recommendation, found: Recommendations, name: str) -> list[float]:
    """Return the part that a change leaves of a measure, then the ends of its interval."""
    judged = None if item.advice is None else item.advice.judged
    if item.answer != CHANGE or judged is None:
        return [1.0]
    last = slice(judged.split, None)
    before, after = (
        measures_of(judged.unit, item.member, place, last).get(name)
        for place in (TODAY, judged.considered)
    )
    if not before or after is None:
        return [1.0]
    sure = judged.resampled if name == found.options.goal.minimize else None
    ends = () if sure is None else (sure.low_pct, sure.high_pct)
    return [after / before, *(1.0 - pct / 100.0 for pct in ends if pct is not None)]


def _currencies(found: Recommendations) -> dict[tuple[str, ...], str]:
    results = found.result.results
    if "currency" not in results.columns:
        return {}
    rows = results.select(*KEY, "currency").unique().iter_rows()
    return {row[:3]: row[3] for row in rows}


def _judged(found: Judged, robust: str) -> Row:
    place, unit = found.considered, found.unit
    trained, judged = found.trained.objective, found.judged.objective
    held = found.trained.holds(robust), found.judged.holds(robust)
    chosen = [fold for fold in found.folds if fold.choice is not None]
    sure = found.resampled
    return {
        "training_blocks": found.split,
        "judged_blocks": unit.blocks - found.split,
        "judged_from": unit.starts[found.split],
        "training_today": _known(trained[TODAY]),
        "training_choice": _known(trained[place]),
        "training_saving_pct": saving_pct(float(trained[place]), float(trained[TODAY])),
        "saving_low_pct": None if sure is None else sure.low_pct,
        "saving_high_pct": None if sure is None else sure.high_pct,
        "better_share": None if sure is None else sure.better_share,
        "judged_today": _known(judged[TODAY]),
        "judged_choice": _known(judged[place]),
        "judged_saving_pct": saving_pct(float(judged[place]), float(judged[TODAY])),
        "slo_today_training": bool(held[0][TODAY]),
        "slo_choice_training": bool(held[0][place]),
        "slo_today_judged": bool(held[1][TODAY]),
        "slo_choice_judged": bool(held[1][place]),
        "folds": len(chosen),
        "folds_changed": sum(fold.choice != TODAY for fold in chosen),
        "folds_better": sum(fold.better is True for fold in chosen),
        "folds_held": sum(fold.holds is True for fold in chosen),
    }


def _own(found: Judged, member: int) -> Row:
    judged = slice(found.split, None)
    row: Row = {"hours": float(found.unit.hours[member, judged].sum())}
    for which, place in (("today", TODAY), ("choice", found.considered)):
        sums = measures_of(found.unit, member, place, judged)
        row |= {f"{name}_{which}": sums.get(name) for name in (*SHOWN, REGRET)}
    recorded = recorded_of(found.unit, member, judged)
    return row | {recorded_name(name): value for name, value in recorded.items()}


def recorded_of(unit: UnitBlocks, member: int, blocks: slice) -> dict[str, float | None]:
    """Return what was recorded of a member's measures, summed over blocks."""
    return {
        name: _known(float(unit.recorded[name][member, blocks].sum()))
        for name in RECORDED_SHOWN
        if name in unit.recorded
    }


def measures_of(
    unit: UnitBlocks, member: int, place: int, blocks: slice
) -> dict[str, float | None]:
    """Return a member's measures under a setting, summed over blocks, with `regret_pct`."""
    sums = {
        name: float(values[member, place, blocks].sum()) for name, values in unit.values.items()
    }
    regret = _regret(*(np.array(sums.get(n, np.nan)) for n in _REGRET_OF))
    return {name: _known(value) for name, value in sums.items()} | {REGRET: _known(float(regret))}


_REGRET_OF: Final = ("pod_hours", "short_pod_hours", "perfect_pod_hours")


def _regret(pods: Array, short: Array, perfect: Array) -> Array:
    """Return surplus and missing pod-hours in percent of a perfect forecast's."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Array = 100.0 * (np.maximum(pods + short - perfect, 0.0) + short) / perfect
    return np.where(perfect > 0, found, np.nan)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def candidates_frame(found: Recommendations) -> pl.DataFrame:
    """Return one row per unit and setting with the columns of `CANDIDATE_COLUMNS`."""
    rows = [row for advice in found.units for row in _candidates(found, advice)]
    return pl.DataFrame(rows, schema=_schema(CANDIDATES), infer_schema_length=None)


def _candidates(found: Recommendations, advice: UnitAdvice) -> Iterator[Row]:
    unit, robust = advice.unit, found.options.rules.robust
    whole, judged = slice(None), advice.judged
    goal = unit.total(found.options.goal.minimize, whole)
    names = ("saturated_minutes", "unserved", "waiting", "rescales")
    sums = {name: unit.total(name, whole) for name in names if name in unit.values}
    points = [goal, *(values for values in sums.values() if not np.isnan(values).all())]
    sound = unit.outside_share(whole) <= unit.most_outside
    sound[TODAY] = True
    front = np.zeros(unit.settings.size, dtype=bool)
    front[sound] = front_of(np.stack(points, axis=1)[sound])
    parts = (unit.total(n, whole) for n in _REGRET_OF if n in unit.values)
    regret = _regret(*parts) if all(n in unit.values for n in _REGRET_OF) else goal * np.nan
    held = None if judged is None else (judged.trained.holds(robust), judged.judged.holds(robust))
    for place, setting_id in enumerate(unit.settings.tolist()):
        row: Row = dict.fromkeys(CANDIDATE_COLUMNS)
        row |= {
            "unit": unit.name,
            "setting_id": setting_id,
            "setting": found.specs.names[setting_id],
            "candidate": advice.why_not[place] == "",
            "why_not": advice.why_not[place],
            "objective": _known(goal[place]),
            "regret_pct": _known(regret[place]),
            "on_front": bool(front[place]),
        }
        row |= {name: _known(values[place]) for name, values in sums.items()}
        if judged is not None and held is not None:
            row |= {
                "objective_training": _known(judged.trained.objective[place]),
                "objective_judged": _known(judged.judged.objective[place]),
                "slo_training": bool(held[0][place]),
                "slo_judged": bool(held[1][place]),
            }
        yield row


def folds_frame(found: Recommendations) -> pl.DataFrame:
    """Return one row per unit and fold with the columns of `FOLD_COLUMNS`."""
    rows = [
        row
        for advice in found.units
        if advice.judged is not None
        for row in fold_rows(advice.judged, found.specs.names)
    ]
    return pl.DataFrame(rows, schema=_schema(FOLDS))


def fold_rows(judged: Judged, names: Mapping[int, str]) -> Iterator[Row]:
    """Yield a unit's folds as rows."""
    unit = judged.unit
    for fold in judged.folds:
        setting_id = None if fold.choice is None else int(unit.settings[fold.choice])
        saved = None if fold.objective is None else saving_pct(fold.objective, fold.today)
        yield {
            "unit": unit.name,
            "block": fold.block,
            "start": unit.starts[fold.block],
            "setting_id": setting_id,
            "setting": None if setting_id is None else names[setting_id],
            "today": _known(fold.today),
            "choice": None if fold.objective is None else _known(fold.objective),
            "saving_pct": saved,
            "slo_today": fold.today_holds,
            "slo_choice": fold.holds,
            "better": fold.better,
        }


def _schema(columns: Table) -> dict[str, Any]:
    """Return the type of every column; integers are small."""
    types = columns.schema.items()
    return {name: pl.Int32() if kind == pl.Int64() else kind for name, kind in types}


FORMAT: Final = 2
KIND: Final = "hpabatch recommendation"
_SCORES: Final = (
    "advice",
    "why_not",
    "plant_skill",
    "controller_answer",
    "controller_explained_share",
    "problems",
    "censored_pct",
    "ceiling",
    "days",
)


def certificate(
    item: Recommendation, found: Recommendations, own: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Return the certificate of an HPA's recommendation; docs/recommend.md explains it.

    `own` are its `amounts`.
    """
    cluster, namespace, hpa = item.key
    names = found.specs.names
    patch = None
    if item.patch and not item.withheld:
        patch = patch_document(hpa, namespace, item.patch, found.patch_version)
    return {
        "kind": KIND,
        "format": FORMAT,
        "hpabatch": hpabatch.__version__,
        "cluster": cluster,
        "namespace": namespace,
        "hpa": hpa,
        "unit": item.unit,
        "answer": item.answer,
        "setting": None if item.setting_id is None else names[item.setting_id],
        "considered": None if item.considered_id is None else names[item.considered_id],
        "confidence": item.confidence,
        "reasons": list(item.reasons),
        "doubts": [doubt._asdict() for doubt in item.doubts],
        "notes": list(item.notes),
        "spec": {
            "today": encode_spec(item.today),
            "recommended": None if item.wanted is None else encode_spec(item.wanted),
        },
        "patch": patch,
        "withheld": item.withheld or None,
        "floor": _floor(item, found),
        "parameters": parameters(found),
        "amounts": own,
        "scores": _scores(item, found),
        "judging": None
        if item.advice is None or item.advice.judged is None
        else _judging(item, item.advice.judged, found),
        "evidence": dict(found.result.evidence),
        "sweep": {"sha256": found.options.sweep or None, "parameters": found.result.parameters},
    }


def parameters(found: Recommendations) -> dict[str, Any]:
    """Return all parameters of the request, defaults included."""
    options = found.options
    return {
        "minimize": options.goal.minimize,
        "minimize_source": options.goal.source,
        "slos": [slo.text for slo in options.goal.slos],
        "bounds": dict(options.bounds.texts),
        "bounds_given": sorted(options.bounds.stated),
        "min_history_days": options.min_history_days,
        "accept": options.accept,
        "instance_label": options.instance_label,
        "objects": options.objects or None,
        **asdict(options.rules),
    }


def _floor(item: Recommendation, found: Recommendations) -> dict[str, Any] | None:
    """Return the floor of minReplicas and its reason, None where it is lifted."""
    floor = floor_of(found.specs.contexts[item.key], found.options.bounds)
    return None if floor is None else {"min_replicas": floor.pods, "why": floor.why}


def _scores(item: Recommendation, found: Recommendations) -> dict[str, Any]:
    row = found.facts[item.key]
    return {name: row.get(name) for name in _SCORES}


def _judging(item: Recommendation, judged: Judged, found: Recommendations) -> dict[str, Any]:
    assert item.advice is not None
    sure = judged.resampled
    training, last = slice(0, judged.split), slice(judged.split, None)
    return {
        "members": [dict(zip(KEY, key, strict=True)) for key in judged.unit.members],
        "candidates": sum(why == "" for why in item.advice.why_not),
        "settings": len(item.advice.why_not),
        "training": _part(item, judged, found, training),
        "judged": _part(item, judged, found, last),
        "resampled": None if sure is None else asdict(sure),
        "folds": [
            {k: _plain(v) for k, v in row.items() if k != "unit"}
            for row in fold_rows(judged, found.specs.names)
        ],
    }


def _part(
    item: Recommendation, judged: Judged, found: Recommendations, blocks: slice
) -> dict[str, Any]:
    unit, robust = judged.unit, found.options.rules.robust
    stands = judged.trained if blocks.start == 0 else judged.judged
    place, held = judged.considered, stands.holds(robust)
    today, choice = float(stands.objective[TODAY]), float(stands.objective[place])
    starts = unit.starts[blocks]
    settings = {"today": TODAY, "considered": place}
    return {
        "blocks": len(starts),
        "from": _plain(starts[0]),
        "hours": float(unit.hours[item.member, blocks].sum()),
        "saving_pct": saving_pct(choice, today),
        **{
            name: {
                "objective": None if value != value else value,
                "slo_holds": bool(held[s]),
                "slos": list(_slos(judged, blocks, s, item.member)),
                "measures": measures_of(unit, item.member, s, blocks),
                "recorded": recorded_of(unit, item.member, blocks) if s == TODAY else {},
            }
            for (name, s), value in zip(settings.items(), (today, choice), strict=True)
        },
    }


def _slos(judged: Judged, blocks: slice, place: int, member: int) -> Iterator[dict[str, Any]]:
    """Yield this HPA's value of each SLO, on average and at worst."""
    stands = judged.trained if blocks.start == 0 else judged.judged
    for k, slo in enumerate(stands.slos):
        mean, worst = float(stands.mean[k, member, place]), float(stands.worst[k, member, place])
        yield {
            "slo": slo.text,
            "unit": slo.unit,
            "mean": None if mean != mean else slo.shown(mean),
            "worst": None if worst != worst else slo.shown(worst),
        }


def _plain(value: object) -> object:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
