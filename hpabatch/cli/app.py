"""The typer application, to which every command adds itself.

Nothing heavier than typer is imported here: `hpabatch --help` must start at once.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from hpabatch import __version__

_GROUPS: Final = {
    "get_in": "Get data in",
    "look": "Look",
    "what_if": "Ask what if",
    "live": "Decide live",
    "look_after": "Look after data",
}
"""Headings of --help, by the folder that a command's module is in."""


_INSTEAD: Final = {
    **dict.fromkeys(
        ("No such option: --workers", "No such option: --scheduler"),
        "This command is computed by one process, with all cores (reasons: docs/scale.md); replay, "
        "sweep, advise, plan, fit, fidelity and history quality take --workers and --scheduler",
    ),
    "No such option: --lite": "import prometheus --lite is gone (demand was wrong by up to 6 %)",
    "No such option: --sensitivity": "replay --sensitivity is gone: replay with another --delay, "
    "--max-age or --phase, and compare --score",
    "No such command 'synth'.": "synth is gone: in a checkout of the source, "
    "`python -m benchmarks.fleet OUT` makes the same tables",
}
"""What is said in place of a message of typer's."""


class _Plain:
    """A command whose parameters are read as they are where that is plain.

    Otherwise typer builds a Pydantic adapter for each, which takes 0.2 s of CPU at every start.
    """

    def get_params(self, ctx: Any) -> Any:
        """Return the parameters; strings, defaults and what is not given need no typer."""
        found = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            parameter.process_value = partial(_value, parameter)
        return found


def _value(parameter: Any, context: Any, value: Any) -> Any:
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    is_default = value == parameter.default and type(value) is type(parameter.default)
    if value is None and not parameter.required:
        value = () if parameter.multiple or parameter.nargs == -1 else None
    elif value and kind == list[str] and isinstance(value, list | tuple):
        value = list(value)
    elif not is_default and not (kind is str and isinstance(value, str)):
        return type(parameter).process_value(parameter, context, value)
    called = parameter.callback
    return value if called is None else called(context, parameter, value)


class Command(_Plain, TyperCommand):
    """A command."""


class _Commands(_Plain, TyperGroup):
    """The commands; no error of theirs is taken for the user's wish to end."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands below the headings of their groups."""
        names = self.list_commands(ctx)
        width = max(map(len, names), default=0)
        limit = formatter.width - 6 - width
        groups: dict[str, list[tuple[str, str]]] = {heading: [] for heading in _GROUPS.values()}
        for name in names:
            found = self.get_command(ctx, name)
            if found is not None and not found.hidden:
                row = name.ljust(width), found.get_short_help_str(limit)
                groups[_heading(found)].append(row)
        for heading, rows in groups.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; typer makes "Aborted!" of an EOFError, as if a prompt had got Ctrl-D."""
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise RuntimeError(f"EOFError: {error}") from error
        except Exception as error:
            said = getattr(error, "message", None)
            if said in _INSTEAD:
                said = _INSTEAD[said]
                vars(error).update(message=said, possibilities=None)
            if isinstance(said, str):  # typer passes on how Pydantic begins its messages
                vars(error).update(message=said.removeprefix("Value error, "))
            raise


def _heading(found: Any) -> str:
    """Return the heading of a command, or of a group of commands."""
    first = next(iter(found.commands.values())) if isinstance(found, TyperGroup) else found
    return _GROUPS[first.callback.__module__.split(".")[-2]]


app = typer.Typer(
    name="hpabatch",
    cls=_Commands,
    help="Kubernetes HPA decisions in bulk, exactly as the controller makes them.",
    epilog="Exit codes: 0 fine, 1 a bug of ours, 2 cannot be read, 3 read but refused, "
    "75 ended early (repeat the command), 130 interrupted, 143 terminated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:
    if value:
        from hpabatch import _code
        from hpabatch._jit import INTERPRETED
        from hpabatch.model.versions import DEFAULT_K8S, PROFILES

        codes, fault = _code.prebuilt()
        kernels = "prebuilt" if codes else f"compiled{fault and f' (prebuilt ones: {fault})'}"
        typer.echo(f"hpabatch {__version__}")
        typer.echo(f"kernels: {'interpreted' if INTERPRETED else kernels}")
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
