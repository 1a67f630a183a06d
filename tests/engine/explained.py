"""Decided ticks and their explanations, without a history: one HPA at a time."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hpabatch.engine.explain import facts
from hpabatch.engine.explain.facts import Explanation
from hpabatch.engine.explain.run import explain_sync
from hpabatch.engine.explain.status import LaneWords, StatusReader
from hpabatch.engine.explain.sync import Sync
from hpabatch.kernels.status import status_fleet
from hpabatch.layout.records import Memory
from hpabatch.layout.results import empty_results
from hpabatch.model.objects.hpa import HPASpec, HPAStatus
from hpabatch.model.versions import ControllerFlags, profile_for
from hpabatch.packing.memory import seed_recommendations, seed_status
from hpabatch.packing.status import empty_statuses, make_status_memory
from hpabatch.packing.texts import Texts
from tests.compiled import replay_lane
from tests.packed import LaneView, TickView, make_memory, pack_fleet
from tests.rules.helpers import at


def row_names(tick: TickView) -> list[str]:
    """Return the names of a tick's rows: its pods, then samples of others."""
    names = [pod.name for pod in tick.pods]
    others = [n for answer in tick.answers for n in answer.samples if n not in names]
    return names + list(dict.fromkeys(others))


def syncs(
    specs: HPASpec | Sequence[HPASpec],
    ticks: Sequence[TickView],
    flags: ControllerFlags | None = None,
    k8s: str = "1.38",
    status: HPAStatus | None = None,
    recommendations: Sequence[tuple[int, float]] | None = None,
    gate: bool | None = None,
) -> list[Sync]:
    """Decide every tick of one HPA; recommendations are (value, seconds)."""
    profile = profile_for(k8s)
    if gate is not None:
        profile = replace(profile, gate_scale_to_zero=gate)
    view = LaneView([specs] if isinstance(specs, HPASpec) else list(specs), ticks)
    texts = Texts()
    fleet = pack_fleet([view], flags or ControllerFlags(), profile, texts)
    memory = make_memory(fleet, recorded=False, spare=len(recommendations or ()))
    if status is not None:
        seed_status(memory, 0, status)
    if recommendations is not None:
        seed_recommendations(memory, 0, [(value, at(s)) for value, s in recommendations])
    results = empty_results(fleet.ticks.size, fleet.answers.size, details=True)
    before: list[Memory] = []
    for t in range(fleet.ticks.size):
        before.append(copy.deepcopy(memory))
        replay_lane(fleet, memory, 0, t, t + 1, False, results)
    statuses = empty_statuses(fleet.ticks.size)
    last = np.array([fleet.ticks.size], np.int64)
    status_fleet(fleet, results, make_status_memory(fleet), last, statuses)
    reader = StatusReader(fleet, results, statuses, list(view.specs), texts, profile)
    words = LaneWords("shop", status or HPAStatus())
    return [
        Sync(reader, words, before[t], 0, t, True, row_names(tick)) for t, tick in enumerate(ticks)
    ]


def scale_of_tick(sync: Sync) -> facts.ScaleFact:
    """Return the scale as a tick read it."""
    ref, tick = sync.reader.specs[int(sync.tick.spec)].scale_target_ref, sync.tick
    known = sync.has_scale()
    return facts.ScaleFact(
        kind=ref.kind,
        name=ref.name,
        replicas=int(tick.replicas) if known else None,
        status_replicas=int(tick.status_replicas) if known else None,
        selector=None,
        since_ms=None,
        next_ms=None,
        next_replicas=None,
    )


def explained(
    specs: HPASpec | Sequence[HPASpec], ticks: Sequence[TickView], **options: Any
) -> list[Explanation]:
    """Return the explanation of every tick of one HPA; options as of `syncs`."""
    return [explain_sync(sync, scale_of_tick(sync)) for sync in syncs(specs, ticks, **options)]
