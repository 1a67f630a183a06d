"""Faults, and a process of `hpabatch live` for each of them, all before the same API server.

The cluster changes while their connections are faulty. Upstream's controller looks at it, too, but
not through a proxy: so it knows what is right.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hpabatch.history.reader import open_history
from hpabatch.history.store.verify import check_history
from tests.real.faulty_proxy import (
    Exchange,
    FaultyProxy,
    Where,
    core,
    every,
    metrics,
    pages,
    status,
    watches,
)
from tests.real.live_place import Live, Place

GONE = status(410, "Expired", "too old resource version: 1 (5)")
ERROR_EVENT = json.dumps({"type": "ERROR", "object": json.loads(GONE)}).encode()
LEVELS = {"shop/web": 300, "blog/web": 150, "shop/old": 100, "shop/late": 200}
MORE_FILES = 4  # connections that are kept for the next request
MORE_THREADS = 2
RIGHT = {"shop/web": 6, "shop/cart": 3, "shop/queue": 4, "blog/web": 3, "shop/old": 2}
AFTER = {"shop/web": 6, "shop/cart": 3, "shop/queue": 4, "blog/web": 5, "shop/late": 4}

Action = Callable[[Exchange], None]


def nothing(path: str) -> bool:
    return False


def _busy(exchange: Exchange) -> None:
    # A watch that was cut first lists one object: that of the pods is refused alike.
    if watches(exchange.path) or exchange.path.startswith("/api/v1/pods"):
        exchange.reply(429, b"slow down", "text/plain", Retry_After="1")
    else:
        code = {"c": 502, "e": 503}.get(exchange.path.removeprefix("/apis/")[0], 500)
        exchange.reply(code, b"oops", "text/plain")


def _broken(exchange: Exchange) -> None:
    if metrics(exchange.path) and "custom" not in exchange.path:
        exchange.half()
    else:
        exchange.reply(200, b"<html><body>Please log in</body></html>", "text/html")


def _gone() -> Action:
    turns = itertools.count()

    def act(exchange: Exchange) -> None:
        if pages(exchange.path) and next(turns) < 2:
            exchange.reply(410, GONE)
        elif watches(exchange.path):
            turn = next(turns) % 3
            lines = [ERROR_EVENT] if turn == 0 else []
            exchange.stream(*lines, whole=turn != 1)
        else:
            exchange.in_small_pages()

    return act


def _slow(exchange: Exchange) -> None:
    if watches(exchange.path):
        exchange.hang()
    else:
        exchange.dribble()


def _some_metrics(exchange: Exchange) -> None:
    if "/metrics.k8s.io" not in exchange.path:
        exchange.reply(503, b"", "text/plain")
    elif "/blog/" in exchange.path:
        exchange.reply(403, status(403, "Forbidden", "no pods for you"))
    else:
        exchange.hand_on()


def _late_and_ahead(exchange: Exchange) -> None:
    time.sleep(0.2)
    exchange.hand_on(date_s=300)


@dataclass
class Fault:
    """What goes wrong for one process, and what may be said about it.

    `cuts`: which connections break when it begins; `act` None: the server cannot be reached.
    `fails`: HPAs whose metrics fail. `blind`: changes are not seen. `hangs`: what was asked for
    in it is not answered after it.
    `said`: what problems are about, and a pattern of a part of their text.
    `budget`: for all metrics of a pass together; a short one would be a fault on a busy machine.
    """

    act: Action | None
    said: list[tuple[str, str]]
    where: Where = every
    cuts: Where = watches
    fails: frozenset[str] = frozenset(RIGHT)
    blind: bool = True
    hangs: bool = False
    budget: str = "10s"


WATCHED = 'hpabatch_watch_objects{watch="pods"}'
HPAS, PODS = "cluster horizontalpodautoscalers.autoscaling", "cluster pods"
USAGE = "cluster metrics.k8s.io in shop"
_CUT = "Server disconnected|peer closed connection"
FAULTS = {
    "away": Fault(None, [(HPAS, "connection refused"), (USAGE, "connection refused")]),
    "reset": Fault(Exchange.reset, [(HPAS, _CUT), (USAGE, _CUT)], cuts=every),
    "slow": Fault(
        _slow, [(HPAS, _CUT), (USAGE, "context deadline exceeded")], hangs=True, budget="2s"
    ),
    "busy": Fault(_busy, [(PODS, "too many requests"), (USAGE, "an error on the server")]),
    "broken": Fault(_broken, [(HPAS, "JSON is malformed"), (USAGE, _CUT)]),
    "gone": Fault(_gone(), [], core, fails=frozenset(), blind=False),
    "metrics": Fault(
        _some_metrics,
        [
            ("cluster metrics.k8s.io in blog", "no pods for you"),
            ("cluster custom.metrics.k8s.io rps in shop", "unable to handle the request"),
            ("cluster external.metrics.k8s.io queue in shop", "unable to handle the request"),
        ],
        metrics, nothing, frozenset({"blog/web", "shop/cart", "shop/queue"}), False,
    ),
    "late": Fault(
        # A Date tells seconds, and an answer takes its time: about as much.
        _late_and_ahead, [("cluster clock", r"clock is about (299|30\d) s ahead of ours")], every,
        nothing, frozenset(), False,
    ),
}  # fmt: skip


@dataclass
class Case:
    """A fault's process, and what was seen of it."""

    fault: Fault
    proxy: FaultyProxy
    live: Live
    before: tuple[int, int, float] = (0, 0, 0.0)
    after: tuple[int, int, float] = (0, 0, 0.0)
    begun: int = 0
    ended: int = 0
    during: dict[str, int] = field(default_factory=dict)
    exit: tuple[int, float] = (-1, 0.0)
    findings: list[tuple[object, ...]] = field(default_factory=list)

    def use(self) -> tuple[int, int, float]:
        return self.live.files(), self.live.threads(), self.live.memory_mib()

    def more(self) -> tuple[int, int, float]:
        """Return by how much it uses more afterwards: files, threads, MiB."""
        (files, threads, mib), before = self.after, self.before
        return files - before[0], threads - before[1], mib - before[2]

    def note_use(self, end: float) -> None:
        """Note what it uses afterwards, once that is no more: at times a request is under way.

        At `end`, of the monotonic clock, it is noted as it is.
        """
        while True:
            self.after = self.use()
            files, threads, _ = self.more()
            if (files <= MORE_FILES and threads <= MORE_THREADS) or time.monotonic() > end:
                return
            time.sleep(0.1)


