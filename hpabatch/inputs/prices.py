"""Price files: prices of pods by the hour, per requested core, per requested GiB, per pod.

docs/scenarios.md lists all keys, from the declarations below.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import ListOf, Record, key, part
from hpabatch.inputs.documents import Place, read_document
from hpabatch.model.selection import matches

WHAT: Final = "price file"
_SELECTORS: Final = ("cluster", "namespace", "hpa")
_PRICES: Final = ("core_hour", "gib_hour", "pod_hour")


def _price(name: str, what: str, default: float | None, shown: str) -> Any:
    kind = kinds.number(0, 1_000_000, "a price: a number from 0 to 1,000,000, such as 0.031")
    return key(name, kind, f"the price of {what} for an hour", default, shown)


def _check_priced(place: Place) -> None:
    if not any(name in place.members() for name in _PRICES):
        place.refuse(f"expected one or more of {', '.join(_PRICES)}, got no price")


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in one currency, for an hour: of a requested core, of a requested GiB, of a pod."""

    currency: str = key(
        "currency", kinds.text("a currency such as EUR"), "what prices are in; shown as it is"
    )
    core_hour: float = _price("core_hour", "a requested core", 0.0, "0")
    gib_hour: float = _price("gib_hour", "a requested GiB of memory", 0.0, "0")
    pod_hour: float = _price("pod_hour", "a pod", 0.0, "0")


@dataclass(frozen=True, slots=True)
class PriceOverride:
    """Other prices (None: as before) where all given globs match; `hpa` is as in a `Selector`."""

    cluster: str | None = key(
        "cluster", kinds.name_glob("the name of a cluster, such as prod or prod-*"),
        "only in these clusters", None, "all",
    )  # fmt: skip
    namespace: str | None = key(
        "namespace", kinds.name_glob("the name of a namespace, such as shop or team-*"),
        "only in these namespaces", None, "all",
    )  # fmt: skip
    hpa: str | None = key("hpa", kinds.HPA_GLOB, "only for these HPAs", None, "all")
    core_hour: float | None = _price("core_hour", "a requested core", None, "as before")
    gib_hour: float | None = _price("gib_hour", "a requested GiB of memory", None, "as before")
    pod_hour: float | None = _price("pod_hour", "a pod", None, "as before")
    place: str = field(default="", compare=False)

    def checked(self, place: Place) -> PriceOverride:
        """Refuse (MistakesError) an override of every HPA, or without a price."""
        if not any(name in place.members() for name in _SELECTORS):
            names = ", ".join(_SELECTORS)
            place.refuse(f"expected one or more of {names}, got an override of every HPA")
        _check_priced(place)
        return self

    def is_for(self, cluster: str, namespace: str, hpa: str) -> bool:
        """Whether it is for an HPA."""
        name = f"{namespace}/{hpa}"
        if self.hpa is not None and self.hpa.count("/") == 2:
            name = f"{cluster}/{name}"
        pairs = ((self.cluster, cluster), (self.namespace, namespace), (self.hpa, name))
        return all(glob is None or matches(glob, name) for glob, name in pairs)


OVERRIDE: Final = Record(
    PriceOverride,
    "overrides",
    "Other prices for some HPAs: all of `cluster`, `namespace` and `hpa` that are given must "
    "match; in each `*` and `?` are wildcards. Of several the last one with a price counts.",
)


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of a fleet; of several overrides for one HPA the last one with a price counts."""

    prices: Prices = part(Prices)
    overrides: tuple[PriceOverride, ...] = key(
        "overrides",
        ListOf(OVERRIDE, "a list of overrides, each after a dash", 10_000, only_lists=True),
        "other prices for some HPAs", (), "none",
    )  # fmt: skip

    def checked(self, place: Place) -> PriceList:
        """Refuse (MistakesError) a list without a price."""
        _check_priced(place)
        return self

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


PRICE_LIST: Final = Record(PriceList, "A price list")


def read_price_file(path: Path | str) -> PriceList:
    """Return the prices of a file.

    Raises:
        UsageError: the file cannot be read; all mistakes in it with their lines and keys.
    """
    found: PriceList = PRICE_LIST.read(read_document(path, WHAT))
    return found
