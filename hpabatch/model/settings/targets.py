"""Targets of metrics: the metric that a setting tunes, and its new target.

The member of a target that counts follows horizontal.go, computeStatusFor*Metric.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from hpabatch.model.objects.hpa import HPASpec, MetricSpec, MetricTarget
from hpabatch.model.plant import signal_name
from hpabatch.model.quantity import Format, Quantity
from hpabatch.model.settings.values import (
    MAX_MILLI,
    MILLI,
    Amount,
    exact,
    quantity_text,
    rounded,
    rounded_quantity,
)

MAX_UTILIZATION: Final = 2**31 - 1
_MOST: Final = Quantity.from_milli(MAX_MILLI)

Member = Literal["average_utilization", "average_value", "value"]


def tuned_metric(spec: HPASpec, name: str | None) -> int:
    """Return the place of the metric of that name; None: of the metric to tune.

    The metric to tune is the only one, else the first Resource or ContainerResource metric of cpu.

    Raises:
        ValueError: there is no such metric, or there are several; the message names them.
    """
    metrics = spec.metrics
    if name is not None:
        found = [k for k, m in enumerate(metrics) if name in (m.subject, signal_name(m))]
        if len(found) == 1:
            return found[0]
        if not found:
            raise ValueError(f"it has no metric {name}; {_choices(spec)}")
        raise ValueError(f"it has {len(found)} metrics {name}; {_choices(spec)}")
    if len(metrics) == 1:
        return 0
    for k, metric in enumerate(metrics):
        if _is_resource(metric) and metric.subject == "cpu":
            return k
    raise ValueError(f"it has {len(metrics)} metrics and none of them is of cpu; {_choices(spec)}")


def _choices(spec: HPASpec) -> str:
    """Return the fields that name one metric of an HPA each, as the fix in a message."""
    short = [metric.subject for metric in spec.metrics]
    names = [
        own if short.count(own) == 1 else signal_name(metric)
        for own, metric in zip(short, spec.metrics, strict=True)
    ]
    single = [f"target.{name}" for name in dict.fromkeys(names) if names.count(name) == 1]
    return f"take {' or '.join(single)}" if single else "none of them can be told from the others"


def _is_resource(metric: MetricSpec) -> bool:
    return metric.type in ("Resource", "ContainerResource")


def counting_member(metric: MetricSpec) -> Member:
    """Return the member of the target that the controller compares with.

    Raises:
        ValueError: there is none; the metric fails in every sync.
    """
    target = metric.target
    members: tuple[Member, ...] = ("average_value", "value")
    if _is_resource(metric):
        members = ("average_value", "average_utilization")
    elif metric.type == "Pods":
        members = ("average_value",)
    elif metric.type == "Object":
        members = ("average_value",) if target.type == "AverageValue" else ("value",)
    for member in members:
        if getattr(target, member) is not None:
            return member
    raise ValueError(f"its metric {metric.subject} has no target that counts")


def with_target(spec: HPASpec, today: HPASpec, name: str | None, amount: Amount) -> HPASpec:
    """Return a spec with another target of a metric, relative to that of `today`.

    Raises:
        ValueError: there is no such metric, or the value does not fit its target.
    """
    place = tuned_metric(today, name)
    metric = today.metrics[place]
    member = counting_member(metric)
    target = metric.target
    if member == "average_utilization":
        found = replace(target, average_utilization=_utilization(metric, target, amount))
    else:
        today_value = target.average_value if member == "average_value" else target.value
        assert today_value is not None
        plain_is_fine = name is not None and not _is_resource(metric)
        quantity = _quantity(metric, today_value, amount, plain_is_fine)
        if member == "average_value":
            found = replace(target, average_value=quantity)
        else:
            found = replace(target, value=quantity)
    metrics = list(spec.metrics)
    metrics[place] = metric.with_target(found)
    return replace(spec, metrics=tuple(metrics))


def _utilization(metric: MetricSpec, target: MetricTarget, amount: Amount) -> int:
    today = target.average_utilization
    assert today is not None
    if amount.operation == "x":
        found = max(int(rounded(today * amount.number)), 1)
    elif amount.shape != "plain":
        raise ValueError(
            f"its metric {metric.subject} has a utilization target ({today} percent), which "
            "takes whole percents such as 70, or a factor such as x0.8"
        )
    else:
        found = int(amount.number) + (today if amount.operation == "+" else 0)
    if not 1 <= found <= MAX_UTILIZATION:
        raise ValueError(f"it makes a utilization target of {found} percent; at least 1 is needed")
    return found


def _quantity(metric: MetricSpec, today: Quantity, amount: Amount, plain_is_fine: bool) -> Quantity:
    """Return the new target of a metric; a product keeps the unit of today's."""
    if amount.operation != "x" and amount.shape == "plain" and not plain_is_fine:
        hint = "" if _is_resource(metric) else f" (or take target.{metric.subject})"
        raise ValueError(
            f"its metric {metric.subject} has a target of {today}, which no percentage can be; "
            f"give a quantity with its unit such as {today}, or a factor such as x0.8{hint}"
        )
    if today.compare(_MOST) > 0:  # it could be 1e1000000000, too
        raise ValueError(f"its metric {metric.subject} has an impossibly large target today")
    now = exact(today)
    is_binary = today.format is Format.binary_si
    if amount.operation == "x":
        shape: Literal["decimal", "binary"] = "binary" if is_binary else "decimal"
        found = rounded_quantity(now * amount.number, shape)
        text = quantity_text(found, shape)
    else:
        found = amount.number + (rounded(now, MILLI) if amount.operation == "+" else 0)
        text = quantity_text(found, "binary" if is_binary else amount.shape)
    if not 0 < found <= exact(_MOST):
        raise ValueError(f"it makes a target of {text}, which is none")
    return Quantity.parse(Quantity.parse(text).canonical())
