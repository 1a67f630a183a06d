"""Files that people write, read from a text in the place of a file."""

from __future__ import annotations

from hpabatch.inputs.documents import parse_document
from hpabatch.inputs.lenses import lenses_of
from hpabatch.inputs.plants import entries_of
from hpabatch.inputs.policies import policy_sets_of
from hpabatch.inputs.prices import prices_of
from hpabatch.inputs.scenarios import scenario_of
from hpabatch.model.lens import Lens
from hpabatch.model.prices import PriceList
from hpabatch.model.scenario import Scenario
from hpabatch.model.settings.overrides import PlantOverride
from hpabatch.model.settings.policy_sets import PolicySet


def parse_scenario(text: str, source: str = "scenario") -> Scenario:
    return scenario_of(parse_document(text, source))


def parse_plant_file(text: str, source: str = "plant file") -> tuple[PlantOverride, ...]:
    return entries_of(parse_document(text, source))


def parse_price_file(text: str, source: str = "price file") -> PriceList:
    return prices_of(parse_document(text, source))


def parse_policy_sets(text: str, source: str = "policy file") -> dict[str, PolicySet]:
    return policy_sets_of(parse_document(text, source))


def parse_lens_file(text: str, source: str = "lens file") -> tuple[Lens, ...]:
    return lenses_of(parse_document(text, source))
