"""A real cluster as the loop uses it: stream of changes, metrics APIs, problems."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from hpabatch.cluster.apis.discovery import ClockSkew, Discovery, target_key
from hpabatch.cluster.apis.metrics import Fetcher
from hpabatch.cluster.connection.client import ApiClient
from hpabatch.cluster.objects.decoders import BUILT_IN, HpaDecoder, PodDecoder, WorkloadDecoder
from hpabatch.cluster.objects.objects import Decoder
from hpabatch.cluster.objects.types import (
    ExternalMetricKey,
    HpaObject,
    Inbox,
    Kind,
    MetricKey,
    ObjectMetricKey,
    PodKey,
    PodMetricKey,
    Responses,
    ScaleKey,
)
from hpabatch.cluster.watch.feed import Feed
from hpabatch.cluster.watch.watch import HPAS, NEEDED, PODS, Collection, Watcher, WatchState
from hpabatch.model.versions import Profile

_KINDS = {(group, resource): kind for (group, kind), resource in BUILT_IN.items()}

_HPA_WATCH: Final = NEEDED[0]
_MOST_NAMED: Final = 10
"""Failures of one kind that are listed one by one."""
_SKEW_PASSES: Final = 8
"""Passes between two comparisons of the clocks: with the default period, two minutes."""


class Site(Feed):
    """A watched cluster. One thread calls it, another may call `states`."""

    def __init__(
        self,
        client: ApiClient,
        discovery: Discovery,
        profile: Profile,
        *,
        namespaces: Sequence[str] = (),
        budget_s: float = 10.0,
        at_once: int = 8,
        own: Sequence[HpaObject] | None = None,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            namespaces: only these; none: all.
            own: HPAs of documents, which are decided instead of the cluster's; those are watched
                for their targets only. None: the cluster's are decided.

        Raises:
            ApiError: the API server serves no HPAs, or does not respond.
        """
        super().__init__(Inbox(), client, discovery)
        self._namespaces = tuple(namespaces)
        self._hpa_version = discovery.hpa_version()
        self._profile, self._own = profile, own
        self._others = Inbox()  # HPAs of the cluster where own documents are decided
        self._named: dict[PodKey, ScaleKey] = {}
        self._fetcher = Fetcher(
            client, discovery, workers=at_once, deadline_s=budget_s,
            cluster_wide=not namespaces,
        )  # fmt: skip
        self._failing: dict[str, str] = {}  # of this pass
        self._skew = ClockSkew(client, self._inbox.behind_ms)
        self._passes = 0

    def start(self) -> None:
        """Start the watches."""
        for item in self._own or ():
            self._inbox.put(Kind.hpa, (item.namespace, item.name), item)
        super().start()

    def named_targets(self) -> dict[ScaleKey, str]:
        """Return the targets that HPAs of the cluster name, and one that does."""
        for change in self._others.cut()[0]:
            key = (change.key[0], change.key[1])
            if isinstance(change.thing, HpaObject):
                spec = change.thing.hpa.spec
                self._named[key] = target_key(key[0], spec.scale_target_ref)
            else:
                self._named.pop(key, None)
        return {at: f"HPA {n}/{name}" for (n, name), at in sorted(self._named.items())}

    def end(self) -> None:
        """Interrupt running requests with errors, and close the client. For any thread."""
        self._fetcher.end()
        super().end()
        self._client.close()

    def stop(self) -> None:
        """End all watches and requests, and the client."""
        self.end()  # otherwise every watch would wait for its server
        super().stop()

    def blindness(self) -> str:
        """Return why the HPAs of the cluster may be others than are known, "" if they are known."""
        watch = self.watches.get(_HPA_WATCH)
        if watch is None:
            return "they are not watched yet"
        # With own documents any may be on a target; otherwise `unreadable` has those with a name.
        wrong = [
            text for name, text in watch.wrong.items() if self._own is not None or not _key(name)
        ]
        if wrong:
            return wrong[0]
        state = watch.state
        return state.last_error or ("" if state.synced else "they are not listed yet")

    def unreadable(self) -> dict[PodKey, str]:
        """Return the HPAs whose present state cannot be decoded, and why not."""
        watch = self.watches.get(_HPA_WATCH)
        wrong = {} if watch is None else watch.wrong
        return {key: text for name, text in wrong.items() if (key := _key(name))}

    def read_scales(self) -> int:
        """Update the scales that no watch covers; a pass begins with this."""
        if self._passes % _SKEW_PASSES == 0:
            self._skew.look()
        self._passes += 1
        self._failing = {}
        return super().read_scales()

    def fetch(self, wanted: Set[MetricKey]) -> Responses:
        """Fetch from the metrics APIs; failures are in the responses."""
        responses = self._fetcher.fetch(wanted)
        self._failing |= _failing(responses)
        return responses

    def states(self) -> list[WatchState]:
        """Return the states of the watches, by name."""
        return [watch.state for _, watch in sorted(self.watches.items())]

    def clock_skew_s(self) -> float | None:
        """Return the API server's clock less that of decisions, to a second; None: unknown."""
        return self._skew.seconds

    def is_refused(self) -> bool:
        """Return whether HPAs or pods may not be read in any watched namespace."""
        watches = self.watches
        return any(name in watches and watches[name].state.refused for name in NEEDED)

    def problems(self) -> dict[str, str]:
        """Return problems of the cluster's APIs, by subject."""
        found: dict[str, str] = {}
        for name, watch in sorted(self.watches.items()):
            for state in watch.states:
                if state.last_error:
                    place = f"{name} in {state.namespace}" if state.namespace else name
                    found[place] = state.last_error
            wrong = {f"{name} {what}": text for what, text in watch.wrong.items()}
            found |= _few(name, wrong)
        skew = self._skew.problem
        return found | self._failing | ({"clock": skew} if skew else {})

    def request_count(self) -> int:
        """Return the number of requests so far."""
        return self._client.requests.total

    def _watch(self, group: str, resource: str) -> Watcher:
        version, decoder = "v1", self._decoder(group, resource)
        if resource == HPAS:
            version = self._hpa_version
        is_others = resource == HPAS and self._own is not None
        inbox = self._others if is_others else self._inbox
        return Watcher(
            self._client, inbox, Collection(group, version, resource), decoder, self._namespaces
        )  # fmt: skip

    def _decoder(self, group: str, resource: str) -> Decoder:
        if resource == HPAS:
            return HpaDecoder(f"autoscaling/{self._hpa_version}", self._profile)
        if resource == PODS:
            return PodDecoder()
        return WorkloadDecoder(group, _KINDS[group, resource])


