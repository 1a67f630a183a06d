"""The live loop within the process of a test: pass by pass, and everything that it says."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.connect import connect
from hpabatch.live.loop.run import Loop, LoopOptions
from hpabatch.live.loop.setup import settle
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.result import PassResult
from hpabatch.live.passes.shadow import Shadow
from hpabatch.live.serve.log import LineLog
from hpabatch.live.serve.site import Site
from tests.real.api_writes import Json
from tests.real.live_place import FLAGS, WAIT_S

_EVERY_S = 0.1


class Inside:
    """A loop; it begins when it is entered."""

    def __init__(self, kubeconfig: Path, namespaces: Sequence[str] = ()) -> None:
        self.out = io.StringIO()
        self.client = ApiClient(connect(kubeconfig, None, False, {}))
        discovery = Discovery(self.client, absent_s=0.5)
        flags = [f"{name}={value}" for name, value in FLAGS.items()]
        version = discovery.server_version().text
        settings = settle(None, "", flags, version, None, round(_EVERY_S * 1000))
        self.site = Site(self.client, discovery, settings.profile, namespaces=namespaces)
        self.loop = Loop(
            self.site,
            Decider(settings.profile, settings.flags),
            Shadow(1000),
            LoopOptions(
                settings.flags.sync_period_ms,
                settings.k8s,
                log=LineLog(self.out, "east", as_json=True),
            ),
        )

    def __enter__(self) -> Inside:
        self.site.start()
        assert self.loop.wait_until_listed(threading.Event(), 60) == ""
        return self

    def __exit__(self, *_: object) -> None:
        self.site.stop()
        self.client.close()

    @property
    def lines(self) -> list[Json]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]

    def turn(self) -> PassResult:
        time.sleep(_EVERY_S)
        return self.loop.one_pass().result

    def until(self, holds: Callable[[PassResult], bool], seconds: float = WAIT_S) -> PassResult:
        """Make passes until one is such; return its result."""
        end = time.monotonic() + seconds
        while True:
            result = self.turn()
            if holds(result):
                return result
            told = [f"{one['event']} {one.get('about')} {one.get('text')}" for one in self.lines]
            assert time.monotonic() < end, (outcomes(result), told[-20:])

    def told(self, *events: str) -> list[tuple[str, str, str]]:
        """Return event, subject and text of what was said of the cluster and undecided HPAs."""
        return [
            (one["event"], one["about"], one["text"])
            for one in self.lines if one["event"] in events
        ]  # fmt: skip


def outcomes(result: PassResult) -> dict[str, int | str]:
    """Return what was decided, by name; of what fails, why."""
    return {
        name: result.why(h) if result.error[h] else int(result.decisions.desired[h])
        for h, name in enumerate(result.names)
    }
