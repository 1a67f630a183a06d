"""The run of a command: the one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import warnings
from contextlib import suppress
from importlib import import_module

from hpabatch.cli.app import app
from hpabatch.cli.signals import Signals
from hpabatch.cli.talk import say, tell_error
from hpabatch.errors import EXIT_TERMINATED, EXIT_UNREADABLE, HpabatchError

# What the machine refuses, wherever a reader or writer did not expect it, is no bug of ours.
_SURROUNDINGS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP),
    *(errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE),
)
_SHOWN_NAME = 200  # characters
_REMEDY = "name another place, or let this user have this one"


# Modules by folder, in the order of --help. Those of `get_in` are commands of a group, `import`.
_COMMANDS = {
    "get_in": ("prometheus", "table"),
    "live": ("live", "record"),
    "look": (
        *("analyze", "compare", "describe", "explain", "findings", "get"),
        *("lint", "replay", "report", "validate"),
    ),
    "look_after": ("history",),
    "what_if": (
        *("advise", "autoscale", "fidelity", "fit", "plan"),
        *("plot", "recommend", "simulate", "sweep"),
    ),
}


def run(signals: Signals) -> None:
    """Run the command line; every expected error is one message on stderr and an exit code."""
    logging.lastResort = _SaidLines(logging.WARNING)
    with warnings.catch_warnings():
        warnings.showwarning = _say_warning
        _run(signals)


class _SaidLines(logging.Handler):
    """Writes what is logged as commands write: a worker's words are anybody's."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def _say_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Write a warning as commands write theirs, without the place in the code."""
    say(f"warning: {str(message).removeprefix('hpabatch: ')}")


def load_commands(only: str = "") -> None:
    """Import the modules of all commands, or that of one: each adds its own to the application.

    Importing the others takes longer than everything else that `--help` of one needs.
    """
    known = [(folder, name) for folder, names in _COMMANDS.items() for name in names]
    one = [(folder, name) for folder, name in known if name == only and folder != "get_in"]
    for folder, name in one or known:
        import_module(f"hpabatch.cli.{folder}.{name}")


def _run(signals: Signals) -> None:
    try:
        load_commands(sys.argv[1] if len(sys.argv) > 1 else "")
        signals.working = True
        for argument in sys.argv[1:]:
            argument.encode()
        with suppress(FileNotFoundError):
            os.getcwd().encode()
        app()
    except HpabatchError as error:
        tell_error(error)
        sys.exit(error.exit_code)
    except OSError as error:
        if signals.asked:
            sys.exit(128 + signals.asked)
        if error.filename is None or error.errno not in _SURROUNDINGS:
            raise
        say(f"error: {error.filename}: {error.strerror}; {_REMEDY}")
        sys.exit(EXIT_UNREADABLE)
    except UnicodeEncodeError as error:
        # Bytes of a name that are not UTF-8: polars, pyarrow, JSON and Parquet have no such text.
        if not "\udc80" <= error.object[error.start] <= "\udcff":
            raise
        name = error.object[:_SHOWN_NAME]
        say(f"error: expected arguments and names of files in UTF-8, got {name}; rename that")
        sys.exit(EXIT_UNREADABLE)
    except SystemExit:
        if signals.asked == signal.SIGTERM:
            sys.exit(EXIT_TERMINATED)
        raise
    except (KeyboardInterrupt, Exception):
        if not signals.asked:
            raise
        # Before typer's own handling, or lost in other people's code, which then failed.
        sys.exit(128 + signals.asked)
