"""A real cluster as the loop knows it: its stream of changes, its metrics APIs, what is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hpabatch.cluster.apis.discovery import Discovery
from hpabatch.cluster.apis.metrics import Fetcher
from hpabatch.cluster.apis.scales import ScaleBook
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.connection.skew import ClockSkew
from hpabatch.cluster.objects.hpas import HpaDecoder
from hpabatch.cluster.objects.inbox import Inbox
from hpabatch.cluster.objects.objects import Decoder
from hpabatch.cluster.objects.pods import PodDecoder
from hpabatch.cluster.objects.types import Answer, Answers, ScaleKey, Wanted
from hpabatch.cluster.objects.workloads import BUILT_IN, WorkloadDecoder
from hpabatch.cluster.watch.feed import FAILED_OFTEN, HPAS, PODS, Cut, Feed
from hpabatch.cluster.watch.watch import Collection, Watcher
from hpabatch.live.serve.exporter import WatchState
from hpabatch.model.versions import Profile

_KINDS = {(group, resource): kind for (group, kind), resource in BUILT_IN.items()}

_NEEDED = (f"{HPAS}.autoscaling", PODS)
_MOST_NAMED: Final = 10
"""So many of a kind that fail are named one by one, more of them all at once."""
_SKEW_PASSES: Final = 8
"""The clocks are compared every so many passes: with the usual period, every two minutes."""
_QUOTED: Final = re.compile(r'"[a-z]+://([^/"]+)[^"]*"')
_ASKED: Final = re.compile(r" \(get [^)]*\)$")


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
    ) -> None:
        """Prepare; `start` begins.

        Args:
            client: asks the API server.
            discovery: what it serves.
            profile: the rules of its version.
            namespaces: only these; none: all.
            budget_s: how long all requests for the metrics of a pass may take together.
            at_once: how many of them at once.

        Raises:
            ApiError: the API server serves no HPAs, or does not say.
        """
        self._client = client
        self._namespaces = tuple(namespaces)
        self._hpa_version = discovery.hpa_version()
        self._profile = profile
        self._inbox = Inbox()
        self._fetcher = Fetcher(
            client, discovery, workers=at_once, deadline_s=budget_s, request_s=budget_s,
            cluster_wide=not namespaces,
        )  # fmt: skip
        self._discovery = discovery
        self.feed = Feed(self._inbox, self._book, self._watch)
        self._failing: dict[str, str] = {}  # of this pass, and notes on items left out
        self._notes: tuple[str, ...] = ()
        self._skew = ClockSkew(client, lambda: self._inbox.behind_ms / 1000)
        self._passes = 0

    def start(self) -> None:
        """Begin to watch."""
        self.feed.start()

    def end(self) -> None:
        """Break off what is asked for just now, in error, and the client. For any thread."""
        self._fetcher.end()
        self.feed.end()
        self._client.close()

    def stop(self) -> None:
        """End all watches and requests, and the client."""
        self.end()  # else every watch would wait for its server
        self.feed.stop()
        self._fetcher.close()
        self._skew.stop()

    def cut(self) -> Cut:
        """Return what has become known since the last cut, and the instant."""
        return self.feed.cut()

    def learn(self) -> None:
        """Take in what is known so far, so that more can be watched."""
        self.feed.learn()

    def read_scales(self) -> None:
        """Bring the scales up to date that no watch tells of; a pass begins with it."""
        if self._passes % _SKEW_PASSES == 0:
            self._skew.look()
        self._passes += 1
        self._failing, self._notes = {}, ()
        self.feed.read_scales()

    def fetch(self, wanted: Wanted) -> Answers:
        """Ask the metrics APIs; whatever fails is in the answers."""
        answers = self._fetcher.fetch(wanted)
        failing, any_good = _failing(answers)
        self._failing |= failing
        self._notes += self._fetcher.notes
        if any_good:
            for watch in self.feed.watches.values():
                watch.hurry()
        return answers

    def states(self) -> list[WatchState]:
        """Return how the watches stand.

        One of workloads that is not allowed, or fails again and again, counts as listed: their
        scales are asked for one by one. Without HPAs and pods nothing can be decided.
        """
        found = []
        for name, watch in sorted(self.feed.watches.items()):
            state = watch.state
            hopeless = state.refused or state.failed >= FAILED_OFTEN
            listed = state.synced or (hopeless and name not in _NEEDED)
            errors, fine = state.failed + state.broken, not state.last_error
            found.append(
                WatchState(
                    name, state.synced and fine, state.objects, state.relists, errors, listed
                )
            )
        return found

    def clock_skew_s(self) -> float | None:
        """Return the API server's clock less ours, to about a second; None: not known yet."""
        return self._skew.seconds

    def is_refused(self) -> bool:
        """Say whether HPAs or pods may not be read, wherever they were asked for."""
        watches = self.feed.watches
        return any(name in watches and watches[name].state.refused for name in _NEEDED)

    def problems(self) -> dict[str, str]:
        """Return what is wrong with the cluster's APIs, by what it concerns."""
        found: dict[str, str] = {}
        for name, watch in sorted(self.feed.watches.items()):
            for state in watch.states:
                if state.last_error:
                    place = f"{name} in {state.namespace}" if state.namespace else name
                    found[place] = state.last_error
            wrong = {f"{name} {what}": text for what, text in watch.wrong.items()}
            found |= _few(name, wrong)
        notes, skew = self._notes, self._skew.problem
        found |= self._failing
        return found | ({"items": notes[0]} if notes else {}) | ({"clock": skew} if skew else {})

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
            namespaces=self._namespaces, everywhere=not self._namespaces,
        )  # fmt: skip

    def _decoder(self, group: str, resource: str) -> Decoder:
        if resource == HPAS:
            return HpaDecoder(f"autoscaling/{self._hpa_version}", self._profile)
        if resource == PODS:
            return PodDecoder()
        return WorkloadDecoder(group, _KINDS[group, resource])


