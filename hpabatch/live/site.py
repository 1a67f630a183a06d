"""A real cluster as the loop knows it: its stream of changes, its metrics APIs, what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpabatch.cluster.client import ApiClient
from hpabatch.cluster.discovery import Discovery
from hpabatch.cluster.feed import HPAS, PODS, Cut, Feed
from hpabatch.cluster.hpas import HpaDecoder
from hpabatch.cluster.inbox import Inbox
from hpabatch.cluster.metrics import Fetcher
from hpabatch.cluster.objects import Decoder
from hpabatch.cluster.pods import PodDecoder
from hpabatch.cluster.scales import ScaleBook
from hpabatch.cluster.types import Answer, Answers, ScaleKey, Wanted
from hpabatch.cluster.watch import Collection, Watcher
from hpabatch.cluster.workloads import BUILT_IN, WorkloadDecoder
from hpabatch.live.exporter import WatchState
from hpabatch.model.config import Profile

_KINDS = {(group, resource): kind for (group, kind), resource in BUILT_IN.items()}

_NEEDED = (f"{HPAS}.autoscaling", PODS)


class Site:
    """A cluster that is watched. One thread calls it, another may ask for `states`."""

    def __init__(
        self,
        client: ApiClient,
        discovery: Discovery,
        profile: Profile,
        *,
        namespaces: Sequence[str] = (),
        budget_s: float = 10.0,
        at_once: int = 8,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            client: asks the API server.
            discovery: what it serves.
            profile: the rules of its version.
            namespaces: only these; none: all.
            budget_s: how long all requests for the metrics of a pass may take together.
            at_once: how many of them at once.
            tell: is given sentences about watches, from any thread.
        """
        self._client = client
        self._namespaces = tuple(namespaces)
        self._tell = tell
        self._hpa_version = discovery.hpa_version()
        self._profile = profile
        self._inbox = Inbox()
        self._fetcher = Fetcher(
            client, discovery, workers=at_once, deadline_s=budget_s, request_s=budget_s,
            cluster_wide=not namespaces,
        )  # fmt: skip
        self._discovery = discovery
        self.feed = Feed(self._inbox, self._book, self._watch)
        self._failing: dict[str, str] = {}

    def start(self) -> None:
        """Begin to watch."""
        self.feed.start()

    def stop(self) -> None:
        """End all watches and requests."""
        self.feed.stop()
        self._fetcher.close()

    def cut(self) -> Cut:
        """Return what has become known since the last cut, and the instant."""
        return self.feed.cut()

    def learn(self) -> None:
        """Take in what is known so far, so that more can be watched."""
        self.feed.learn()

    def read_scales(self) -> None:
        """Bring the scales up to date that no watch tells of."""
        self.feed.read_scales()

    def fetch(self, wanted: Wanted) -> Answers:
        """Ask the metrics APIs; whatever fails is in the answers."""
        answers = self._fetcher.fetch(wanted)
        self._failing = _failing(answers)
        return answers

    def states(self) -> list[WatchState]:
        """Return how the watches stand.

        One of workloads that is not allowed counts as listed: their scales are asked for one by
        one. Without HPAs and pods nothing can be decided.
        """
        found = []
        for name, watch in sorted(self.feed.watches.items()):
            state = watch.state
            listed = state.synced or (state.refused and name not in _NEEDED)
            found.append(WatchState(name, listed, state.objects, state.relists, state.broken))
        return found

    def is_refused(self) -> bool:
        """Say whether HPAs or pods may not be read, wherever they were asked for."""
        watches = self.feed.watches
        return any(name in watches and watches[name].state.refused for name in _NEEDED)

    def problems(self) -> dict[str, str]:
        """Return what is wrong with the cluster's APIs, by what it concerns."""
        found = {
            name: watch.state.last_error
            for name, watch in sorted(self.feed.watches.items())
            if watch.state.last_error
        }
        notes = self._fetcher.notes
        return found | self._failing | ({"items": notes[0]} if notes else {})

    def request_count(self) -> int:
        """Return how many requests were made so far."""
        return self._client.requests.total

    def _book(self, watched: Callable[[ScaleKey], bool]) -> ScaleBook:
        return ScaleBook(self._client, self._discovery, watched=watched)

    def _watch(self, group: str, resource: str) -> Watcher:
        version, decoder = "v1", self._decoder(group, resource)
        if resource == HPAS:
            version = self._hpa_version
        return Watcher(
            self._client, self._inbox, Collection(group, version, resource), decoder,
            namespaces=self._namespaces, everywhere=not self._namespaces, tell=self._tell,
        )  # fmt: skip

    def _decoder(self, group: str, resource: str) -> Decoder:
        if resource == HPAS:
            return HpaDecoder(f"autoscaling/{self._hpa_version}", self._profile)
        if resource == PODS:
            return PodDecoder()
        return WorkloadDecoder(group, _KINDS[group, resource])


def _failing(answers: Answers) -> dict[str, str]:
    """Return the errors of the metrics APIs: one for each API and namespace."""
    found: dict[str, str] = {}

    def note(about: str, answer: Answer) -> None:
        if answer.error:
            found.setdefault(about, answer.error)

    for namespace, answer in sorted(answers.usage.items()):
        note(f"metrics.k8s.io{f' in {namespace}' if namespace else ''}", answer)
    for pods in sorted(answers.pods):
        note(f"custom.metrics.k8s.io {pods.metric} in {pods.namespace}", answers.pods[pods])
    for described in sorted(answers.objects):
        about = f"{described.metric} of {described.kind} {described.namespace}/{described.name}"
        note(f"custom.metrics.k8s.io {about}", answers.objects[described])
    for external in sorted(answers.external):
        about = f"{external.metric} in {external.namespace}"
        note(f"external.metrics.k8s.io {about}", answers.external[external])
    return found
