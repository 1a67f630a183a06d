"""Certificate of a recommendation: what it rests on, one JSON object per HPA."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

import hpabatch
from hpabatch.engine.advise.floor import floor_of
from hpabatch.engine.advise.frames import fold_rows, measures_of
from hpabatch.engine.advise.judge import TODAY, Judged
from hpabatch.engine.advise.run import Recommendation, Recommendations
from hpabatch.engine.advise.standing import saving_pct
from hpabatch.engine.advise.unit import KEY
from hpabatch.model.objects.encode import encode_spec
from hpabatch.model.settings.patch import patch_document

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


def certificate(item: Recommendation, found: Recommendations) -> dict[str, Any]:
    """Return the certificate of an HPA's recommendation; docs/recommend.md explains it."""
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
        "recommender": options.recommender,
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
    """Return both parts, the resamples and the folds."""
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
    """Return the objective of both settings on some blocks, and this HPA's measures."""
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
