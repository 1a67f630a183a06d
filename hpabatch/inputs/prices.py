"""Price files: what requested cores, memory and pods cost, YAML to `model.prices`.

docs/scenarios.md lists all keys, from the shapes below.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Built, Key, ListOf, Shape
from hpabatch.inputs.documents import Place, parse_document, read_document
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
    "match; in each `*` and `?` are wild. Of several the last that says a price counts.",
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
        (_SELECTORS, "it is for every HPA; say for which, with"),
        (_PRICES, "no price is given; give one or more of"),
    ):
        if not any(name in given for name in names):
            place.refuse(f"{problem} {', '.join(names)}")
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
        place.refuse(f"no price is given; give one or more of {', '.join(_PRICES)}")
    prices = {name: given.get(name, 0.0) for name in _PRICES}
    return PriceList(Prices(currency=given["currency"], **prices), given.get("overrides", ()))


_DOCUMENT = Built(PRICE_LIST, _price_list)


def read_price_file(path: Path | str) -> PriceList:
    """Return the prices of a file.

    Raises:
        UsageError: the file, the line and the key that are wrong, and what is possible there.
    """
    found: PriceList = _DOCUMENT.read(read_document(path, WHAT))
    return found


def parse_price_file(text: str, source: str = WHAT) -> PriceList:
    """Return the prices of a text; `source` is what messages call it.

    Raises:
        UsageError: the line and the key that are wrong, and what is possible there.
    """
    found: PriceList = _DOCUMENT.read(parse_document(text, source))
    return found
