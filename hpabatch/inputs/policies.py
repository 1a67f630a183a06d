"""Policy set files: YAML to `model.settings.policy_sets`; the keys are those of `spec.behavior`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from hpabatch.inputs import document_kinds as kinds
from hpabatch.inputs.document_keys import Key, ListOf, MapOf, Record
from hpabatch.inputs.documents import Place, read_document, show
from hpabatch.model.objects.hpa import ScalingPolicy, ScalingRules
from hpabatch.model.objects.validate import MAX_PERIOD_S
from hpabatch.model.settings.policy_sets import DEFAULT, SHIPPED, PolicySet
from hpabatch.model.settings.values import AS_TODAY

WHAT: Final = "policy file"
_MAX_INT32 = 2**31 - 1
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?", re.ASCII)

POLICY: Final = Record(
    ScalingPolicy,
    "A policy",
    "At most `value` pods, or percent of them, are added (removed) in any `periodSeconds`.",
    (
        Key("type", kinds.word("Pods", "Percent"), "what `value` counts", field="type",
            required=True),
        Key("value", kinds.whole(1, _MAX_INT32), "how many", field="value", required=True),
        Key("periodSeconds", kinds.whole(1, MAX_PERIOD_S), "in how many seconds",
            field="period_seconds", required=True),
    ),
)  # fmt: skip

_POLICIES = ListOf(POLICY, "a list of policies, each after a dash", 100, only_lists=True)

DIRECTION: Final = Record(
    partial(ScalingRules, select_policy="Max"),
    "A direction",
    "The policies and which of them counts. Windows and tolerances are fields of a grid: "
    "`scaleDown.window`, `tolerance`.",
    (
        Key("selectPolicy", kinds.word("Max", "Min", "Disabled"), "which policy counts",
            field="select_policy", default="Max"),
        Key("policies", _POLICIES, "the policies", field="policies",
            default="those of the set `default`"),
    ),
    some=True,
)  # fmt: skip


def _shipped(direction: str) -> tuple[ScalingPolicy, ...] | None:
    rules = DEFAULT.rules(direction)
    return None if rules is None else rules.policies


SET: Final = Record(
    partial(PolicySet, ""),
    "A policy set",
    "",
    tuple(
        Key(
            name,
            replace(DIRECTION, of=partial(ScalingRules, select_policy="Max", policies=policies)),
            f"the rules for scaling {way}", field=field, default="as today",
        )
        for name, field, way, policies in (
            ("scaleUp", "scale_up", "up", _shipped("scaleUp")),
            ("scaleDown", "scale_down", "down", _shipped("scaleDown")),
        )
    ),
    some=True,
)  # fmt: skip


def _check_name(name: str) -> None:
    if name in SHIPPED or name == AS_TODAY:
        what = "comes with hpabatch" if name in SHIPPED else "means today's policies"
        raise ValueError(f"expected another name of a policy set, got {name}, which {what}")
    if not _NAME.fullmatch(name):
        raise ValueError(
            "expected a policy set's name of up to 63 lower-case letters, digits, - . _, got "
            f"{show(name)}"
        )


_SETS = MapOf(SET, "a mapping of names to policy sets", _check_name)


def read_policy_sets(path: Path | str) -> dict[str, PolicySet]:
    """Return the policy sets of a file by name; those that are shipped are not among them.

    Raises:
        UsageError: the file cannot be read; all mistakes in it with their lines and keys.
    """
    return policy_sets_of(read_document(path, WHAT))


def policy_sets_of(document: Place) -> dict[str, PolicySet]:
    """Return the policy sets of a document by name.

    Raises:
        MistakesError: all mistakes in it.
    """
    return {name: replace(found, name=name) for name, found in _SETS.read(document)}


def all_policy_sets(own: Mapping[str, PolicySet]) -> dict[str, PolicySet]:
    """Return the shipped sets and a file's own."""
    return {**SHIPPED, **own}
