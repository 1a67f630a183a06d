"""A pod's usage of a resource from its containers' samples.

Source: pkg/controller/podautoscaler/metrics/client.go, getPodMetrics.
"""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.rules.numbers import add64


@rule
def add_container(present: int, total: int, is_known: int, value_milli: int) -> tuple[int, int]:
    """Return (present 0/1, usage in milli) of a pod with one more container sample.

    Start from (1, 0). A pod with a container that lacks the resource is dropped whole; so is one
    without containers, which the caller knows.
    """
    if present == 0 or is_known == 0:
        return 0, 0
    return 1, add64(total, value_milli)
