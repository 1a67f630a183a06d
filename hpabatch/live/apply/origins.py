"""Origin of size changes: a leader of hpabatch, another controller, or anybody else.

The rescales of earlier leaders use up the budgets of policies and count as recommendations, as
if this process had made them. Other changes do neither, as in the controller, which does not see
them. The ledger names the rescales of leaders.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hpabatch.cluster.connection.errors import ApiError
from hpabatch.live.apply.ledger import Entry, Ledger
from hpabatch.live.apply.scales import Written
from hpabatch.live.passes.decide import Decider
from hpabatch.live.passes.lanes import SHOWN_MS, ForeignChange
from hpabatch.model.times import parse_instant_ms

_CLOCKS_MS: Final = 10_000  # by which clocks of two machines may differ unnoticed, and more
_PASSES: Final = 4  # in which a status may yet name the size


@dataclass(slots=True)
class _Waiting:
    """A change that a status may yet name, and the passes since it was seen."""

    change: ForeignChange
    passes: int = 0


class Origins:
    """Attributes the changes that a watch shows. For the loop's thread."""

    def __init__(
        self, ledger: Ledger, decider: Decider, say: Callable[[ForeignChange], None],
        *, reads_status: bool,
    ) -> None:  # fmt: skip
        """Prepare.

        Args:
            ledger: names the changes of leaders.
            decider: of the loop; its lanes note the changes.
            say: gets changes of others while this process alone may write.
            reads_status: a controller of HPAs that writes statuses may have led before.
        """
        self._ledger, self._decider, self._say = ledger, decider, say
        self._reads_status = reads_status
        self._taken: set[tuple[object, ...]] = set()  # ids of entries that are booked or void
        self._waiting: list[_Waiting] = []
        self._read = False

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
        self._taken.update(entry.id for entry in corrected)

    def settle(self, alone: bool) -> str:
        """Book the changes of leaders that a watch has shown since the last call.

        Args:
            alone: this process has had the lease since the last call, and nobody else.

        Returns:
            Why the ledger cannot be read, "" if it could be: then the changes wait.
        """
        lanes = self._decider.lanes
        self._waiting += [_Waiting(change) for change in lanes.foreign]
        lanes.foreign.clear()
        self._read = self._read and alone  # otherwise another may have written into it since
        if not self._waiting:
            return ""
        try:
            entries = self._ledger.known if self._read else self._ledger.read()
        except ApiError as error:
            return _unread(error)
        self._read = True
        self._taken &= {entry.id for entry in entries}
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            change, item.passes = item.change, item.passes + 1
            rescales = self._rescales(change, entries)
            if rescales or (not alone and self._is_in_status(change)):
                for ms, before, after in rescales or [change[1:]]:
                    lanes.book_rescale(change.key, ms, before, after)
            elif alone:
                self._say(change)
            elif self._reads_status and item.passes < _PASSES:
                self._waiting.append(item)
        return ""

    def recall(self) -> str:
        """Take over what leaders did before this process saw the sizes, when it begins to lead.

        Returns:
            Why the ledger cannot be read, "" if it could be.
        """
        try:
            entries = self._ledger.read()
        except ApiError as error:
            return _unread(error)
        last = {entry.key: entry for entry in entries}
        self._decider.note_zeros({key for key, entry in last.items() if entry.after == 0})
        # A write of the pass that was saved is not yet in the memory, and may have its time.
        since_ms = self._decider.restored_ms
        for entry in entries:
            if since_ms is not None and entry.ms - self._ledger.skew_ms < since_ms:
                continue
            if entry.id not in self._taken and self._recall_entry(entry, last[entry.key] is entry):
                self._taken.add(entry.id)
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
            return False  # if it is made after that, a watch shows it
        at_ms = min(at_ms, found_ms - 1)
        return self._decider.lanes.recall_change(entry.key, at_ms, entry.before, entry.after)

    def _rescales(
        self, change: ForeignChange, entries: Sequence[Entry]
    ) -> list[tuple[int, int, int]]:
        """Return the rescales (ms, before, after) of a leader that make up a change.

        A list shows only the last size: then the ledger's entries that lead to it are booked.
        """
        skew_ms = self._ledger.skew_ms
        own = [
            entry for entry in entries
            if entry.key == change.key and entry.id not in self._taken
            and change.ms - SHOWN_MS <= entry.ms - skew_ms <= change.ms + _CLOCKS_MS
        ]  # fmt: skip
        last = next((k for k in reversed(range(len(own))) if own[k].after == change.after), -1)
        if last < 0:
            return []
        self._taken.update(
            entry.id for entry in own[: last + 1]
        )  # earlier ones failed, or were overtaken
        first = last
        while first and own[first].before != change.before:
            if own[first - 1].after != own[first].before:
                break
            first -= 1
        chain = own[first : last + 1]
        if chain[0].before != change.before:
            return [(change.ms, change.before, change.after)]
        ms = change.ms - len(chain) + 1
        return [(ms + k, entry.before, entry.after) for k, entry in enumerate(chain)]

    def _is_in_status(self, change: ForeignChange) -> bool:
        """Return whether the HPA's status names the size, as of a rescale at that time."""
        lane = self._decider.lanes.get(change.key)
        if not self._reads_status or lane is None or lane.status.desired_replicas != change.after:
            return False
        try:
            scaled_ms = parse_instant_ms(lane.status.last_scale_time or "")
        except ValueError:
            return False
        return scaled_ms >= change.ms - SHOWN_MS


def _unread(error: ApiError) -> str:
    return f"the changes of earlier leaders: {error.text}"
