"""Build hook of the wheel: compiled kernels, if HPABATCH_KERNELS names a folder of them.

Such a wheel is for one kind of processor (`make wheel`); one without is for any, and compiles.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Kernels(BuildHookInterface):  # type: ignore[type-arg]
    """Adds machine code, and names the machines that it is for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the files into the package, as hatchling asks before it builds."""
        folder = os.environ.get("HPABATCH_KERNELS")
        if not folder or version == "editable":
            return
        system = platform.system()
        machine = os.environ.get("HPABATCH_MACHINE") or platform.machine()
        files = sorted(Path(folder).glob(f"*.{machine}.o"))
        if not files or system != "Linux":
            raise ValueError(
                f"expected kernels for {machine} in {folder}, on Linux, got {len(files)} "
                f"on {system}"
            )
        # They call nothing but old functions of the C library, which the loading process finds.
        build_data["tag"] = f"py3-none-manylinux_2_17_{machine}"
        build_data["pure_python"] = False
        for file in files:
            build_data["force_include"][str(file)] = f"hpabatch/_kernels/{file.name}"
