"""`hpabatch record`: write down what HPAs, their pods and metrics do, for later questions."""

from __future__ import annotations

from hpabatch.cli.app import app
from hpabatch.cli.command import command
from hpabatch.cli.live import need_packages
from hpabatch.live.loop.request import RecordRequest


@command(app)
def record(request: RecordRequest) -> None:
    """Record a cluster's HPAs, their targets, pods and metrics into a history.

    Nothing in the cluster is ever changed. HPAs, pods and workloads are watched, and every --every
    the metrics APIs are asked what HPAs look at. The store --out grows by segments; a kill loses at
    most the open one. Days that are over are compacted. What was recorded can be replayed, fitted,
    swept and planned with like any history; --instants passes makes the decisions of every pass
    again. What is wrong is told on stderr when it changes.

    \b
    Exit codes: 0 fine (also when interrupted), 2 the cluster or a file cannot be read, 3 refused.

    \b
    Examples:
      hpabatch record --out history/
      hpabatch record --out history/ --every 30s --context prod -n shop -n payments
      hpabatch record --out s3://bucket/history --in-cluster --segment 1m
    """
    need_packages()
    from hpabatch.cli.live.run import run_live

    run_live(request.as_live(), compares=False)
