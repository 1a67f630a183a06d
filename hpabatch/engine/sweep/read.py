"""Files that the request of a sweep names."""

from __future__ import annotations

from hpabatch.engine.fidelity.lens import seen_through
from hpabatch.engine.fleet.parameters import replay_parameters
from hpabatch.engine.fleet.plan import See
from hpabatch.engine.fleet.selection import selection_of
from hpabatch.engine.simulate.read import read_work
from hpabatch.engine.sweep.request import SweepRequest
from hpabatch.engine.sweep.run import SweepOptions, SweepPlan, plan_sweep
from hpabatch.history.base import History
from hpabatch.inputs.grid import read_grids
from hpabatch.inputs.policies import all_policy_sets, read_policy_sets


def plan_request(history: History, request: SweepRequest, see: See | None = None) -> SweepPlan:
    """Return the plan of the sweep that a request asks for; `see` puts its lens in, if known.

    Raises:
        UsageError: a file or the grid is wrong; all that is wrong with grid, policy sets and
            groups in one message.
        HistoryError: the history cannot be read, or lacks what a simulation needs.
    """
    own = {} if request.policy_sets is None else read_policy_sets(request.policy_sets)
    sets = all_policy_sets(own)
    grid = read_grids(request.grid, sets, request.sample, request.seed)
    loop = read_work(request, files=(request.policy_sets,))
    options = SweepOptions(grid, sets, request.group, loop, request.fidelity)
    see = see or seen_through(request.lens)
    return plan_sweep(history, replay_parameters(request), options, selection_of(request), see)
