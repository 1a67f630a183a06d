"""The metrics and log fields of the live loop, as queries and docs/live.md name them."""

from __future__ import annotations

from hpabatch.live.serve import log, metric_names
from hpabatch.live.serve.metric_names import COUNTER, UPSTREAM_PREFIX, MetricName

CATALOGUE = [one for one in vars(metric_names).values() if isinstance(one, MetricName)]
UPSTREAM = [one for one in CATALOGUE if one.name.startswith(UPSTREAM_PREFIX)]
OURS = [one for one in CATALOGUE if one not in UPSTREAM]


def exposed(metric: MetricName) -> str:
    """Return the name as a query has it."""
    return f"{metric.name}_total" if metric.kind == COUNTER else metric.name


def log_fields() -> list[str]:
    """Return the fields of a JSON line, as the module's docstring lists them."""
    lines = (log.__doc__ or "").split("\n\n")[3].splitlines()
    return [line[4:15].strip() for line in lines if line[4] != " "]
