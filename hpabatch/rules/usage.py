"""A pod's usage of a resource from its containers' samples.

Source: pkg/controller/podautoscaler/metrics/client.go, getPodMetrics.
"""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.arrays.layout import I8, I64
from hpabatch.rules.numbers import add64


@rule
def pod_usage(known: I8, value_milli: I64, first: int, last: int) -> tuple[int, int]:
    """Return (present 0/1, usage in milli) of the pod with container samples first:last.

    A pod without containers, or with one that lacks the resource, is dropped whole.
    """
    total = 0
    for k in range(first, last):
        if known[k] == 0:
            return 0, 0
        total = add64(total, value_milli[k])
    return (1 if last > first else 0), total
