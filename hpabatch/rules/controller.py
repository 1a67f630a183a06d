"""The controller's flags and version switches of one lane, as scalars."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpabatch._jit import rule
from hpabatch.layout.records import Fleet


class Controller(NamedTuple):
    """Flags in ms and the bits of version switches; see `model.versions` for their meaning."""

    cpu_initialization_ms: int
    readiness_delay_ms: int
    downscale_stabilization_ms: int
    switches: int


@rule
def controller_of(fleet: Fleet, h: int) -> Controller:
    """Return the flags and switches of lane h."""
    lane = fleet.lanes[np.uint64(h)]
    return Controller(
        lane.cpu_initialization_ms,
        lane.readiness_delay_ms,
        lane.downscale_stabilization_ms,
        lane.switches,
    )


@rule
def has_switch(controller: Controller, bit: int) -> bool:
    """Say whether a version's rules have a switch on."""
    return controller.switches & bit != 0
