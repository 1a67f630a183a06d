"""Kubernetes Horizontal Pod Autoscaler decisions in bulk, exactly as the controller makes them.

::

    import hpabatch
    history = hpabatch.open("history/")
    replay = history.replay(where="namespace = 'shop'")
    replay.summary

`__init__.pyi` says what types these names have; `hpabatch.api.recording` is where they are.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_API = ("Advice", "Recording", "Replay", "Sweep", "open", "open_sweep")


def __getattr__(name: str) -> object:
    # The command line imports this package at every start, and polars and numba take half a second.
    if name in _API:
        return getattr(import_module("hpabatch.api.recording"), name)
    raise AttributeError(f"module 'hpabatch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_API})