def _failing(answers: Answers) -> tuple[dict[str, str], bool]:
    """Return the errors of the metrics APIs, by API and what was asked; and if any answered."""
    found: dict[str, dict[str, str]] = {}
    good = False
    for api, about, answer in _asked(answers):
        if answer.error:
            found.setdefault(api, {}).setdefault(f"{api}{about}", answer.error)
        else:
            good = True
    few = [_few(api, wrong) for api, wrong in found.items()]
    return {about: text for wrong in few for about, text in wrong.items()}, good


def _asked(answers: Answers) -> Iterator[tuple[str, str, Answer]]:
    """Yield of each answer its API, what was asked, and the answer."""
    for namespace, answer in sorted(answers.usage.items()):
        yield "metrics.k8s.io", f" in {namespace}" if namespace else "", answer
    for pods, answer in sorted(answers.pods.items()):
        yield "custom.metrics.k8s.io", f" {pods.metric} in {pods.namespace}", answer
    for key, answer in sorted(answers.objects.items()):
        about = f" {key.metric} of {key.kind} {key.namespace}/{key.name}"
        yield "custom.metrics.k8s.io", about, answer
    for series, answer in sorted(answers.external.items()):
        yield "external.metrics.k8s.io", f" {series.metric} in {series.namespace}", answer


def _few(kind: str, wrong: dict[str, str]) -> dict[str, str]:
    """Return what is wrong with things of a kind: one by one, or of many the commonest."""
    if len(wrong) <= _MOST_NAMED:
        return wrong
    texts = Counter(_general(text) for text in wrong.values())
    # How many they are is not said: it would be another number in every pass.
    return {kind: f"many fail, most of them so: {min(texts, key=lambda t: (-texts[t], t))}"}


def _general(text: str) -> str:
    """Return an error without what was asked for, as many have it."""
    return _ASKED.sub("", _QUOTED.sub(r"\1", text))
