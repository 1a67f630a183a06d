"""Container samples to pod samples, over whole columns."""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.arrays.layout import I8, I64
from hpabatch.rules.usage import pod_usage


@rule
def sum_containers(
    first: I64, known: I8, value_milli: I64, present_out: I8, total_out: I64
) -> None:
    """Write (present, usage) of each pod sample; sample k is container rows first[k]:first[k+1].

    Shapes: first (n + 1,), known and value_milli (rows,), outputs (n,).
    """
    for k in range(first.size - 1):
        present, total = pod_usage(known, value_milli, first[k], first[k + 1])
        present_out[k] = present
        total_out[k] = total
