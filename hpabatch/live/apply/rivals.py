"""Detection of other HPA controllers: before anything is written, and in every pass.

A controller with nothing to change writes nothing for hours, so the absence of writes does not show
that there is none. Hence a probe: an HPA in hpabatch's own namespace without a target. Every
controller of HPAs writes its first status within a sync period or two, because it cannot read the
scale. Labels exclude nothing: the built-in controller serves every HPA of the cluster.

A status on the probe is the sign of a rival, and begins the waiting time anew.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hpabatch.cluster.apis.discovery import target_key
from hpabatch.cluster.connection.errors import ApiError, NotFound
from hpabatch.cluster.connection.writes import Json, WriteClient
from hpabatch.cluster.objects.types import ScaleKey
from hpabatch.cluster.watch.site import Site
from hpabatch.live.passes.lanes import Lane, LaneKey

PROBE: Final = "hpabatch-probe"
_PERIODS: Final = 3
_BEYOND_S: Final = 120.0
_LEAST_PERIOD_S: Final = 15.0  # Kubernetes' default: of a rival whose period is not known
_OUTAGE_PERIODS: Final = 4  # after a longer outage the waiting time begins anew
_TIMEOUT_S: Final = 4.0
_WRITTEN: Final = ("conditions", "currentReplicas", "desiredReplicas", "lastScaleTime")


def silence_s(period_s: float) -> float:
    """Return how long a probe must stay without status: three sync periods and two minutes.

    Kubernetes' default period counts where the own one is shorter: it is the rival's that matters.
    """
    return _PERIODS * max(period_s, _LEAST_PERIOD_S) + _BEYOND_S


class Silence:
    """The time without a sign (`evidence`) of another controller, as readings of the probe show it.

    After an outage of the API server a controller may have been started, and begins within a sync
    period: a short one hides nothing in so long a time. For one thread.
    """

    def __init__(
        self, wait_s: float, period_s: float = _LEAST_PERIOD_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        """Begin with no silence.

        Args:
            wait_s: of silence before anything is written; `silence_s` in production, tests may
                shorten it.
            clock: monotonic seconds.
        """
        self._wait_s, self._clock = wait_s, clock
        self._outage_s = _OUTAGE_PERIODS * max(period_s, _LEAST_PERIOD_S)
        self._began_s = self._last_s = -math.inf  # of readings without status
        self.evidence = ""

    def quiet(self) -> None:
        """Take note that the probe was read and has no status."""
        now = self._clock()
        if now - self._last_s > self._outage_s:
            self._began_s = now
        self._last_s = now
        if not self.refusal:
            self.evidence = ""  # it is gone: a later silence has nothing to do with it

    def interrupt(self) -> None:
        """Begin anew."""
        self._began_s = self._last_s = -math.inf

    @property
    def refusal(self) -> str:
        """Why nothing may be written yet, "" if it may."""
        if self._last_s - self._began_s >= self._wait_s:
            return ""
        if self.evidence:
            return (
                f"another controller acts on HPAs: {self.evidence}; switch it off; writes begin "
                f"{self._wait_s:.0f} s after its last sign"
            )
        return (
            f"the probe HPA {PROBE} must stay without status for {self._wait_s:.0f} s, which shows "
            "that no other controller acts"
        )


class Probe:
    """The probe HPA. For one thread."""

    def __init__(self, client: WriteClient, version: str, namespace: str, silence: Silence) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: sends the requests; it must store them (no dry run).
            namespace: hpabatch's own.
            silence: is interrupted or goes on, as the probe shows.
        """
        self.key: LaneKey = (namespace, PROBE)
        self._client, self._version, self._silence = client, version, silence
        self._collection = (
            f"/apis/autoscaling/{version}/namespaces/{namespace}/horizontalpodautoscalers"
        )
        self._uid = ""

    def look(self, leads: bool) -> str:
        """Read the probe; a leader makes it, and makes it anew if it has a status.

        Returns why it could not be read, "" if it could: then nothing may be written.
        """
        try:
            return self._look(leads)
        except ApiError as error:
            return f"the probe HPA {'/'.join(self.key)} cannot be read or made: {error.text}"

    def _look(self, leads: bool) -> str:
        path = f"{self._collection}/{PROBE}"
        try:
            found = self._client.read(path, _TIMEOUT_S)
        except NotFound:
            self._silence.interrupt()
            if leads:
                self._client.write("POST", self._collection, self._document(), _TIMEOUT_S)
            return ""
        status = found.get("status") or {}
        if any(status.get(name) for name in _WRITTEN):
            self._silence.interrupt()
            self._silence.evidence = f"the probe HPA {'/'.join(self.key)} has got a status"
            if leads:
                self._client.write("DELETE", path, None, _TIMEOUT_S)
            return ""
        uid = str((found.get("metadata") or {}).get("uid"))
        if uid != self._uid:
            self._uid = uid
            self._silence.interrupt()
        self._silence.quiet()
        return ""

    def _document(self) -> Json:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{PROBE}-has-no-target"}
        aim = {"type": "Utilization", "averageUtilization": 80}
        metric = {"type": "Resource", "resource": {"name": "cpu", "target": aim}}
        spec = {
            "scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 1, "metrics": [metric]
        }  # fmt: skip
        return {
            "apiVersion": f"autoscaling/{self._version}", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": PROBE, "namespace": self.key[0]}, "spec": spec,
        }  # fmt: skip


@dataclass(slots=True)
class Rivals:
    """Signs of other controllers in a pass. For one thread.

    Attributes:
        hpas: of the cluster: while they are not known, nothing is written.
        documents: the site, with own documents; None with HPAs of the cluster.
        silence, probe: None with own documents.
        barred: HPAs that are not acted on in this pass, and why.
    """

    hpas: Site
    documents: Site | None
    silence: Silence | None
    probe: Probe | None
    barred: dict[LaneKey, str] = field(default_factory=dict)

    def look(self, lanes: Iterable[Lane], probe: str) -> str:
        """Look for signs; return why nothing may be written, "" if it may.

        Args:
            probe: why it could not be read in this pass, "" if it could be.
        """
        blind = self.hpas.blindness()
        blind = f"the HPAs of the cluster cannot be followed: {blind}" if blind else ""
        if self.documents is not None:
            self.barred = _named(self.documents.named_targets(), lanes)
            return blind
        if self.silence is None or self.probe is None:
            raise AssertionError("HPAs of the cluster are only scaled with a probe")
        # What is known of them is what they were: a switch or limit may have changed since.
        self.barred = {
            key: f"its present state cannot be read, so it is not scaled: {text}"
            for key, text in self.hpas.unreadable().items()
        }
        return probe or blind or self.silence.refusal


def _named(named: Mapping[ScaleKey, str], lanes: Iterable[Lane]) -> dict[LaneKey, str]:
    """Return the documents whose targets HPAs of the cluster name, and the sentences about it."""
    return {
        lane.key: f"{lane.target} is also the target of {named[at]} of the cluster: it is not "
        "scaled; remove that HPA, or this document"
        for lane in lanes
        if (at := target_key(lane.key[0], lane.spec.scale_target_ref)) in named
    }
