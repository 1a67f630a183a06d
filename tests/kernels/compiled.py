"""`python -m tests.kernels.compiled NAME...`: compile, and keep, what test_NAME.py runs.

Processes that begin at once would else compile it all at once, each for itself.
"""

from __future__ import annotations

import importlib
import sys

for name in sys.argv[1:]:
    importlib.import_module(f"tests.kernels.test_{name}").digests()
