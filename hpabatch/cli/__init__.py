"""The command line: one module per command, bodies read -> engine -> report, lazy imports."""

from hpabatch.cli.app import main

__all__ = ["main"]
