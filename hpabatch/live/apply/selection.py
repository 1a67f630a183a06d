"""Selection of the HPAs that an applier acts on, and the reason why others are left alone.

An HPA that is left alone is decided as in the shadow: no size, status or event is written. The log
of writes says when that begins, and when it ends.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from hpabatch.cluster.apis.scales import target_key
from hpabatch.cluster.connection.errors import ApiError
from hpabatch.cluster.objects.types import ScaleKey
from hpabatch.cluster.objects.workloads import ANNOTATION
from hpabatch.live.apply.journal import Fields
from hpabatch.live.apply.scales import is_off, off_text
from hpabatch.live.passes.lanes import Lane, LaneKey

_AGAIN_S: Final = 60.0
_MOST_READINGS: Final = 10  # of a pass: the loop waits for them
_MOST_NAMED: Final = 20


class Selection:
    """The HPAs of a pass. For one thread.

    Attributes:
        reasons: why HPAs are left alone. Those beyond the canary share are not among them.
    """

    def __init__(
        self,
        canary_pct: int,
        *,
        reads_target: bool,
        annotation: Callable[[ScaleKey], str | None],
        log: Callable[[Iterable[Fields]], object],
        say: Callable[[str, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with no HPA.

        Args:
            canary_pct: share of the HPAs that are acted on.
            reads_target: the target's own annotation counts, too.
            annotation: reads that of a target (ApiError: it cannot).
            log: gets the lines of the log of writes.
            say: gets event and text of notes.
            clock: monotonic seconds.
        """
        self.reasons: dict[LaneKey, str] = {}
        self._canary_pct, self._reads_target, self._annotation = (
            canary_pct, reads_target, annotation
        )  # fmt: skip
        self._log, self._say, self._clock = log, say, clock
        self._found: dict[ScaleKey, tuple[str, float]] = {}  # by a write: value, when read
        self._readings = 0  # in this pass
        self._share: frozenset[LaneKey] | None = None

    def begin(self, lanes: Iterable[Lane], barred: Mapping[LaneKey, str]) -> None:
        """Begin a pass over these HPAs, of which some are barred for a reason."""
        lanes, before = list(lanes), self.reasons
        self.reasons, self._readings = {}, 0
        for lane in lanes:
            why = barred.get(lane.key) or self._opted_out(lane)
            if why:
                self.reasons[lane.key] = why
        self._log(_changes(lanes, before, self.reasons))
        self._tell_share(lane.key for lane in lanes)

    def is_acted_on(self, key: LaneKey) -> bool:
        """Return whether an HPA is acted on in this pass."""
        return key not in self.reasons and is_canary(key, self._canary_pct)

    def note_off(self, target: ScaleKey) -> None:
        """Note that a write found that the target's annotation forbids it."""
        self._found[target] = ("off", self._clock())

    def _opted_out(self, lane: Lane) -> str:
        value = dict(lane.item.hpa.annotations).get(ANNOTATION)
        if is_off(value):
            return off_text("its", value)
        if not self._reads_target:
            return ""
        if lane.scale is not None and lane.scale.version:
            value = lane.scale.apply
        else:
            value = self._found_off(target_key(lane.key[0], lane.spec.scale_target_ref))
        return off_text("the target's", value) if is_off(value) else ""

    def _found_off(self, target: ScaleKey) -> str | None:
        """Return the annotation of a target that no watch shows, once a write has found it.

        It is read again every minute.
        """
        known = self._found.get(target)
        if known is None:
            return None
        value: str | None = known[0]
        if self._clock() - known[1] >= _AGAIN_S and self._readings < _MOST_READINGS:
            self._readings += 1
            with suppress(ApiError):  # then it stays what it was
                value = self._annotation(target)
            if is_off(value):
                self._found[target] = (str(value), self._clock())
            else:
                del self._found[target]
        return value

    def _tell_share(self, keys: Iterable[LaneKey]) -> None:
        """Name the HPAs of the canary share when it is another than before."""
        if self._canary_pct >= 100:
            return
        every = list(keys)
        share = frozenset(key for key in every if is_canary(key, self._canary_pct))
        if share == self._share:
            return
        self._share = share
        names = sorted("/".join(key) for key in share)
        text = f"--canary {self._canary_pct}: {len(share)} of {len(every)} HPAs are acted on"
        self._log([{"event": "share", "text": text, "hpas": names}])
        more = f", and {len(names) - _MOST_NAMED} more" if names[_MOST_NAMED:] else ""
        named = f": {', '.join(names[:_MOST_NAMED])}{more}" if names else ""
        self._say("note", f"{text}{named}")


def is_canary(key: LaneKey, share_pct: int) -> bool:
    """Return whether an HPA belongs to the share: by its name, so always the same ones.

    A larger share contains a smaller one.
    """
    digest = hashlib.sha256(f"{key[0]}/{key[1]}".encode()).digest()
    return int.from_bytes(digest[:8]) < share_pct * 2**64 // 100


def _changes(
    lanes: Iterable[Lane], before: Mapping[LaneKey, str], after: Mapping[LaneKey, str]
) -> list[Fields]:
    """Return the lines about HPAs that are left alone from now on, or acted on again."""
    found: list[Fields] = []
    for lane in lanes:
        why = after.get(lane.key, "")
        if why != before.get(lane.key, ""):
            namespace, name = lane.key
            found.append({
                "event": "leaves" if why else "resumes", "namespace": namespace, "hpa": name,
                "target": lane.target, "text": why or before[lane.key],
            })  # fmt: skip
    return found
