"""Registration and run of commands: a request's options become options of the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any, Literal

import typer

from hpabatch.cli.app import Command
from hpabatch.cli.stdout import LEGEND, check_stdout
from hpabatch.cli.talk import say
from hpabatch.errors import EXIT_INTERRUPTED, UsageError
from hpabatch.model.options import REQUIRED, Option, Request, flag, keyword

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
_LEGEND = "legend"
_Legend = Annotated[
    bool,
    typer.Option("--legend", "-v", help="Explain the columns of tables, below them."),
]
_AllNamespaces = Annotated[
    bool,
    typer.Option("--all-namespaces", "-A", help="HPAs of all namespaces: the default."),
]


LEFT: ContextVar[Callable[[], str] | None] = ContextVar("left", default=None)
"""What says what an interrupted command leaves behind; None: nothing that is worth a word."""


def command(app: typer.Typer, name: str | None = None) -> Callable[[Any], Any]:
    """Return a decorator that adds a function to `app` as a command; its docstring is the help.

    A parameter of the function whose type is a `Request` stands for the options of that request:
    the function gets the request, the command line has the options. All others are typer's.
    The function returns the exit code, None for 0.
    """

    def add(body: Callable[..., int | None]) -> Callable[..., int | None]:
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

        if "output" in signature.parameters:
            parameters.append(_keyword(_LEGEND, _Legend, False))

        def run(**values: Any) -> None:
            LEGEND.set(values.pop(_LEGEND, False))
            LEFT.set(None)
            read = {name: _request(kind, values) for name, kind in requests.items()}
            if (output := values.get("output")) is not None:
                check_stdout(output)
            try:
                code = body(**read, **values)
            except KeyboardInterrupt:
                if (left := LEFT.get()) is None:
                    raise
                say(f"interrupted: {left()}")
                code = EXIT_INTERRUPTED
            raise typer.Exit(code or 0)

        run.__name__, run.__doc__, run.__module__ = body.__name__, body.__doc__, body.__module__
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(name, cls=Command, help=inspect.cleandoc(body.__doc__ or ""))(run)
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
