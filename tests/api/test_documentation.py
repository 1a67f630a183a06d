"""Generated files are those of the code; signatures and names as editors show them."""

from __future__ import annotations

import ast
import inspect

import hpabatch
from benchmarks.documentation import files
from hpabatch.api.requests import REQUESTS
from hpabatch.model.options import keyword


def test_generated_files_are_committed() -> None:
    for path, text in files().items():
        assert path.read_text() == text, f"{path}: run `python -m benchmarks.documentation`"


def test_stubs_are_python_with_the_signatures_of_the_code() -> None:
    (stub,) = [text for path, text in files().items() if path.name == "recording.pyi"]
    (recording,) = [n for n in ast.parse(stub).body if isinstance(n, ast.ClassDef)]
    written = {n.name: n.args for n in recording.body if isinstance(n, ast.FunctionDef)}
    for name, method in inspect.getmembers(hpabatch.Recording, inspect.isfunction):
        if not name.startswith("_"):
            found = inspect.signature(method).parameters
            args = written[name]
            given = [*args.args, *([args.vararg] if args.vararg else []), *args.kwonlyargs]
            assert {a.arg for a in given} == set(found), name


def test_every_option_has_a_sentence() -> None:
    for title, request in REQUESTS.items():
        for name, option in request.options().items():
            assert option.help.endswith("."), (title, name)
            assert option.help[0].isupper(), (title, name)
            assert keyword(name).isidentifier()


def test_public_names_are_all_there_is() -> None:
    assert all(hasattr(hpabatch, name) for name in dir(hpabatch))
    assert not [n for n in dir(hpabatch) if n in ("annotations", "import_module", "TYPE_CHECKING")]
