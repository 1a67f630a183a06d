"""HPAs of an imported table: one template with exceptions by workload, and those of objects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from hpabatch.errors import UsageError
from hpabatch.history.checks import check_validity
from hpabatch.history.columns import TIME
from hpabatch.importers.table.objects import Beside
from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, MapOf, Scalar, record_of
from hpabatch.inputs.documents import Mistakes, Place, show
from hpabatch.model.objects.decode import decode_hpa
from hpabatch.model.objects.defaults import default_hpa
from hpabatch.model.objects.encode import spec_to_json
from hpabatch.model.objects.validate import validate_hpa
from hpabatch.model.versions import DEFAULT_K8S, profile_for

Workload = tuple[str, str, str, str]
"""cluster, namespace, kind and name of a workload."""


@dataclass(frozen=True, slots=True)
class Template:
    """The HPA of a workload; metrics and behavior as in autoscaling/v2."""

    minimum: int
    maximum: int
    metrics: tuple[Mapping[str, object], ...]
    behavior: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class HpaMap:
    """A template; `exceptions` by workload or namespace/workload.

    An exception of None: that workload has no HPA.
    """

    template: Template | None = None
    exceptions: Mapping[str, Template | None] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        """Whether the map says anything about HPAs."""
        return bool(self.template or self.exceptions)


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError
    return value


def _goal(resource: str) -> Scalar:
    """Return the kind of a Resource metric: `50%` (of the request) or `500m` (on average)."""

    def parse(goal: object) -> Mapping[str, object]:
        if isinstance(goal, str) and goal.endswith("%"):
            if not goal[:-1].isdecimal():
                raise ValueError(f"expected a percentage such as 50%, got {show(goal)}")
            target: dict[str, object] = {
                "type": "Utilization",
                "averageUtilization": int(goal[:-1]),
            }
        elif isinstance(goal, str):
            kinds.MILLI.parse(goal)
            target = {"type": "AverageValue", "averageValue": goal}
        else:
            raise ValueError
        return {"type": "Resource", "resource": {"name": resource, "target": target}}

    return Scalar("50% or a quantity such as 500m", parse)


_MAPPING = Scalar("an autoscaling/v2 metric", _mapping)
_METRICS = ListOf(_MAPPING, "a list of autoscaling/v2 metrics", only_lists=True, least=0)
_SETTINGS: Final = record_of({
    "min": kinds.whole(0, 2**31 - 1),
    "max": kinds.whole(1, 2**31 - 1),
    "cpu": _goal("cpu"),
    "memory": _goal("memory"),
    "metrics": _METRICS,
    "behavior": Scalar("an autoscaling/v2 behavior", _mapping),
})  # fmt: skip


class _Exception:
    """The settings of one workload's HPA; None: it has none."""

    wants = _SETTINGS.wants

    def read(self, place: Place) -> Mapping[str, Any] | None:
        return None if place.value is None else _SETTINGS.read(place)


HPAS: Final = record_of({
    "template": _SETTINGS,
    "workloads": MapOf(_Exception(), "a mapping of workloads", may_be_empty=True),
})  # fmt: skip


def hpa_map(place: Place, given: Mapping[str, Any], assumed: list[str]) -> HpaMap:
    """Return what `hpas` of a map, at a place, has given.

    Raises:
        MistakesError: all that is missing, and HPAs that the API server would refuse.
    """
    base, workloads = given.get("template"), dict(given.get("workloads", ()))
    if base is None and not workloads:
        place.refuse("expected template or workloads, got neither")
    mistakes, template = Mistakes(), None
    if base is not None:
        template = mistakes.tried(_template, place.at("template"), base)
        if "min" not in base:
            assumed.append("an HPA's minReplicas is 1 (no hpas.template.min)")
    exceptions = {
        name: None
        if said is None
        else mistakes.tried(
            _template, place.at("workloads").members()[name], {**(base or {}), **said}
        )
        for name, said in workloads.items()
    }
    mistakes.refuse()
    return HpaMap(template=template, exceptions=exceptions)


def _template(place: Place, said: Mapping[str, Any]) -> Template:
    metrics = [said[resource] for resource in ("cpu", "memory") if resource in said]
    metrics += said.get("metrics", ())
    mistakes = Mistakes()
    if not metrics:
        wanted = "expected a target such as `cpu: 50%`, or metrics, got nothing"
        mistakes.add(place.at("cpu").problem(wanted))
    if "max" not in said:
        wanted = "expected the largest size that the HPA may want, got nothing"
        mistakes.add(place.at("max").problem(wanted))
    mistakes.refuse()
    template = Template(said.get("min", 1), said["max"], tuple(metrics), said.get("behavior"))
    _spec(template, "Deployment", "workload", place)
    return template