def _decided(case: Case, wanted: dict[str, int]) -> bool:
    """Whether it says what is wanted, and that nothing is wrong."""
    said = case.live.desired()
    return not case.live.problems() and all(said.get(k) == v for k, v in wanted.items())


def weather(place: Place, folder: Path) -> dict[str, Case]:
    """Return what became of each process: a fault, its end, and another one that it ends in."""
    with ExitStack() as stack:
        cases = {name: _start(place, folder / name, fault, stack) for name, fault in FAULTS.items()}
        for case in cases.values():
            case.live.until(partial(_decided, case, RIGHT), 300)
        for case in cases.values():
            case.before, case.begun = case.use(), len(case.live.lines)
        with ExitStack() as faults:
            _begin(cases, faults)
            _change(place)
            for case in cases.values():
                if not case.fault.blind:
                    seen = {k: v for k, v in AFTER.items() if k not in case.fault.fails}
                    case.live.until(partial(_says, case, seen))
                case.during = case.live.desired()
        for case in cases.values():
            case.live.until(partial(_decided, case, AFTER))
        pods = place.count("/api/v1/pods")
        for case in cases.values():
            case.live.until(partial(_watches, case, pods))
        end = time.monotonic() + 60  # for all together
        for case in cases.values():
            case.note_use(end)
            case.ended = len(case.live.lines)
        with ExitStack() as faults:
            _begin(cases, faults)
            for case in cases.values():
                case.exit = case.live.end()
        for name, case in cases.items():
            case.findings = check_history(open_history(folder / name / "history")).rows()
        return cases


def _start(place: Place, folder: Path, fault: Fault, stack: ExitStack) -> Case:
    folder.mkdir()
    proxy = FaultyProxy(place.writer.cluster)
    stack.callback(proxy.close)
    config = proxy.kubeconfig(folder / "kubeconfig")
    # All is written at the end: what it uses is compared, and a segment's writing would count.
    record = ("--record", str(folder / "history"), "--segment", "1h")
    live = Live(folder, config, *record, "--fetch-budget", fault.budget)
    stack.callback(live.kill)
    return Case(fault, proxy, live)


def _begin(cases: dict[str, Case], faults: ExitStack) -> None:
    """Let all faults begin, and wait until what they should lead to is said."""
    since = {name: len(case.live.lines) for name, case in cases.items()}
    for case in cases.values():
        proxy, fault = case.proxy, case.fault
        if fault.act is None:
            faults.callback(proxy.up)
            proxy.down()
            continue
        if fault.hangs:
            faults.callback(proxy.cut, fault.where)
        faults.enter_context(proxy.fault(fault.where, fault.act))
        proxy.cut(fault.cuts)
    for name, case in cases.items():
        case.live.until(partial(_complains, case, since[name]))


def _complains(case: Case, since: int) -> bool:
    told = [(one["about"], one["text"]) for one in case.live.since(since, "problem")]
    return all(any(is_said(one, *of) for of in told) for one in case.fault.said)


def is_said(expected: tuple[str, str], about: str, text: str) -> bool:
    """Whether a problem is one that a fault should lead to."""
    return about == expected[0] and re.search(expected[1], text) is not None


def _watches(case: Case, pods: int) -> bool:
    return case.live.metrics()[WATCHED] == pods


def _says(case: Case, wanted: dict[str, int]) -> bool:
    said = case.live.desired()
    return all(said.get(name) == value for name, value in wanted.items())


def _change(place: Place) -> None:
    """Change the cluster, and wait until its controller has seen to it."""
    place.levels(cpu_total_m={"blog/web": 250})
    place.remove_hpa("shop", "old")
    place.remove_deployment("shop", "old")
    place.app("shop", "late")
    place.remake_a_pod("shop", "web")
    place.until(AFTER)
