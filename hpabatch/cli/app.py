"""The typer application, and the registration and run of its commands.

Nothing heavier than typer is imported here: `hpabatch --help` must start at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, Final, Literal

import typer
from typer.core import TyperGroup

from hpabatch import __version__
from hpabatch.cli.stdout import LEGEND, check_stdout, show_report
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_INTERRUPTED, UsageError
from hpabatch.model.options import REQUIRED, Option, Request, flag, keyword
from hpabatch.report.base import CheckOutput, Output

GROUPS: Final = {
    "Get data in": {"import": "get_in"},
    "Look": {
        "analyze": "look", "compare": "look", "describe": "look", "explain": "look",
        "findings": "findings", "gate": "findings", "get": "look", "lint": "findings",
        "replay": "look", "report": "page", "validate": "look",
    },
    "Ask what if": {
        "advise": "advise", "fidelity": "simulate", "fit": "simulate",
        "plan": "simulate", "plot": "plot", "recommend": "advise", "simulate": "simulate",
        "sweep": "advise",
    },
    "Decide live": {"live": "live", "record": "live"},
    "Look after data": {"history": "history"},
}  # fmt: skip
"""Commands by their heading in --help, each with the module in which it is."""


class _Commands(TyperGroup):
    """The commands; no error of theirs is taken for the user's wish to end."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands below their headings."""
        width = max(map(len, self.commands), default=0)
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([
                    (name.ljust(width), found.get_short_help_str(formatter.width - 6 - width))
                    for name in names
                    if (found := self.get_command(ctx, name)) is not None
                ])  # fmt: skip

    def invoke(self, ctx: Any) -> Any:
        """Run a command; typer makes "Aborted!" of an EOFError, as if a prompt had got Ctrl-D."""
        try:
            return super().invoke(ctx)
        except EOFError as error:
            raise RuntimeError(f"EOFError: {error}") from error
        except Exception as error:
            said = getattr(error, "message", None)
            if isinstance(said, str):  # typer passes on how Pydantic begins its messages
                vars(error).update(message=said.removeprefix("Value error, "))
            raise


