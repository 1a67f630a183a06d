"""The status conditions of one HPA: four slots in upstream's insertion order.

Source: horizontal.go, setCondition and setConditionInList. A condition code carries its type in
the high bits, see `layout.codes`. `head` is a lane's row of `Memory.head`.
"""

from __future__ import annotations

from hpabatch._jit import rule
from hpabatch.layout.codes import NO_CONDITION
from hpabatch.layout.records import HEAD_CONDITIONS, I64

_LAST = HEAD_CONDITIONS + 4


@rule
def set_condition(head: I64, code: int) -> None:
    """Set a condition in place, or append it if its type is new."""
    for k in range(HEAD_CONDITIONS, _LAST):
        if head[k] == NO_CONDITION or head[k] >> 4 == code >> 4:
            head[k] = code
            return


@rule
def remove_condition(head: I64, kind: int) -> None:
    """Remove the condition of one type and close the gap."""
    kept = HEAD_CONDITIONS
    for k in range(HEAD_CONDITIONS, _LAST):
        if head[k] >> 4 != kind:
            head[kept] = head[k]
            kept += 1
    for k in range(kept, _LAST):
        head[k] = NO_CONDITION


@rule
def has_condition(head: I64, code: int) -> bool:
    """Say whether exactly this condition (type, status and reason) is set."""
    for k in range(HEAD_CONDITIONS, _LAST):
        if head[k] == code:
            return True
    return False