def _key(name: str) -> PodKey | None:
    """Return namespace and name of a watch's `namespace/name`, None: the object has no name."""
    namespace, slash, own = name.partition("/")
    return (namespace, own) if slash else None


def _failing(responses: Responses) -> dict[str, str]:
    """Return the errors of the metrics APIs by subject."""
    found: dict[str, dict[str, str]] = {}
    for key in sorted(responses, key=_rank):
        (api, about), response = _about(key), responses[key]
        if response.error:
            found.setdefault(api, {}).setdefault(f"{api}{about}", response.error)
    few = [_few(api, wrong) for api, wrong in found.items()]
    return {about: text for wrong in few for about, text in wrong.items()}


def _rank(key: MetricKey) -> tuple[int, tuple[str, ...]]:
    if isinstance(key, str):
        return 0, (key,)
    return (PodMetricKey, ObjectMetricKey, ExternalMetricKey).index(type(key)) + 1, key[:6]


def _about(key: MetricKey) -> tuple[str, str]:
    if isinstance(key, str):
        return "metrics.k8s.io", f" in {key}" if key else ""
    if isinstance(key, ObjectMetricKey):
        about = f" {key.metric} of {key.kind} {key.namespace}/{key.name}"
        return "custom.metrics.k8s.io", about
    api = "external" if isinstance(key, ExternalMetricKey) else "custom"
    return f"{api}.metrics.k8s.io", f" {key.metric} in {key.namespace}"


def _few(kind: str, wrong: dict[str, str]) -> dict[str, str]:
    """Return problems of one kind: the first ones, and that there are more.

    Their number is left out: it would differ in every pass.
    """
    if len(wrong) <= _MOST_NAMED:
        return wrong
    return dict(list(wrong.items())[:_MOST_NAMED]) | {kind: "more of them fail"}
