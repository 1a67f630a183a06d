"""Log of the live loop: lines for people, or one JSON object a line.

Only changes are logged. A problem is logged once when it begins and once when it is over; an HPA is
logged when its decision changes, when it begins or ceases to fail, and when the two controllers
begin or cease to differ; with --apply also when a size is written, or another one is not. A text
line has the time at which it is written, a JSON line that of its pass.

Fields of a JSON line; empty ones are left out:

    ts         timestamp (RFC 3339, UTC, ms)
    event      start, stop, note; problem, fine: of the cluster or an HPA that is not decided;
               decision, size, fails, works, differs, agrees: of an HPA
    cluster    its name
    namespace  of the HPA
    hpa        its name
    target     `Kind/name` of what it scales
    current    replicas of the target
    desired    replicas decided by hpabatch
    proposal   combined proposal of the metrics, before windows, policies and bounds
    theirs     status.desiredReplicas of the cluster's own controller; absent: never written
    action     scale_up, scale_down or none
    error      none, spec or internal
    binding    the rule that bound the decision
    since      since when the two differ (of `differs` and `agrees`)
    outcome    of `size`: written, accepted (dry run), held (this process may not write), waits (a
               limit or rule of the pass), failed, void (the target has changed meanwhile)
    why        the reason in one sentence
    about      the subject of a problem
    text       the problem, or the one that is over; of `size` why it is not written, or a part
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TextIO

from hpabatch.cluster.objects.types import clock_ms, show_ms
from hpabatch.live.passes.result import (
    ACTIONS,
    ERRORS,
    NO_STATUS,
    SIZE_ACCEPTED,
    SIZE_FAILED,
    SIZE_VOID,
    SIZE_WRITTEN,
    PassResult,
    Size,
)
from hpabatch.live.passes.shadow import NEVER_MS, SAME, Comparison
from hpabatch.model.printable import printable_json, printable_line

DECISION: Final = "decision"
SIZE: Final = "size"
FAILS: Final = "fails"
WORKS: Final = "works"
DIFFERS: Final = "differs"
AGREES: Final = "agrees"
PROBLEM: Final = "problem"
FINE: Final = "fine"
NOTE: Final = "note"

_OF_HPAS: Final = (DECISION, SIZE, FAILS, WORKS, DIFFERS, AGREES)
_MOST_LINES: Final = 50
_MOST_TEXTS: Final = 10
"""The most messages per problem that are kept to avoid repetition."""
_Field = str | int


class LineLog:
    """Writes lines at once, as JSON or text for people. Any thread may write.

    A closed pipe raises BrokenPipeError, as with print. On a full disk lines are left out.
    """

    def __init__(
        self,
        out: TextIO,
        cluster: str,
        *,
        as_json: bool = False,
        compares: bool = True,
        clock: Callable[[], int] = clock_ms,
    ) -> None:
        """Write to `out`.

        Args:
            as_json: one object a line.
            compares: the cluster's own controller decides the same HPAs: texts name its decision,
                and lines tell where the two differ.
        """
        self._out, self._cluster, self._as_json, self._clock = out, cluster, as_json, clock
        self._compares = compares
        self._lock = threading.Lock()
        self._sizes: dict[str, Size] = {}  # of the last pass, by uid

    def close(self) -> None:
        """Flush; if that fails, all remaining and later output is dropped."""
        try:
            self._out.flush()
        except BrokenPipeError:
            raise
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())  # or Python flushes again

    def say(self, event: str, text: str, about: str = "", ts_ms: int | None = None) -> None:
        """Write a line that is not about a single HPA."""
        fields: dict[str, _Field] = {"about": about, "text": text} if about else {"text": text}
        named = f"{about}: {text}" if about else text
        if event == FINE:
            named = f"fine again: {about} (was: {text})"
        elif event == PROBLEM:
            named = f"problem: {named}"
        self._write(event, ts_ms, fields, named)

    def tell(self, comparison: Comparison) -> None:
        """Write a line for each HPA whose decision, size, error or agreement has changed in a pass.

        An HPA that is seen for the first time is logged in JSON, and as text only if it would
        scale. As text the lines of a pass are limited, with the number of further changes.
        """
        lines, ts_ms = self._changes(comparison), None
        if self._as_json:
            ts_ms = comparison.result.now_ms
        most = len(lines) if self._as_json else _MOST_LINES
        for h, event in lines[:most]:
            fields = lane_fields(comparison, h)
            text = _sentence(comparison.result, h, event, fields, self._compares)
            if event == SIZE:
                fields |= _size_fields(comparison.result.sizes[h])
            self._write(event, ts_ms, fields, text)
        if lines[most:]:
            text = (
                f"and {len(lines) - most} more changes in this pass (--log-format json tells all)"
            )
            self.say(NOTE, text, ts_ms=ts_ms)
        with self._lock:
            self._try(self._out.flush)

    def _changes(self, comparison: Comparison) -> list[tuple[int, str]]:
        """Return lanes and events to log, in the order of lanes."""
        result, fresh = comparison.result, set(comparison.fresh.tolist())
        moved = comparison.moved[result.decided[comparison.moved]].tolist()
        failing, working = comparison.failing.tolist(), comparison.working.tolist()
        sized = self._sized(result)
        if not self._as_json:
            # The line of a size, or of a failure, has the reason, too.
            other = {*failing, *result.sizes}
            moved = [h for h in moved if h not in other and (h not in fresh or result.action[h])]
            failing = [h for h in failing if h not in result.sizes]
            working = [h for h in working if h not in result.sizes]
        same = comparison.state[comparison.ended] == SAME
        found = [(h, DECISION) for h in moved]
        found += [(h, SIZE) for h in sized]
        found += [(h, FAILS) for h in failing]
        found += [(h, WORKS) for h in working]
        if self._compares:
            found += [(h, DIFFERS) for h in comparison.begun.tolist()]
            found += [(h, AGREES) for h in comparison.ended[same].tolist()]
        return sorted(found, key=lambda line: line[0])

    def _sized(self, result: PassResult) -> list[int]:
        """Return the lanes whose size has another outcome now.

        Reasons that change are no lines.
        """
        before, self._sizes = self._sizes, {result.uids[h]: s for h, s in result.sizes.items()}
        return [
            h for h, size in result.sizes.items()
            if size.outcome == SIZE_WRITTEN or not size.is_same(before.get(result.uids[h]))
        ]  # fmt: skip

    def _write(self, event: str, ts_ms: int | None, fields: dict[str, _Field], text: str) -> None:
        ts = show_ms(self._clock() if ts_ms is None else ts_ms)
        line = f"{ts[:19]}Z {printable_line(text)}"
        if self._as_json:
            whole = {"ts": ts, "event": event, "cluster": self._cluster} | fields
            line = printable_json(json.dumps(whole))
        with self._lock:
            self._try(lambda: self._out.write(f"{line}\n"))
            if event not in _OF_HPAS:  # there may be thousands of those
                self._try(self._out.flush)

    def _try(self, put: Callable[[], object]) -> None:
        """Write or flush; a full disk must not end the loop. The lock is held."""
        try:
            put()
        except BrokenPipeError:
            raise
        except OSError:
            return


@dataclass(slots=True)
class _Wrong:
    """A current problem: its logged messages, and the newest one.

    `missed`: consecutive calls of `only` without it.
    """

    texts: set[str]
    newest: str
    missed: int = 0


class Said:
    """Logs problems when they begin, change or end.

    A problem that alternates between messages is logged once with each.
    """

    def __init__(self, log: LineLog) -> None:
        self._log = log
        self._wrong: dict[str, _Wrong] = {}

    def say(self, about: str, text: str) -> None:
        """Log a problem of `about`, unless this message was logged since it began."""
        known = self._wrong.setdefault(about, _Wrong(set(), text))
        known.newest, known.missed = text, 0
        if text not in known.texts and len(known.texts) < _MOST_TEXTS:
            known.texts.add(text)
            self._log.say(PROBLEM, text, about)

    def fine(self, about: str) -> None:
        """Log that the problem of `about` is over, if there was one."""
        known = self._wrong.pop(about, None)
        if known is not None:
            self._log.say(FINE, known.newest, about)

    def only(self, kind: str, wrong: dict[str, str], times: int = 1) -> None:
        """Log all current problems of a kind: other ones of that kind are over.

        Args:
            wrong: messages by subject; logged as `kind subject`.
            times: consecutive calls without a problem before it is over.
        """
        said = {f"{kind} {what}": text for what, text in wrong.items()}
        of_kind = [a for a in self._wrong if a == kind or a.startswith(f"{kind} ")]
        for about in of_kind:
            if about not in said:
                self._wrong[about].missed += 1
                if self._wrong[about].missed >= times:
                    self.fine(about)
        for about, text in said.items():
            self.say(about, text)


def problems_of(result: PassResult) -> dict[str, str]:
    """Return the reasons why HPAs could not be decided, as `Said.only` takes them."""
    return {f"{p.namespace}/{p.name}": p.text for p in result.problems}


def lane_fields(comparison: Comparison, h: int) -> dict[str, _Field]:
    """Return the fields of a line about lane h; also a row of `--once --output json`."""
    result, decision = comparison.result, comparison.result.decisions[h]
    fields: dict[str, _Field] = {
        "namespace": result.namespaces[h],
        "hpa": result.names[h],
        "target": result.targets[h],
        "current": int(result.spec_replicas[h]),
        "desired": int(decision.desired),
        "proposal": int(decision.proposal),
        "theirs": int(result.theirs_desired[h]),
        "action": ACTIONS[result.action[h]],
        "error": ERRORS[result.error[h]],
        "binding": result.binding(h),
        "since": show_ms(int(comparison.since_ms[h])),
        "why": result.why(h),
    }
    if fields["theirs"] == NO_STATUS:
        del fields["theirs"]
    if comparison.since_ms[h] == NEVER_MS:
        del fields["since"]
    return fields


def _sentence(
    result: PassResult, h: int, event: str, fields: dict[str, _Field], compares: bool
) -> str:
    head = f"{fields['namespace']}/{fields['hpa']}: "
    theirs = fields.get("theirs", "nothing")
    beside = f", theirs {theirs}" if compares else ""
    if event == AGREES:
        return f"{head}agrees again at {fields['desired']}"
    if event == SIZE:
        return f"{head}{_size_sentence(result.sizes[h])}"
    if event == WORKS:
        return f"{head}works again: {fields['why']}"
    if event == FAILS:
        return f"{head}fails: {fields['why']}"
    if event == DIFFERS:
        since = str(fields["since"])[11:19]
        said = f"{head}ours {fields['desired']}, theirs {theirs} since {since}Z"
    elif result.action[h]:
        verb = "up" if fields["action"] == "scale_up" else "down"
        said = f"{head}scale {verb} {fields['current']} -> {fields['desired']}{beside}"
    else:
        said = f"{head}stay at {fields['desired']}{beside}"
    return f"{said}: {fields['why']}"


def _size_fields(size: Size) -> dict[str, _Field]:
    """Return the fields about a size: a decision that was made again has lost it."""
    found: dict[str, _Field] = {
        "current": size.before, "desired": size.after, "outcome": size.outcome, "why": size.why
    }  # fmt: skip
    return found | ({"text": size.text} if size.text else {})


def _size_sentence(size: Size) -> str:
    sizes, part = f"{size.before} -> {size.after}", f" ({size.text})" if size.text else ""
    if size.outcome == SIZE_WRITTEN:
        return f"written {sizes}{part}: {size.why}"
    if size.outcome == SIZE_ACCEPTED:
        return f"dry run: the server accepts {sizes}{part}: {size.why}"
    if size.outcome == SIZE_FAILED:
        return f"fails: {sizes} is not written: {size.text}"
    if size.outcome == SIZE_VOID:
        return f"{sizes} is void: {size.text}"
    return f"wants {sizes} ({size.text}): {size.why}"
