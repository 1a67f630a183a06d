"""Price files: prices of requested cores, memory and pods, YAML to `model.prices`.

docs/scenarios.md lists all keys, from the shapes below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Built, Key, ListOf, Shape
from hpabatch.inputs.documents import Place, read_document
from hpabatch.model.prices import PriceList, PriceOverride, Prices

WHAT: Final = "price file"


def _price_keys(default: str) -> tuple[Key, ...]:
    return tuple(
        Key(name, kinds.price(), f"the price of {what} for an hour", field=name, default=default)
        for name, what in (
            ("core_hour", "a requested core"),
            ("gib_hour", "a requested GiB of memory"),
            ("pod_hour", "a pod"),
        )
    )


_PRICES = tuple(key.name for key in _price_keys(""))
_SELECTORS = ("cluster", "namespace", "hpa")

OVERRIDE: Final = Shape(
    "overrides",
    "Other prices for some HPAs: all of `cluster`, `namespace` and `hpa` that are given must "
    "match; in each `*` and `?` are wildcards. Of several the last one with a price counts.",
    (
        Key("cluster", kinds.name_glob("the name of a cluster, such as prod or prod-*"),
            "only in these clusters", field="cluster", default="all"),
        Key("namespace", kinds.name_glob("the name of a namespace, such as shop or team-*"),
            "only in these namespaces", field="namespace", default="all"),
        Key("hpa", kinds.HPA_GLOB, "only for these HPAs", field="hpa", default="all"),
        *_price_keys("as before"),
    ),
)  # fmt: skip


def _override(place: Place, given: dict[str, Any]) -> PriceOverride:
    for names, problem in (
        (_SELECTORS, "got an override of every HPA"),
        (_PRICES, "got no price"),
    ):
        if not any(name in given for name in names):
            place.refuse(f"expected one or more of {', '.join(names)}, {problem}")
    return PriceOverride(**given, place=str(place))


PRICE_LIST: Final = Shape(
    "A price list",
    "",
    (
        Key("currency", kinds.text("a currency such as EUR"), "what prices are in; shown as it is",
            field="currency", required=True),
        *_price_keys("0"),
        Key("overrides", ListOf(Built(OVERRIDE, _override), "a list of overrides, each after a "
            "dash", 10_000, only_lists=True), "other prices for some HPAs", field="overrides",
            default="none"),
    ),
)  # fmt: skip


def _price_list(place: Place, given: dict[str, Any]) -> PriceList:
    if not any(name in given for name in _PRICES):
        place.refuse(f"expected one or more of {', '.join(_PRICES)}, got no price")
    prices = {name: given.get(name, 0.0) for name in _PRICES}
    return PriceList(Prices(currency=given["currency"], **prices), given.get("overrides", ()))


_DOCUMENT = Built(PRICE_LIST, _price_list)


def read_price_file(path: Path | str) -> PriceList:
    """Return the prices of a file.

    Raises:
        UsageError: the file cannot be read; all mistakes in it with their lines and keys.
    """
    return prices_of(read_document(path, WHAT))


def prices_of(document: Place) -> PriceList:
    """Return the prices of a document.

    Raises:
        MistakesError: all mistakes in it.
    """
    found: PriceList = _DOCUMENT.read(document)
    return found
