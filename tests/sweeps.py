"""Small sweeps, made by hand: frames as `hpabatch sweep` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from hpabatch.engine.advise.objective import MEASURES
from hpabatch.engine.columns.recorded import ABOVE_MINUTES, RECORDED_MEASURES, recorded_name
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.jobs.sweep_files import FORMAT
from hpabatch.model.objects.defaults import default_spec
from hpabatch.model.objects.hpa import HPASpec

START = datetime(2026, 9, 7, tzinfo=UTC)
COUNTS = ("rescales", "rescales_up", "rescales_down", "reversals")
SPEC: dict[str, Any] = {
    "scaleTargetRef": {"kind": "Deployment", "name": "api", "apiVersion": "apps/v1"},
    "minReplicas": 2,
    "maxReplicas": 10,
    "metrics": [
        {
            "type": "Resource",
            "resource": {
                "name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 60},
            },
        }
    ],
}
_UNKNOWN = ("cost", "waiting", *ABOVE_MINUTES)
Values = Mapping[str, Sequence[float | None]]
"""By measure a value per block."""


class SweepMaker:
    """Collects HPAs and what settings came to; `settings` are named by their field values.

    A measure that no block names is 0, `waiting`, `cost` and minutes above assumed ceilings are not
    known; `recorded` has what was recorded of today's setting, by measure and block.
    """

    def __init__(
        self, settings: Sequence[Mapping[str, str]], block: str = "week", hours: float | None = None
    ) -> None:
        self.settings: list[dict[str, str]] = [{}, *(dict(s) for s in settings)]
        self.block = block
        self.hours = hours or {"week": 168.0, "day": 24.0}[block]
        self.hpas: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.blocks: list[dict[str, Any]] = []

    def add(
        self,
        hpa: str,
        came_to: Mapping[int, Values],
        *,
        unit: str | None = None,
        spec: Mapping[str, Any] | None = None,
        hours: Sequence[float] | None = None,
        first: int = 0,
        unusable: Mapping[int, str] | None = None,
        recorded: Values | None = None,
        cluster: str = "east",
        **facts: Any,
    ) -> SweepMaker:
        """Add an HPA with what each setting id came to; `first` is its first block."""
        key = {"cluster": cluster, "namespace": "shop", "hpa": hpa}
        count = len(next(iter(next(iter(came_to.values())).values())))
        lengths = list(hours or [self.hours] * count)
        unit = unit or f"{cluster}/shop/{hpa}"
        self.hpas.append(
            key
            | {
                "unit": unit,
                "target_kind": "Deployment",
                "target": hpa,
                "spec": json.dumps(spec or SPEC),
                "min_replicas": 2,
                "max_replicas": 10,
                "cpu_milli": 500,
                "memory_milli": None,
                "days": sum(lengths) / 24.0,
                "blocks": count,
                "advice": True,
                "why_not": None,
                "plant_unscored": None,
                "plant_why_not": None,
                "plant_skill": 0.8,
                "plant_skill_low": 0.7,
                "plant_skill_high": 0.9,
                "controller_answer": "right",
                "controller_explained_share": 0.9,
                "problems": "",
                "censored_pct": 0.0,
                "ceiling": "recorded",
                "metadata": None,
                "availability": None,
            }
            | facts
        )
        for setting_id, values in came_to.items():
            why = (unusable or {}).get(setting_id, "")
            self.results.append(
                key
                | {"unit": unit, "setting_id": setting_id, "setting": self._name(setting_id)}
                | {"currency": None, "usable": why == "", "why_not": why}
            )
            for b in range(count):
                start = START + timedelta(hours=self.hours * (first + b))
                sums = {name: values[name][b] if name in values else None for name in MEASURES}
                told = recorded if recorded is not None and setting_id == 0 else {}
                self.blocks.append(
                    key
                    | {"setting_id": setting_id, "block": b, "start": start, "hours": lengths[b]}
                    | {
                        name: 0 if value is None and name not in (*values, *_UNKNOWN) else value
                        for name, value in sums.items()
                    }
                    | {
                        recorded_name(name): told[name][b] if name in told else None
                        for name in RECORDED_MEASURES
                    }
                )
        return self

    def _name(self, setting_id: int) -> str:
        values = self.settings[setting_id]
        return " ".join(f"{field}={value}" for field, value in values.items()) or "today"

    def result(self) -> SweepResult:
        """Return the sweep."""
        fields = list(dict.fromkeys(field for setting in self.settings for field in setting))
        settings = pl.DataFrame(
            [
                {"setting_id": k, "setting": self._name(k)} | {f: s.get(f) for f in fields}
                for k, s in enumerate(self.settings)
            ],
            schema={"setting_id": pl.Int32, "setting": pl.String}
            | dict.fromkeys(fields, pl.String),
        )
        measures: dict[str, Any] = {n: pl.Int64 if n in COUNTS else pl.Float64 for n in MEASURES}
        keys: dict[str, Any] = {"cluster": pl.String, "namespace": pl.String, "hpa": pl.String}
        blocks = pl.DataFrame(
            self.blocks,
            schema=keys
            | {"setting_id": pl.Int32, "block": pl.Int32, "start": pl.Datetime("ms", "UTC")}
            | {"hours": pl.Float64}
            | measures
            | {recorded_name(name): pl.Float64 for name in RECORDED_MEASURES},
        )
        hpas = pl.DataFrame(
            self.hpas,
            infer_schema_length=None,
            schema_overrides={
                "advice": pl.Boolean,
                "why_not": pl.String,
                "plant_skill": pl.Float64,
                "memory_milli": pl.Int64,
                "blocks": pl.Int32,
                "metadata": pl.String,
                "availability": pl.String,
            },
        )
        results = pl.DataFrame(self.results, schema_overrides={"setting_id": pl.Int32})
        return SweepResult(
            settings,
            hpas,
            results.with_columns(currency=pl.lit(None, pl.String)),
            blocks,
            {"hpabatch": "0.6.0", "k8s": "1.37", "k8s_evidence": "from sources"},
            {"block": {"unit": self.block}, "seed": 0},
        )

    def write(self, folder: Path) -> Path:
        """Write the sweep's folder."""
        found = self.result()
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("settings", "hpas", "results", "blocks"):
            getattr(found, name).write_parquet(folder / f"{name}.parquet")
        about = {"format": FORMAT, "evidence": found.evidence, "parameters": found.parameters}
        (folder / "sweep.json").write_text(json.dumps(about))
        return folder


def weeks(pods: Sequence[float], **others: Sequence[float | None]) -> Values:
    """Return the measures of a setting: pod-hours and others by block."""
    return {"pod_hours": pods, "perfect_pod_hours": [p / 2 for p in pods], **others}


def put(values: Mapping[str, str], spec: HPASpec) -> HPASpec:
    """Put a cpu target and bounds into a spec, as settings do."""
    spec = default_spec(spec)
    if "target" in values:
        resource = spec.metrics[0].resource
        assert resource is not None
        target = replace(resource.target, average_utilization=int(values["target"]))
        metric = replace(spec.metrics[0], resource=replace(resource, target=target))
        spec = replace(spec, metrics=(metric, *spec.metrics[1:]))
    if "max" in values:
        spec = replace(spec, max_replicas=int(values["max"]))
    if "min" in values:
        spec = replace(spec, min_replicas=int(values["min"]))
    return spec
