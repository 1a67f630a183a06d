"""Some points of a large grid, spread evenly: a scrambled Sobol sequence (scipy.stats.qmc)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import Final

from hpabatch.inputs.grid_axis import Axis

_ROUNDS: Final = 4


def lacking() -> str | None:
    """Return what sampling lacks, None where it lacks nothing."""
    if find_spec("scipy") is not None:
        return None
    return (
        "--sample needs the package scipy; install hpabatch[advise], or give every range a step "
        "and leave --sample"
    )


def sampled(axes: Sequence[Axis], samples: int, seed: int) -> Iterator[tuple[str, ...]]:
    """Yield points of a grid, a value for each axis; the first `samples` are spread best.

    Of an axis each value is as likely. Points may recur, so there are up to 16 times as many. The
    same seed gives the same points. Source: Owen's scrambling of Sobol's sequence, as in scipy.
    """
    from scipy.stats import qmc

    engine = qmc.Sobol(d=len(axes), scramble=True, rng=seed)
    # The sequence is balanced at powers of two only.
    power = (samples - 1).bit_length()
    for number in range(_ROUNDS):
        # Each further draw is as long as all before it, so that their sum stays a power of two.
        for point in engine.random_base2(power + max(number - 1, 0)).tolist():
            yield tuple(axis.at(int(u * len(axis))) for axis, u in zip(axes, point, strict=True))
