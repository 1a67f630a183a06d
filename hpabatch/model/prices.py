"""Prices of pods by the hour: per requested core, per requested GiB, per pod."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hpabatch.model.selection import matches


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in one currency, for an hour: of a requested core, of a requested GiB, of a pod."""

    core_hour: float
    gib_hour: float
    pod_hour: float
    currency: str


@dataclass(frozen=True, slots=True)
class PriceOverride:
    """Other prices (None: as before) where all given globs match; `hpa` is as in a `Selector`."""

    cluster: str | None = None
    namespace: str | None = None
    hpa: str | None = None
    core_hour: float | None = None
    gib_hour: float | None = None
    pod_hour: float | None = None
    place: str = field(default="", compare=False)

    def is_for(self, cluster: str, namespace: str, hpa: str) -> bool:
        """Whether it is for an HPA."""
        name = f"{namespace}/{hpa}"
        if self.hpa is not None and self.hpa.count("/") == 2:
            name = f"{cluster}/{name}"
        pairs = ((self.cluster, cluster), (self.namespace, namespace), (self.hpa, name))
        return all(glob is None or matches(glob, name) for glob, name in pairs)


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of a fleet; of several overrides for one HPA the last one with a price counts."""

    prices: Prices
    overrides: tuple[PriceOverride, ...] = ()

    def price_of(self, cluster: str, namespace: str, hpa: str) -> Prices:
        """Return the prices of an HPA's pods."""
        found = self.prices
        for override in self.overrides:
            if override.is_for(cluster, namespace, hpa):
                found = replace(
                    found,
                    core_hour=_first(override.core_hour, found.core_hour),
                    gib_hour=_first(override.gib_hour, found.gib_hour),
                    pod_hour=_first(override.pod_hour, found.pod_hour),
                )
        return found


def _first(stated: float | None, before: float) -> float:
    return before if stated is None else stated
