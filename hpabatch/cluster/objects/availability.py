"""Decoding of what keeps pods available: disruption budgets, topology spread, domains of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from hpabatch.cluster.objects.objects import (
    NOTHING,
    Meta,
    Text,
    key_of,
    read_label_selector,
    string_map,
)
from hpabatch.model.availability import Availability, Budget, Spread
from hpabatch.model.objects.hpa import LabelSelector
from hpabatch.model.selectors import Selector, selector_from_object

OLD_BUDGETS = "policy/v1beta1"
"""The version in which an empty selector matches no pod; in v1 it matches all."""


@dataclass(frozen=True, slots=True)
class BudgetObject:
    """A disruption budget and the pods of its namespace that it is of."""

    namespace: str
    selector: Selector
    budget: Budget

    @property
    def name(self) -> str:
        """Its name."""
        return self.budget.name

    def is_of(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it is of pods with these labels."""
        return namespace == self.namespace and self.selector.matches(labels)


@dataclass(slots=True)
class Domains:
    """The values of the labels of all nodes, by key."""

    values: dict[str, set[str]] = field(default_factory=dict)

    def add(self, labels: Mapping[str, str]) -> None:
        """Take a node's labels."""
        for key, value in labels.items():
            self.values.setdefault(key, set()).add(value)

    def counted(self, spread: Spread) -> Spread:
        """Return a constraint with the number of its key's domains, if a node has that label."""
        found = self.values.get(spread.key)
        return spread if found is None else replace(spread, domains=len(found))


class _BudgetSpec(msgspec.Struct, gc=False):
    minAvailable: str | int | None = None  # noqa: N815
    maxUnavailable: str | int | None = None  # noqa: N815
    selector: msgspec.Raw = msgspec.Raw()


class _Budget(msgspec.Struct, gc=False):
    apiVersion: Text = None  # noqa: N815
    metadata: Meta | None = None
    spec: _BudgetSpec | None = None


class _Node(msgspec.Struct, gc=False):
    metadata: Meta | None = None


class _Constraint(msgspec.Struct, gc=False):
    topologyKey: Text = None  # noqa: N815
    whenUnsatisfiable: Text = None  # noqa: N815
    minDomains: int | None = None  # noqa: N815


class _PodSpec(msgspec.Struct, gc=False):
    topologySpreadConstraints: list[_Constraint | None] | None = None  # noqa: N815


_BUDGET = msgspec.json.Decoder(_Budget)
_NODE = msgspec.json.Decoder(_Node)
_POD_SPEC = msgspec.json.Decoder(_PodSpec)


def read_budget(raw: bytes) -> BudgetObject:
    """Return a disruption budget; one whose selector does not convert is of no pod.

    Raises:
        msgspec.DecodeError, ValueError: it cannot be decoded.
    """
    wire = _BUDGET.decode(raw)
    namespace, name = key_of(wire.metadata or Meta())
    spec = wire.spec or _BudgetSpec()
    selector = read_label_selector(bytes(spec.selector))
    if wire.apiVersion == OLD_BUDGETS and selector == LabelSelector():
        selector = None
    try:
        matched = selector_from_object(selector)
    except ValueError:
        matched = Selector(nothing=True)
    budget = Budget(name, _text(spec.minAvailable), _text(spec.maxUnavailable))
    return BudgetObject(namespace, matched, budget)


def read_node_labels(raw: bytes) -> dict[str, str]:
    """Return the labels of a node.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return string_map((_NODE.decode(raw).metadata or Meta()).labels)


def read_spreads(raw: bytes) -> tuple[Spread, ...]:
    """Return the topology spread constraints of a pod's spec.

    Raises:
        msgspec.DecodeError: it is no spec of a pod.
    """
    if raw in NOTHING:
        return ()
    found = _POD_SPEC.decode(raw).topologySpreadConstraints or ()
    return tuple(
        Spread(one.topologyKey or "", one.whenUnsatisfiable != "ScheduleAnyway", one.minDomains)
        for one in found
        if one is not None
    )


def availability_of_pods(
    namespace: str,
    labels: Mapping[str, str],
    spreads: Iterable[Spread],
    budgets: Iterable[BudgetObject],
    domains: Domains,
) -> Availability:
    """Return what keeps pods of a namespace with these labels available."""
    return Availability(
        tuple(one.budget for one in budgets if one.is_of(namespace, labels)),
        tuple(domains.counted(spread) for spread in spreads),
    )


def _text(value: str | int | None) -> str:
    return "" if value is None else str(value)
