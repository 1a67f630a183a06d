"""Safeguards of patches: HPAs that others write, and HPAs that were edited since.

A patch is withheld, with the reason, where it would be undone (a controller or a tool writes the
HPA), or where it is not known to do good (the spec is not the one that was judged).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import polars as pl

from hpabatch.engine.advise.unit import Key, key_of
from hpabatch.engine.sweep.context import Context, context_of
from hpabatch.engine.sweep.result import SweepResult
from hpabatch.errors import HistoryError, UsageError
from hpabatch.inputs.cluster_objects import ClusterObjects
from hpabatch.inputs.manifest_edit import stored_spec
from hpabatch.model.objects.hpa import HPASpec
from hpabatch.model.owners import Metadata, Source, source_of, telling
from hpabatch.model.settings.differences import spec_differences
from hpabatch.model.versions import Profile

if TYPE_CHECKING:
    from hpabatch.engine.advise.run import Recommendation, Recommendations

PLAIN: Final = "plain"
"""Value of `--instance-label`: nothing writes an HPA because of app.kubernetes.io/instance."""


def contexts_of(result: SweepResult) -> dict[Key, Context]:
    """Return what a sweep knows of each HPA's writers and of its pods' availability.

    Raises:
        HistoryError: the sweep is damaged.
    """
    found = {}
    for row in result.hpas.iter_rows(named=True):
        try:
            found[key_of(row)] = context_of(row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            name = f"{row['namespace']}/{row['hpa']}"
            raise HistoryError(
                f"the sweep's metadata or availability of {name} cannot be read ({error}): run it "
                "again"
            ) from error
    return found


def source_of_change(
    key: Key, context: Context, today: HPASpec, patch: Mapping[str, object], instance_label: str
) -> Source | None:
    """Return what writes an HPA that is to be patched, None if nothing does."""
    found = source_of(key[1], key[2], context.metadata, today, patch)
    return None if found is not None and found.doubtful and instance_label == PLAIN else found


def with_objects(result: SweepResult, objects: ClusterObjects) -> SweepResult:
    """Return a sweep with the metadata and the availability that a cluster's objects say.

    Raises:
        UsageError: the sweep has several clusters, and the objects are of one.
    """
    clusters = result.hpas["cluster"].unique().sort().to_list()
    if len(clusters) > 1:
        raise UsageError(
            f"--objects are of one cluster, and the sweep has {', '.join(clusters)}: sweep each by "
            "itself (--where)"
        )
    rows = list(_told(result, objects))
    columns = {
        name: pl.Series(name, [row[name] for row in rows], pl.String()) for name in rows[0]
    } if rows else {}  # fmt: skip
    return replace(result, hpas=result.hpas.with_columns(**columns))


def _told(result: SweepResult, objects: ClusterObjects) -> Iterator[dict[str, str | None]]:
    known = contexts_of(result)
    for row in result.hpas.iter_rows(named=True):
        context = known[key_of(row)]
        hpa = objects.hpas.get((row["namespace"], row["hpa"]))
        if hpa is not None:
            labels, annotations = telling(dict(hpa.labels)), telling(dict(hpa.annotations))
            own = objects.availability_of(hpa)
            context = Context(
                Metadata(labels, annotations, hpa.owner),
                context.availability if own is None else own,
            )
        yield context.columns()


def edits_since(
    found: Recommendations, objects: ClusterObjects, profile: Profile
) -> dict[Key, str]:
    """Return the HPAs with a change whose spec in a cluster is not the judged one, and how."""
    edited = {}
    for item in found.items:
        hpa, broken = objects.hpas.get(item.key[1:]), objects.unusable.get(item.key[1:])
        if item.patch and broken is not None:
            edited[item.key] = edited_since([f"no controller can use its spec now ({broken})"])
        if hpa is None or not item.patch:
            continue
        differences = spec_differences(found.specs.today(item.key), stored_spec(hpa, profile))
        if differences:
            edited[item.key] = edited_since(differences)
    return edited


def edited_since(differences: list[str]) -> str:
    """Return the sentence on a spec that is not the judged one."""
    return f"edited since it was judged: {', '.join(differences)}; import it and sweep again"


def withhold(found: Recommendations, why: Mapping[Key, str]) -> Recommendations:
    """Return advice without the patches of some HPAs, by their reasons."""
    return replace(found, items=tuple(_withheld(item, why.get(item.key)) for item in found.items))


def _withheld(item: Recommendation, why: str | None) -> Recommendation:
    if why is None or item.withheld:
        return item
    return replace(item, withheld=why, notes=(*item.notes, f"no patch is written: {why}"))
