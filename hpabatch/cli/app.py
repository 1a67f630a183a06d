"""The typer application and the one place where errors become messages and exit codes.

Nothing heavier than typer is imported here: `hpabatch --help` must start at once.
"""

from __future__ import annotations

import errno
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from hpabatch import __version__
from hpabatch.cli.signals import Signals
from hpabatch.cli.talk import say, tell_error
from hpabatch.errors import EXIT_TERMINATED, EXIT_UNREADABLE, HpabatchError


class _Commands(TyperGroup):
    """The commands; no error of theirs is taken for the user's wish to end."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; typer makes "Aborted!" of an EOFError, as if a prompt had got Ctrl-D."""
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise RuntimeError(f"EOFError: {error}") from error


app = typer.Typer(
    name="hpabatch",
    cls=_Commands,
    help="Kubernetes HPA decisions in bulk, exactly as the controller makes them.",
    epilog="Exit codes: 0 fine, 1 a bug of ours, 2 cannot be read, 3 read but refused, "
    "130 interrupted, 143 terminated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# What the machine refuses, wherever a reader or writer did not expect it, is no bug of ours.
_SURROUNDINGS = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP),
    *(errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE),
)
_REMEDY = "name another place, or let this user have this one"


def _print_version(value: bool) -> None:
    if value:
        from hpabatch.model.versions import DEFAULT_K8S, PROFILES

        typer.echo(f"hpabatch {__version__}")
        typer.echo(f"rules of Kubernetes (default {DEFAULT_K8S}):")
        for profile in PROFILES.values():
            typer.echo(f"  {profile.name}  {profile.evidence} ({profile.proof})")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Kubernetes HPA decisions in bulk, exactly as the controller makes them."""


def run(signals: Signals) -> None:
    """Run the command line; every expected error is one message on stderr and an exit code."""
    try:
        from hpabatch.cli import (  # noqa: F401  (each registers its command)
            analyze,
            autoscale,
            compare,
            describe,
            explain,
            fidelity,
            fit,
            get,
            history,
            import_,
            import_prometheus,
            live,
            plan,
            plot,
            recommend,
            record,
            replay,
            simulate,
            sweep,
            synth,
            validate,
        )

        signals.working = True
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
    except SystemExit:
        if signals.asked == signal.SIGTERM:
            sys.exit(EXIT_TERMINATED)
        raise
    except (KeyboardInterrupt, Exception):
        if not signals.asked:
            raise
        # Before typer's own handling, or lost in other people's code, which then failed.
        sys.exit(128 + signals.asked)
