"""The exception tree.

::

    HpabatchError                    exit code 1 (a bug in hpabatch if a user sees it)
    ├── UnreadableError              2: the input cannot be read
    │   ├── ManifestError            a YAML/JSON document that cannot be read
    │   └── HistoryError             a table that is missing, broken or of another schema
    ├── RefusedError                 3: read, but refused
    │   └── ValidationError          an HPA that the API server would refuse
    ├── UsageError                   2: the command was given something impossible
    └── UnfinishedError              75: ended early by what passes; the same command goes on

An outage of a storage is both: a HistoryError or UsageError by its place, and an UnfinishedError.
Every message says what is wrong, where, and what to do; the command line prints it without a
traceback.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_BUG = 1
EXIT_UNREADABLE = 2
EXIT_REFUSED = 3
EXIT_EXCEEDED = 4
EXIT_UNFINISHED = 75
"""EX_TEMPFAIL of sysexits.h."""
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143


class HpabatchError(Exception):
    """Base of all errors that hpabatch raises on purpose; each argument is a line."""

    exit_code = EXIT_BUG

    def __str__(self) -> str:
        """Return the message, a line for each argument."""
        return "\n".join(map(str, self.args))


class UnreadableError(HpabatchError):
    """The input cannot be read at all."""

    exit_code = EXIT_UNREADABLE


class ManifestError(UnreadableError):
    """A document is not YAML or JSON, or is a template that was never rendered."""


class HistoryError(UnreadableError):
    """A history table is missing, broken, or does not have the registered schema."""


class RefusedError(HpabatchError):
    """The input was read and refused."""

    exit_code = EXIT_REFUSED


class ValidationError(RefusedError):
    """An HPA that the API server would refuse."""


class UsageError(HpabatchError):
    """The command line asks for something impossible."""

    exit_code = EXIT_UNREADABLE


class UnfinishedError(HpabatchError):
    """The command ended early for a reason that passes: workers, a scheduler or a storage is gone.

    What is finished is kept, and the same command goes on from there.
    """

    exit_code = EXIT_UNFINISHED


def as_usage(error: HpabatchError, text: str) -> UsageError | UnfinishedError:
    """Return an error as one that no history is at fault for; one that passes stays one."""
    return (UnfinishedError if isinstance(error, UnfinishedError) else UsageError)(text)
