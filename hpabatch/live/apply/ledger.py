"""Ledger of size changes in the cluster, for the other instances, and whose a change is.

A standby that runs sees changes of sizes; the ledger has those of them that are the leader's.
One that starts later does not see them, and its policies would have their whole budget again. So
the leader writes each change into a ConfigMap before it makes it. Times are those of the API
server's clock: clocks of two machines may differ by minutes.

The rescales of earlier leaders use up the budgets of policies and count as recommendations, as
if this process had made them. Changes by anybody else do neither, as in the controller, which does
not see them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from hpabatch._json import decode_json
from hpabatch.cluster.connection.errors import ApiError, NotFound
from hpabatch.cluster.connection.writes import Json, WriteClient
from hpabatch.live.apply.lease import elapsed_s
from hpabatch.live.apply.scales import TIMEOUT_S, Fence, Written
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.lanes import SHOWN_MS, ForeignChange, LaneKey
from hpabatch.model.objects.hpa import HPASpec

NAME: Final = "hpabatch-ledger"
_FIELD: Final = "changes"
_LONGEST_MS: Final = 1_800_000  # of any policy's period
_REMOVED_S: Final = 600.0
"""Time in which a share of the replicas may be removed."""
_LATEST_MS: Final = 20_000  # from a decision until its write begins (`gate`)
_BYTES: Final = 900_000  # within a ConfigMap's 1 MiB
_SKEW_S: Final = 2.0  # below it a measured difference of clocks is mostly its own error
_CONFLICT: Final = 409


class Entry(NamedTuple):
    """A change of a target's size; times are UTC ms of the server's clock.

    Attributes:
        made_ms: time of the response, 0: none is known. The change is not made yet, its outcome is
            uncertain, or its leader has ended before it noted the response.
    """

    ms: int
    namespace: str
    name: str
    before: int
    after: int
    made_ms: int = 0

    @property
    def key(self) -> LaneKey:
        """The HPA."""
        return self.namespace, self.name

    @property
    def id(self) -> tuple[object, ...]:
        """The fields that stay the same when the change is made."""
        return self[:-1]

    @property
    def is_removal(self) -> bool:
        """Whether it is a scale-down."""
        return self.after < self.before

    @property
    def latest_ms(self) -> int:
        """The time of the change, without a response the latest possible one."""
        return self.made_ms or self.ms + _LATEST_MS


class Ledger:
    """The ledger. For one thread."""

    def __init__(
        self, client: WriteClient, namespace: str, fence: Fence,
        skew_s: Callable[[], float | None] = lambda: None, clock: Callable[[], float] = elapsed_s,
    ) -> None:  # fmt: skip
        """Prepare; nothing is sent yet.

        Args:
            client: sends the requests; it must store what it writes (no dry run).
            namespace: hpabatch's own.
            fence: is checked before each writing request.
            skew_s: the API server's clock less the local clock; None: unknown.
            clock: monotonic seconds.
        """
        self._client, self._fence, self._skew_s = client, fence, skew_s
        self._place = f"ConfigMap {namespace}/{NAME}"
        self._collection = f"/api/v1/namespaces/{namespace}/configmaps"
        self._found: Json | None = None
        self._entries: list[Entry] = []
        self._corrected: dict[Entry, Entry | None] = {}
        self._clock = clock
        self._made_s: dict[tuple[int, LaneKey], float] = {}  # when replicas were removed

    @property
    def skew_ms(self) -> int:
        """The API server's clock less the local clock, 0 if they are about the same."""
        skew_s = self._skew_s() or 0.0
        return round(1000 * skew_s) if abs(skew_s) > _SKEW_S else 0

    @property
    def known(self) -> list[Entry]:
        """All entries as last read or written, as `correct` has them."""
        known = [self._corrected.get(entry, entry) for entry in self._entries]
        return [entry for entry in known if entry is not None]

    def removed(self, now_ms: int) -> Counter[LaneKey]:
        """Return the replicas that were removed within ten minutes, by HPA.

        Args:
            now_ms: of the server's clock; it dates the removals that this process sees for the
                first time. Later steps of the clocks do not matter.
        """
        now_s, removed, made_s = self._clock(), Counter[LaneKey](), {}
        for entry in self.known:
            if entry.is_removal:
                first_seen_s = now_s - max(now_ms - entry.latest_ms, 0) / 1000
                made_s[entry.ms, entry.key] = self._made_s.get((entry.ms, entry.key), first_seen_s)
        self._made_s = made_s
        for entry in filter(self._is_recent_removal, self.known):
            removed[entry.key] += entry.before - entry.after
        return removed

    def _is_recent_removal(self, entry: Entry) -> bool:
        made_s = self._made_s.get((entry.ms, entry.key), -math.inf)
        return entry.is_removal and self._clock() - made_s < _REMOVED_S

    def read(self) -> list[Entry]:
        """Return all entries, in their order.

        Raises:
            ApiError: they cannot be read.
        """
        try:
            self._found = self._client.read(f"{self._collection}/{NAME}", TIMEOUT_S)
        except NotFound:
            self._found = None
        data = (self._found or {}).get("data") or {}
        self._entries = _decoded(str(data.get(_FIELD, "")))
        return self.known

    def correct(self, corrected: Mapping[Entry, Entry | None]) -> None:
        """Replace entries by what became of them, None: nothing."""
        self._corrected.update(corrected)

    def store(self, kept_ms: Callable[[LaneKey], int]) -> None:
        """Write what was corrected; without success it is written with the next `add`."""
        if self._corrected:
            self.add([], kept_ms)

    def add(self, entries: Sequence[Entry], kept_ms: Callable[[LaneKey], int]) -> str:
        """Write entries, before their changes are made: "", or why that is not possible.

        Args:
            kept_ms: how long those of an HPA are of use.
        """
        if self._fence.refusal(TIMEOUT_S):
            return self._fence.refusal(TIMEOUT_S)
        try:
            try:
                self._put(entries, kept_ms)
            except ApiError as error:
                if error.status != _CONFLICT:
                    raise
                self.read()
                self._put(entries, kept_ms)
        except ApiError as error:
            self._found = None
            return f"the ledger ({self._place}) cannot be written: {error.text}"
        return ""

    def _put(self, entries: Sequence[Entry], kept_ms: Callable[[LaneKey], int]) -> None:
        known = self.known
        newest = max((entry.ms for entry in entries or known), default=0)
        last = {entry.key: entry for entry in [*known, *entries]}
        kept = [
            entry for entry in known
            if newest - entry.latest_ms < kept_ms(entry.key) or self._is_recent_removal(entry)
            # A size of zero is hpabatch's own, which ends it, however long ago that was.
            or (entry.after == 0 and last[entry.key] is entry)
        ]  # fmt: skip
        whole, text = _encoded([*kept, *entries])
        data = {_FIELD: text}
        if self._found is None:
            document = {
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": data
            }  # fmt: skip
            made = self._client.write("POST", self._collection, document, TIMEOUT_S)
        else:
            document = {**self._found, "data": data}
            made = self._client.write("PUT", f"{self._collection}/{NAME}", document, TIMEOUT_S)
        self._found, self._entries = made, whole
        self._corrected.clear()
        self._made_s |= {(entry.ms, entry.key): self._clock() for entry in entries}


