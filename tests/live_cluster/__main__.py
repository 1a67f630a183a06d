"""`python -m tests.live_cluster`: the script, the loop beside it, the verdict."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from tests.live_cluster import plug, report
from tests.live_cluster.cases import Case, all_cases
from tests.live_cluster.ground import (
    CONTROLLER,
    NO_CLUSTER,
    SKIPS,
    Flags,
    Ground,
    given_cluster,
    own_cluster,
    why_none,
)
from tests.live_cluster.scene import scene
from tests.live_cluster.script import Step, idle, plain_script, random_script, run_steps
from tests.live_cluster.script import short_script as script
from tests.live_cluster.server import Server, open_server
from tests.live_cluster.verdict import Run, Verdict, judge, judge_truth, load_run

FOLDER = Path("build/test-cluster")
OK, FAILED, SKIPPED, DULL = 0, 1, 3, 4
EVERY_MS, GIVEN_EVERY_MS = 250, 1000
AHEAD_MS = 50  # from a change of levels to the pass that knows it


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.judge:
        run = load_run(options.judge)
        skipped = () if run.audit else tuple(SKIPS)
        return _tell(_verdict(run, _cases(skipped), options.truth_only), skipped)
    kubeconfig = os.environ.get("KUBECONFIG", "")
    if not kubeconfig and why_none():
        _say([f"left out: {NO_CLUSTER}: {why_none()}, and KUBECONFIG names no other cluster"])
        return _code(OK, [NO_CLUSTER], options.expected_skips)
    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    ground: AbstractContextManager[Ground]
    if kubeconfig:
        ground = given_cluster(kubeconfig, options.sync_s or 15.0)
    else:
        ground = own_cluster(options.folder.resolve() / "cluster", _flags(options.sync_s))
    with ground as found:
        skipped = found.skipped
        run = _run(found, options)
    verdict = _verdict(run, _cases(skipped), options.truth_only)
    return _code(_tell(verdict, skipped), skipped, options.expected_skips)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.live_cluster", description=__doc__)
    more = parser.add_argument
    more("--folder", type=Path, default=FOLDER, help="where everything of the run is kept")
    more("--every-ms", type=int, help="between two passes of the loop (given cluster: 1000)")
    more("--sync-s", type=float, help="the controller's sync period (given cluster: what it has)")
    more("--seed", type=int, help="random levels instead of the short script")
    more("--seconds", type=float, default=600, help="how long the random levels go on")
    more("--truth-only", action="store_true", help="without the loop: what does the controller do")
    more("--judge", type=Path, metavar="FOLDER", help="judge a run that is over")
    more("--expected-skips", help="fail if anything but these (comma-separated) is left out")
    return parser.parse_args(arguments)


def _flags(sync_s: float | None) -> Flags:
    return Flags() if sync_s is None else Flags(sync_s)


def _cases(skipped: Sequence[str]) -> list[Case]:
    """Return the cases that are left."""
    return [case for case in all_cases() if not case.needs & frozenset(skipped)]


def _run(ground: Ground, options: argparse.Namespace) -> Run:
    with open_server(ground.kubeconfig) as server:
        return _run_on(server, ground, options)


def _run_on(server: Server, ground: Ground, options: argparse.Namespace) -> Run:
    """Let the loop watch the script; return what judges it."""
    cases, begun = _cases(ground.skipped), time.monotonic()
    every_ms = options.every_ms or (EVERY_MS if ground.own else GIVEN_EVERY_MS)

    def tell(name: str) -> None:
        _say([f"{time.monotonic() - begun:6.1f} s  {name}"])

    with scene(server, cases, ground.stub, ground.own) as stage:
        loop: AbstractContextManager[plug.Live | None] = nullcontext()
        if not options.truth_only:
            loop = plug.running_live(ground, options.folder, every_ms, stage.namespace)
        with loop as live:
            tell("the loop is ready")
            if ground.stub is not None:
                idle(stage)
            stage.make()
            tell(f"{len(cases)} HPAs are made in {stage.namespace}")
            wait = partial(live.to_next_pass_s, AHEAD_MS) if live else lambda: 0.0
            run_steps(_steps(ground, options), stage, ground.flags.sync_s, wait, tell)
            end_ms = time.time_ns() // 1_000_000
    tell("everything is removed")
    flags = ground.flags
    run = Run(
        folder=options.folder, namespace=stage.namespace, end_ms=end_ms, every_ms=every_ms,
        window_ms=round(flags.downscale_stabilization_s * 1000),
        k8s=ground.k8s, gates=ground.gates,
        audit=ground.audit, lively=ground.own and options.seed is None,
    )  # fmt: skip
    run.save()
    return run


def _steps(ground: Ground, options: argparse.Namespace) -> Iterable[Step]:
    if ground.stub is None:
        return plain_script()
    if options.seed is not None:
        return random_script(options.seed, options.seconds, ground.flags.sync_s)
    return script()


def _verdict(run: Run, cases: Sequence[Case], truth_only: bool) -> Verdict:
    return judge_truth(run, cases)[1] if truth_only else judge(run, cases)


def _tell(verdict: Verdict, skipped: Sequence[str]) -> int:
    _say(report.table(verdict))
    _say(report.differences(verdict))
    _say(report.counts(verdict))
    _say(report.skips(skipped, SKIPS))
    _say(report.failures(verdict))
    if not verdict.failed or CONTROLLER in skipped:
        return OK
    return FAILED if verdict.differs else DULL


def _code(code: int, skipped: Sequence[str], expected: str | None) -> int:
    """Return the exit code: nothing may be left out that was not expected to be."""
    if expected is None:
        return code
    surprising = sorted(set(skipped) - set(filter(None, expected.split(","))))
    if surprising:
        _say([f"left out, though it was not expected: {', '.join(surprising)}"])
        return code or SKIPPED
    return code


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
