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
from hpabatch.model.availability import Availability, with_known_domains
from hpabatch.model.objects.hpa import HPA, HPASpec
from hpabatch.model.owners import Metadata, Source, source_of, telling
from hpabatch.model.settings.differences import spec_differences
from hpabatch.model.versions import Profile

if TYPE_CHECKING:
    from hpabatch.engine.advise.run import Recommendation, Recommendations

PLAIN: Final = "plain"
"""Value of `--instance-label`: nothing writes an HPA because of app.kubernetes.io/instance."""


GONE: Final = (
    "gone: --objects has other HPAs of its namespace and not this one; if it is still there, give "
    "all HPAs of the namespace"
)


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
            needs = _needs(hpa, objects, context.availability)
            context = Context(Metadata(labels, annotations, hpa.owner), needs)
        yield context.columns()


def _needs(hpa: HPA, objects: ClusterObjects, recorded: Availability | None) -> Availability | None:
    """Return what an HPA's pods need: what the objects do not say is as it was recorded.

    Objects without any budget, or without any node, were listed without that kind.
    """
    found = objects.availability_of(hpa)
    if found is None or recorded is None:
        return recorded if found is None else found
    spreads = found.spreads
    if not objects.domains.values:
        spreads = with_known_domains(spreads, recorded.spreads)
    return Availability(found.budgets if objects.budgets else recorded.budgets, spreads)


def edits_since(
    found: Recommendations, objects: ClusterObjects, profile: Profile
) -> dict[Key, str]:
    """Return the HPAs with a change whose spec in a cluster is not the judged one, and how.

    One that is not among the other HPAs of its namespace is gone. Of a namespace without any HPA
    the objects say nothing.
    """
    told = {namespace for namespace, _ in (*objects.hpas, *objects.unusable)}
    edited = {}
    for item in found.items:
        place = item.key[1:]
        hpa, broken = objects.hpas.get(place), objects.unusable.get(place)
        if not item.patch or place[0] not in told:
            continue
        if broken is not None:
            edited[item.key] = edited_since([f"no controller can use its spec now ({broken})"])
        elif hpa is None:
            edited[item.key] = GONE
        elif differences := spec_differences(
            found.specs.today(item.key), stored_spec(hpa, profile)
        ):
            edited[item.key] = edited_since(differences)
    return edited


def edited_since(differences: list[str]) -> str:
    """Return the sentence on a spec that is not the judged one."""
    return f"edited since it was judged: {', '.join(differences)}; import it and sweep again"


def withhold_owned(found: Recommendations) -> Recommendations:
    """Return advice without the patches of HPAs that something else writes."""
    return replace(
        found,
        items=tuple(
            item if item.source is None else _withheld(item, str(item.source))
            for item in found.items
        ),
    )


def withhold_edited(found: Recommendations, why: Mapping[Key, str]) -> Recommendations:
    """Return advice without the patches of HPAs that were edited since, by `edits_since`."""
    return replace(
        found,
        items=tuple(
            item
            if item.key not in why or item.was_edited
            else replace(_withheld(item, why[item.key]), was_edited=True)
            for item in found.items
        ),
    )


def _withheld(item: Recommendation, why: str) -> Recommendation:
    both = f"{item.withheld}; and {why}" if item.withheld else why
    return replace(item, withheld=both, notes=(*item.notes, f"no patch is written: {why}"))
