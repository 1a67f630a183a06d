"""`python -m hpabatch._compile`: one function and all that it calls as an object of machine code.

Its arguments are the number of the open file to write to, the kind of machine, the module and the
function, whose types are those that are annotated. Numba types the rules and makes LLVM's code of
them. Numba itself would optimize a function, and make machine code of it, once for each function
that calls it, so that each may be called from Python. Nothing here is: all is optimized once, at
the end.

The object is for any processor of that kind of machine, so every one decides alike; it needs no
numba to be run, and only the functions of C that `_code` names. LLVM makes it from the same code
for another kind of machine than this one, and needs no linker: an object is what `_code` loads.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from hpabatch import _jit

# Name and code model. On x86-64 constants may lie anywhere: of memory that is full of holes the two
# are put further apart than a small model reaches, and LLVM ends the process.
PROCESSORS = {"x86_64": ("x86-64", "large")}


def compile_object(kind: str, module: str, name: str) -> bytes:
    """Return the object (ELF) of a function that takes the address of its words."""
    import llvmlite.binding as llvm
    import numba
    from numba.core import codegen

    library: Any = codegen.CPUCodeLibrary
    processor: Any = codegen.JITCPUCodegen
    optimize = library._optimize_final_module
    library._optimize_final_module = lambda self: None
    library._finalize_final_module = lambda self: setattr(self, "_finalized", True)
    library.get_pointer_to_function = lambda self, name: 0
    processor.set_env = lambda self, name, env: None
    function: Any = getattr(importlib.import_module(module), name)
    function.compile(tuple(map(numba.typeof, _jit.examples(function.py_func))))
    (compiled,) = function.overloads.values()
    whole = compiled.library
    inner = whole._final_module.get_function(compiled.fndesc.llvm_func_name)
    whole._final_module.link_in(llvm.parse_assembly(_entry(inner, name)))
    for other in (*whole._final_module.functions, *whole._final_module.global_variables):
        if not other.is_declaration and other.name != name:
            other.linkage = "internal"  # so that what nobody calls or reads goes
    optimize(whole)
    cpu, model = PROCESSORS.get(kind, ("generic", "small"))
    triple = llvm.get_default_triple()
    if kind != os.uname().machine:
        triple = f"{kind}-unknown-linux-gnu"
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(
        cpu=cpu, opt=3, reloc="pic", codemodel=model
    )
    whole._final_module.triple = triple
    whole._final_module.data_layout = str(machine.target_data)
    return bytes(machine.emit_object(whole._final_module))


def _entry(inner: Any, name: str) -> str:
    """Return LLVM's code of a function that passes the words of an array to numba's function."""
    result, error, *arguments = (str(argument.type) for argument in inner.arguments)
    lines, passed = [], []
    for k, kind in enumerate(arguments):
        lines.append(f"%p{k} = getelementptr i64, i64* %words, i64 {k}")
        lines.append(f"%w{k} = load i64, i64* %p{k}")
        how = {"i64": "", "double": "bitcast", "i8": "trunc", "i1": "trunc"}.get(kind, "inttoptr")
        if how:
            lines.append(f"%a{k} = {how} i64 %w{k} to {kind}")
        passed.append(f"{kind} %{'a' if how else 'w'}{k}")
    call = ", ".join([f"{result} %r", f"{error} %e", *passed])
    body = "\n  ".join(lines)
    return f"""
declare i32 @"{inner.name}"({", ".join([result, error, *arguments])})
define i64 @{name}(i64* %words) {{
  %result = alloca i64
  store i64 0, i64* %result
  %error = alloca i64
  %ri = ptrtoint i64* %result to i64
  %r = inttoptr i64 %ri to {result}
  %ei = ptrtoint i64* %error to i64
  %e = inttoptr i64 %ei to {error}
  {body}
  %status = call i32 @"{inner.name}"({call})
  %value = load i64, i64* %result
  ret i64 %value
}}
"""


if __name__ == "__main__":
    # Before anything of the order is imported.
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = "generic", ""
    _jit.COMPILING = True
    with open(int(sys.argv[1]), "wb") as out:
        out.write(compile_object(*sys.argv[2:]))