app = typer.Typer(
    name="hpabatch",
    cls=_Commands,
    help="Kubernetes HPA decisions in bulk, exactly as the controller makes them.",
    epilog="Exit codes: 0 fine, 1 a bug of ours, 2 cannot be read, 3 refused, left out or found "
    "(2 wins over 3), 4 a limit exceeded, 75 ended early (repeat the command), 130 interrupted, "
    "143 terminated.",
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


# ---- commands ------------------------------------------------------------------------------------

_TYPES: dict[str, Any] = {
    "text": str,
    "texts": list[str],
    "path": str,
    "paths": list[str],
    "choice": str,
    "flag": bool,
    "number": int,
    "real": float,
    "duration": str,
    "factors": str,
    "grids": list[str],
    "time": str,
}
_ALL_NAMESPACES = "all_namespaces"
_AllNamespaces = Annotated[
    bool,
    typer.Option("--all-namespaces", "-A", help="HPAs of all namespaces: the default."),
]
_Legend = Annotated[
    bool, typer.Option("--legend", "-v", help="Explain the columns of tables, below them.")
]
_OUTPUT = typer.Option("--output", "-o", help="Form of what stdout gets.")
OutputOption = Annotated[Output, _OUTPUT]
_CheckOutputOption = Annotated[CheckOutput, _OUTPUT]

Answer = tuple[Any, ...]
"""A result (None: none is shown), the exit code, and lines for stderr that follow the result."""

LEFT: ContextVar[Callable[[], str] | None] = ContextVar("left", default=None)
"""A function that says what an interrupted command leaves behind; None: nothing of note."""


def command(
    app: typer.Typer, name: str | None = None, *, shows: bool = False, faults: bool = False
) -> Callable[[Any], Any]:
    """Return a decorator that adds a function to `app` as a command; its docstring is the help.

    A parameter of the function whose type is a `Request` stands for the options of that request:
    the function gets the request, the command line has the options. All others are typer's.
    The function returns the exit code, None for 0. With `shows` it returns an `Answer`, whose
    result stdout gets in the form of --output, with `faults` also as SARIF or JUnit.
    """

    def add(body: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(body, eval_str=True)
        parameters: list[inspect.Parameter] = []
        requests: dict[str, type[Request]] = {}
        for parameter in signature.parameters.values():
            kind = parameter.annotation
            if inspect.isclass(kind) and issubclass(kind, Request):
                requests[parameter.name] = kind
                parameters += _parameters(kind)
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
        takes_output = "output" in signature.parameters
        if shows and not takes_output:
            forms: Any = _CheckOutputOption if faults else OutputOption
            parameters.append(_keyword("output", forms, Output.table))
        if shows or takes_output:
            parameters.append(_keyword("legend", _Legend, False))

        def run(**values: Any) -> None:
            LEGEND.set(values.pop("legend", False))
            LEFT.set(None)
            read = {name: _request(kind, values) for name, kind in requests.items()}
            output = values.get("output") if takes_output else values.pop("output", None)
            if output is not None:
                check_stdout(output)
            try:
                code = body(**read, **values)
                if shows:
                    result, code, *lines = code
                    if result is not None:
                        show_report(result, output or Output.table)
                    for line in lines:
                        say(line)
            except KeyboardInterrupt:
                if (left := LEFT.get()) is None:
                    raise
                say(f"interrupted: {left()}")
                code = EXIT_INTERRUPTED
            raise typer.Exit(code or 0)

        run.__name__, run.__doc__, run.__module__ = body.__name__, body.__doc__, body.__module__
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(name, help=inspect.cleandoc(body.__doc__ or ""))(run)
        return body

    return add


def _parameters(kind: type[Request]) -> list[inspect.Parameter]:
    declared = kind.options()
    found = [_parameter(name, option) for name, option in declared.items()]
    if "namespace" in declared and declared["namespace"].kind == "texts":
        found.append(_keyword(_ALL_NAMESPACES, _AllNamespaces, False))
    return found


def _parameter(name: str, option: Option) -> inspect.Parameter:
    """Return a parameter as typer expects it; checks of size and form are the request's own."""
    kind = _TYPES[option.kind]
    optional = option.kind != "flag" and option.default is not REQUIRED
    details: dict[str, Any] = {"help": option.describe(), "metavar": option.metavar or None}
    default = option.default
    if option.kind in ("texts", "paths") and default == ():
        default = None
    if option.kind == "choice":
        kind = Literal[option.values]
        details["metavar"] = option.metavar or f"[{'|'.join(option.values)}]"
    if option.kind == "duration" and isinstance(default, int):
        from hpabatch.model.times import show_duration

        default = show_duration(default)
    if default in ("", None):
        details["show_default"] = False
    if option.positional:
        info: Any = typer.Argument(**details)
    else:
        names = [flag(name, option)]
        if option.kind == "flag" and option.default:
            names = [f"{names[0]}/--no-{names[0].removeprefix('--')}"]
        info = typer.Option(*names, *filter(None, [option.short]), **details)
    annotation: Any = Annotated[kind | None if optional else kind, info]
    return _keyword(keyword(name), annotation, default)


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is REQUIRED else default
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _request(kind: type[Request], values: dict[str, Any]) -> Request:
    """Take the options of a request out of a command's values, and read them."""
    declared = kind.options()
    if values.pop(_ALL_NAMESPACES, False) and values.get("namespace"):
        raise UsageError("-A and -n: expected one of them, got both; leave one out")
    flags = {
        keyword(name): option.metavar if option.positional else flag(name, option)
        for name, option in declared.items()
    }
    given = {name: values.pop(name) for name in flags}
    return kind.of(given, lambda name: flags.get(name, name))
