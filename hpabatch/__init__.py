"""Kubernetes Horizontal Pod Autoscaler decisions in bulk, exactly as the controller makes them.

::

    import hpabatch
    history = hpabatch.open("history/")
    replay = history.replay(where="namespace = 'shop'")
    replay.summary

The methods of a history take the options of the commands as keyword arguments (docs/reference.md).
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_MODULES = {
    "Recording": "recording",
    "import_prometheus": "imports",
    "import_table": "imports",
    "open": "recording",
    "open_sweep": "sweeps",
    "validate": "validation",
}
"""The module of `hpabatch.api` in which each public name is."""


def __getattr__(name: str) -> object:
    # The command line imports this package at every start, and polars and numba take half a second.
    if name in _MODULES:
        return getattr(import_module(f"hpabatch.api.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'hpabatch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_MODULES, "__version__", "errors"])
