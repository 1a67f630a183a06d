"""Files that the request of a simulation names."""

from __future__ import annotations

from collections.abc import Sequence

from hpabatch.engine.fit.overrides import read_plants
from hpabatch.engine.fleet.request import lens_file
from hpabatch.engine.simulate.request import VariedWork, Work
from hpabatch.engine.simulate.run import LoopOptions
from hpabatch.inputs.documents import digests_of
from hpabatch.inputs.lenses import read_lens_file
from hpabatch.inputs.prices import read_price_file
from hpabatch.inputs.scenarios import grown_scenario
from hpabatch.model.objects.hpa import HPA


def read_work(
    request: Work,
    manifests: Sequence[HPA] | None = None,
    keep_points: bool = False,
    files: Sequence[str | None] = (),
) -> LoopOptions:
    """Return the options of a simulation, with the contents of its files.

    `files` are further ones that belong into the evidence.

    Raises:
        UsageError: a file is wrong, or the growth is no factor.
    """
    growth, noise, lens = None, "off", None
    if isinstance(request, VariedWork):
        growth, noise, lens = request.growth, request.noise, lens_file(request)
    if lens is not None:
        read_lens_file(lens)  # (its mistakes are told before anything is done)
    return LoopOptions(
        manifests=None if manifests is None else tuple(manifests),
        scenario=grown_scenario(request.scenario, growth),
        plants=read_plants(request),
        prices=None if request.prices is None else read_price_file(request.prices),
        seed=request.seed,
        keep_gaps=request.gaps == "keep",
        noise=noise == "resample",
        length_ms=request.length_ms,
        keep_points=keep_points,
        files=digests_of((request.scenario, *request.plant, request.prices, lens, *files)),
    )
