"""Files that people write, read from a text in the place of a file."""

from __future__ import annotations

from hpabatch.inputs.documents import parse_document
from hpabatch.inputs.grid import policy_sets_of
from hpabatch.inputs.lenses import Lens, lenses_of
from hpabatch.inputs.plants import PlantOverride, entries_of
from hpabatch.inputs.prices import PRICE_LIST, PriceList
from hpabatch.inputs.scenarios import Scenario, scenario_of
from hpabatch.model.settings.fields import PolicySet


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    return scenario_of(parse_document(text, source))


def parse_plant_file(text: str, source: str = "plant file") -> tuple[PlantOverride, ...]:
    return entries_of(parse_document(text, source))


def parse_price_file(text: str, source: str = "price file") -> PriceList:
    found: PriceList = PRICE_LIST.read(parse_document(text, source))
    return found


def parse_policy_sets(text: str, source: str = "policy file") -> dict[str, PolicySet]:
    return policy_sets_of(parse_document(text, source))


def parse_lens_file(text: str, source: str = "lens file") -> tuple[Lens, ...]:
    return lenses_of(parse_document(text, source))