def _spec(template: Template, kind: str, name: str, place: Place | None = None) -> str:
    """Return the spec as JSON.

    Raises:
        UsageError: the API server would refuse it.
    """
    spec: dict[str, object] = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": name},
        "minReplicas": template.minimum,
        "maxReplicas": template.maximum,
        "metrics": list(template.metrics),
    }
    if template.behavior is not None:
        spec["behavior"] = template.behavior
    document = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "x", "namespace": "x"},
        "spec": spec,
    }
    hpa, problems = decode_hpa(document)
    complaints = [str(problem) for problem in problems]
    complaints += [] if complaints else [
        str(error) for error in validate_hpa(default_hpa(hpa), profile_for(DEFAULT_K8S))
    ]  # fmt: skip
    if complaints:
        told = f"the API server would refuse this HPA: {complaints[0]}"
        if place is not None:
            place.refuse(told)
        raise UsageError(f"{kind}/{name}: {told}")
    return spec_to_json(hpa)


def hpa_rows(
    hpas: HpaMap, workloads: Mapping[Workload, int], beside: Beside | None = None
) -> pl.DataFrame:
    """Return the `hpas` table for workloads, each with the ms from which its HPA is in force.

    What the map says of a workload goes before the objects, these before the template.
    """
    rows: list[dict[str, object]] = []
    stated: set[Workload] = set()
    for place, since_ms in workloads.items():
        names = (f"{place[1]}/{place[3]}", place[3])
        exception = next((name for name in names if name in hpas.exceptions), None)
        if exception is not None:
            stated.add(place)
        elif beside is not None and place[1:] in beside.objects.by_target:
            continue
        template = hpas.template if exception is None else hpas.exceptions[exception]
        if template is not None:
            rows.append(_row(place, place[3], _spec(template, place[2], place[3]), since_ms))
    schema: dict[str, Any] = {
        "cluster": pl.String, "namespace": pl.String, "name": pl.String, "uid": pl.String,
        "spec": pl.String, "valid_from": pl.Int64,
    }  # fmt: skip
    if beside is not None:
        rows += beside.hpa_rows(workloads, stated, rows)
        schema |= {"labels": pl.String, "annotations": pl.String, "created": pl.Int64,
                   "generation": pl.Int64}  # fmt: skip
    times = [name for name in ("valid_from", "created") if name in schema]
    frame = pl.DataFrame(rows, schema=schema).with_columns(pl.col(times).cast(TIME))
    return frame.with_columns(valid_to=pl.lit(None, dtype=TIME))


def in_store(hpas: pl.DataFrame, stored: pl.DataFrame | None) -> pl.DataFrame:
    """Return the rows to add so that an import's specs hold from their begin on.

    A store keeps the specs of rows that were replaced: one that is in force ends where the import's
    begins, later ones become the import's, by rows with their keys that the store takes for newer.

    Args:
        hpas: rows of the import, at most one per HPA, without an end.
        stored: the table of the store; None: it has none.

    Raises:
        HistoryError: the store has two specs at once.
    """
    if stored is None or stored.is_empty() or hpas.is_empty():
        return hpas
    known = stored.select(hpas.columns).sort(*_HPA, "valid_from")
    check_validity(known, "hpas of the store")
    specs: dict[tuple[object, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in known.join(hpas, on=_HPA, how="semi", maintain_order="left").rows(named=True):
        specs[tuple(row[name] for name in _HPA)].append(row)
    added: list[dict[str, Any]] = []
    for row in hpas.rows(named=True):
        others, since = specs[tuple(row[name] for name in _HPA)], row["valid_from"]
        later = [one for one in others if one["valid_from"] > since]
        added += [
            {**one, "valid_to": since}
            for one in others
            if one["valid_from"] < since and (one["valid_to"] is None or one["valid_to"] > since)
        ]
        times = ("valid_from", "valid_to")
        added += [{**row, **{name: one[name] for name in times}} for one in later]
        added.append({**row, "valid_to": later[0]["valid_from"] if later else None})
    return pl.DataFrame(added, schema=hpas.schema)


_HPA = ("cluster", "namespace", "name")


def _row(place: Workload, name: str, spec: str, since_ms: int) -> dict[str, object]:
    cluster, namespace, kind, _ = place
    # One HPA per cluster, namespace and name: its uid need not say more.
    uid = f"hpa-{cluster}-{namespace}-{kind}-{name}"
    return {"cluster": cluster, "namespace": namespace, "name": name, "uid": uid, "spec": spec,
            "valid_from": since_ms}  # fmt: skip
