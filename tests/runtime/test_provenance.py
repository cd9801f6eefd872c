"""The code id changes with what the code does, and with nothing else."""

import subprocess
import sys

import pytest

from stcl.runtime import provenance
from stcl.runtime.provenance import code_id
from stcl.study.canonical import canonical


def test_canonical_ignores_order_and_refuses_nan():
    assert canonical({"b": 1, "a": [1.0, None]}) == canonical({"a": [1.0, None], "b": 1}) == '{"a":[1.0,null],"b":1}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical({"a": float("nan")})


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose `top` imports `middle` in three ways, which imports `bottom` inside a function."""
    folder = tmp_path / "stcl"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "__init__.py").write_text("")
    (folder / "top.py").write_text("import numpy\nfrom stcl.inner import middle\n")
    (folder / "inner" / "middle.py").write_text("def f():\n    from . import bottom\n    return bottom.x\n")
    (folder / "inner" / "bottom.py").write_text("x = 1\n")
    (folder / "inner" / "bottom.c").write_text('#include <math.h>\n#include "bottom.h"\n')
    (folder / "inner" / "bottom.h").write_text("#define X 1\n")
    (folder / "aside.py").write_text("y = 1\n")
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    return folder


def fresh_id(module="stcl.top"):
    provenance.code_id.cache_clear()
    provenance._parse.cache_clear()
    try:
        return code_id(module)
    finally:
        provenance.code_id.cache_clear()
        provenance._parse.cache_clear()


@pytest.mark.parametrize(
    ("file", "text", "same"),
    [
        ("inner/bottom.py", "x = 2\n", False),
        ("inner/__init__.py", "z = 1\n", False),
        ("inner/bottom.h", "#define X 2\n", False),
        ("inner/bottom.py", '"""What x is."""\n\nx = 1  # one\n', True),
        (
            "inner/middle.py",
            'def f():\n    """Bottom\'s x."""\n    from . import bottom\n\n    return bottom.x\n',
            True,
        ),
        ("aside.py", "y = 2\n", True),
        ("__init__.py", "from stcl.aside import y\n", True),  # a new public name
    ],
)
def test_what_changes_the_id(package, file, text, same):
    before = fresh_id()
    (package / file).write_text(text)
    assert (fresh_id() == before) == same


def test_a_file_of_a_user_counts_with_what_it_imports_from_the_package(package, tmp_path):
    file = tmp_path / "my" / "problem.py"
    file.parent.mkdir()
    file.write_text("from stcl.inner import bottom\nx = 1\n")
    before = fresh_id(str(file))
    file.write_text('"""Mine."""\n\nfrom stcl.inner import bottom\n\nx = 1  # one\n')
    assert fresh_id(str(file)) == before
    (package / "inner" / "bottom.py").write_text("x = 2\n")
    imported = fresh_id(str(file))
    assert imported != before
    file.write_text("from stcl.inner import bottom\nx = 2\n")
    assert fresh_id(str(file)) not in (before, imported)


SNIPPET = """
@wrapped
class A(B):
    x: int = 1

    def f(self, *rest, y=(), **more):
        '''What f does.'''
        return [lambda: f"{y:>{more}}{{}}", {}, print()]


async def g():
    pass
"""


def test_the_id_is_the_same_in_every_version_of_python(package):
    """Later versions than 3.11 dump a syntax tree otherwise. The id is the one that 3.11 gives."""
    (package / "top.py").write_text(SNIPPET)
    assert fresh_id() == "ca83b6f9e0d73275"


def test_an_unknown_module_is_named(package):
    with pytest.raises(ValueError, match=r"no module stcl\.absent"):
        fresh_id("stcl.absent")


def test_planning_does_not_import_torch():
    """The Snakefile is parsed at every start of every job."""
    code = "import sys, stcl.study.config, stcl.study.plan; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