def kept_ms(spec: HPASpec | None) -> int:
    """Return how long an HPA's changes are of use: for its policies, and until a watch shows them.

    None: an HPA that this process does not decide.
    """
    if spec is None:
        return _LONGEST_MS
    behavior = spec.behavior
    rules = () if behavior is None else (behavior.scale_up, behavior.scale_down)
    periods = [p.period_seconds for part in rules if part for p in part.policies or ()]
    return max([SHOWN_MS, *(1000 * seconds for seconds in periods)])


def _encoded(entries: Sequence[Entry]) -> tuple[list[Entry], str]:
    """Return the newest entries that a ConfigMap can hold, and their JSON."""
    rows: list[str] = []
    size = 2
    for entry in reversed(entries):
        row = json.dumps(entry, separators=(",", ":"))
        size += len(row) + 1
        if size > _BYTES:
            break
        rows.append(row)
    return list(entries[len(entries) - len(rows) :]), f"[{','.join(reversed(rows))}]"


def _decoded(text: str) -> list[Entry]:
    try:
        rows = decode_json(text, list) if text else []
    except ValueError:
        return []
    types = [int, str, str, int, int, int]
    return [Entry(*row) for row in rows if isinstance(row, list) and [*map(type, row)] == types]


class Origins:
    """Attributes the changes that a watch shows. For the loop's thread.

    Until this process leads, each of them may be of the leader, or of the cluster's own controller
    before it was switched off: all use up budgets, those of anybody else too.
    """

    def __init__(
        self, ledger: Ledger, decider: Decider, say: Callable[[ForeignChange], None]
    ) -> None:
        """Prepare.

        Args:
            decider: of the loop; its lanes note the changes.
            say: gets changes of others while this process alone may write.
        """
        self._ledger, self._decider, self._say = ledger, decider, say
        self._recalled: set[tuple[object, ...]] = set()  # ids of entries
        self._expected: dict[LaneKey, Entry] = {}  # that a watch may yet show

    def wrote(self, made: Sequence[tuple[Entry, int, Written]]) -> None:
        """Note what became of entries of this process, with the times of the responses (UTC ms).

        If it is certain, no watch has to show them.
        """
        skew_ms = self._ledger.skew_ms
        corrected = {
            entry: None if written.error else entry._replace(made_ms=ms + skew_ms)
            for entry, ms, written in made if not written.uncertain
        }  # fmt: skip
        self._ledger.correct(corrected)

    def settle(self, alone: bool) -> None:
        """Book the changes of leaders that a watch has shown since the last call.

        Args:
            alone: this process has had the lease, and nobody else, for longer than a watch may
                take to show what another did.
        """
        lanes = self._decider.lanes
        for change in lanes.foreign:
            expected = self._expected.pop(change.key, None)
            if not alone or (expected is not None and expected.after == change.after):
                lanes.book_rescale(*change)
            else:
                self._say(change)
        lanes.foreign.clear()

    def recall(self) -> str:
        """Take over what leaders did before this process saw the sizes, when it begins to lead.

        Returns:
            Why the ledger cannot be read, "" if it could be.
        """
        try:
            entries = self._ledger.read()
        except ApiError as error:
            return f"the changes of earlier leaders: {error.text}"
        last = {entry.key: entry for entry in entries}
        self._decider.note_zeros({key for key, entry in last.items() if entry.after == 0})
        # A write of the pass that was saved is not yet in the memory, and may have its time.
        since_ms = self._decider.restored_ms
        for entry in entries:
            if since_ms is not None and entry.ms - self._ledger.skew_ms < since_ms:
                continue
            is_new = entry.id not in self._recalled
            if is_new and self._recall_entry(entry, last[entry.key] is entry):
                self._recalled.add(entry.id)
        self._recalled &= {entry.id for entry in entries}
        return ""

    def _recall_entry(self, entry: Entry, is_last: bool) -> bool:
        """Book a change from before the first reading of the size; False: it is none.

        Without a response the last change of an HPA may not have been made: its leader has ended,
        or its write is still on its way. It is left out if the size is the one before it. Any other
        size (somebody may have changed it since) books the change, at its latest possible time:
        thus a policy's budget is rather too small than too large.
        """
        lane, skew_ms = self._decider.lanes.get(entry.key), self._ledger.skew_ms
        if lane is None or lane.found is None or entry.ms - skew_ms >= lane.found[0]:
            return False
        found_ms, size = lane.found
        at_ms = entry.latest_ms - skew_ms
        is_certain = entry.made_ms and at_ms < found_ms
        if is_last and not is_certain and size == entry.before:
            self._expected[entry.key] = entry  # if it is made after that, a watch shows it
            return False
        at_ms = min(at_ms, found_ms - 1)
        return self._decider.lanes.recall_change(entry.key, at_ms, entry.before, entry.after)
