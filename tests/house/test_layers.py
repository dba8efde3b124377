"""The house: imports go down only, and the core stands on numpy and scipy."""

import ast
import doctest
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ctfa
from ctfa.core import libraries

SOURCE = Path(ctfa.__file__).parent
ROOT = Path(__file__).parents[2]
#: Packages from the ground up, by the longest prefix of a module's name: a line imports from its
#: own and from those above it on this list. The study stands beside the commands, below nothing.
LAYERS = (
    "ctfa.theory ctfa.core ctfa.core.spaces.base",
    "ctfa.core.spaces ctfa.core.criteria ctfa.core.graph",
    "ctfa.core.backend ctfa.core.judge ctfa.core.rows ctfa.core.scans ctfa.core.cut "
    "ctfa.core.tasks",
    "ctfa.kernels ctfa._calendar ctfa._reading ctfa._text "
    "ctfa._errors ctfa._progress ctfa._threads",
    "ctfa.estimators",
    "ctfa.datasets ctfa.persistence ctfa.pieces ctfa.plotting ctfa.report ctfa.testing",
    "ctfa ctfa.labelled",
    "ctfa._commands ctfa.cli ctfa.__main__ ctfa_study",
)
MODULES = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for package in ("ctfa", "ctfa_study")
    for path in (SOURCE.parent / package).rglob("*.py")
)


def imported(module, at_import=False):
    """Names of modules that a module imports, anywhere in its text or only while it is imported."""
    file = SOURCE.parent / Path(*module.split("."))
    path = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    tree = ast.parse(path.read_text())
    for node in tree.body if at_import else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            # "from ctfa import _reading" imports a module, not a name of the package.
            yield from (
                f"{node.module}.{alias.name}"
                if f"{node.module}.{alias.name}" in MODULES
                else node.module
                for alias in node.names
            )


def layer(module):
    while True:
        for height, names in enumerate(LAYERS):
            if module in names.split():
                return height
        module = module.rpartition(".")[0]


def test_imports_go_down_only():
    for module in MODULES:
        for name in imported(module):
            if name.startswith("ctfa") and not name.startswith(f"{module}."):
                assert layer(name) <= layer(module), f"{module} imports {name} from above"


@pytest.mark.more
def test_only_commands_know_the_study_and_only_when_they_run_it():
    for module in (m for m in MODULES if m.startswith("ctfa.")):
        known = [n for n in imported(module, at_import=True) if n.startswith("ctfa_study")]
        assert not known, f"{module} imports {known} before anybody asks for it"
        if any(name.startswith("ctfa_study") for name in imported(module)):
            assert module.startswith("ctfa._commands."), f"{module} knows the study"


def test_criteria_and_spaces_do_not_know_each_other():
    assert not any(name.startswith("ctfa.core.spaces") for name in imported("ctfa.core.criteria"))
    for module in MODULES:
        if module.startswith("ctfa.core.spaces"):
            assert "ctfa.core.criteria" not in imported(module)


def test_the_core_and_the_theory_import_numpy_and_scipy_only():
    allowed = {"ctfa", "numpy", "scipy", *sys.stdlib_module_names}
    for module in (m for m in MODULES if layer(m) <= 2):
        assert {name.partition(".")[0] for name in imported(module)} <= allowed, module


def test_kernels_stand_beside_the_estimators_on_the_core():
    allowed = {"numpy", "numba", *sys.stdlib_module_names}
    for module in (m for m in MODULES if m.startswith("ctfa.kernels")):
        for name in imported(module):
            of_the_core = name.startswith(("ctfa.core.", "ctfa.kernels."))
            assert of_the_core or name.partition(".")[0] in allowed, f"{module} imports {name}"


@pytest.mark.more
def test_only_kernels_know_the_compiler():
    users = [m for m in MODULES if any(n.partition(".")[0] == "numba" for n in imported(m))]
    assert all(module.startswith("ctfa.kernels.") for module in users)


def test_commands_speak_in_one_place():
    for file in (SOURCE / "_commands").glob("*.py"):
        tree = ast.walk(ast.parse(file.read_text()))
        printed = [n for n in tree if isinstance(n, ast.Name) and n.id == "print"]
        assert not printed or file.name == "_terminal.py", f"{file.name}: say() and note() print"


@pytest.mark.more
def test_only_public_scikit_learn_names_are_used():
    for module in MODULES:
        private = [n for n in imported(module) if n.startswith("sklearn") and "._" in n]
        assert private == [], module


def test_the_package_works_where_no_extra_is_installed():
    code = """
import sys
import tomllib
class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"pandas", "polars", "pyarrow", "matplotlib", "rich", "numba"}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NotInstalled())
from ctfa import CTFARegressor
from ctfa.datasets import make_paper_synthetic
X, Y = make_paper_synthetic(60, 5, 3, random_state=0)
print(CTFARegressor().fit(X, Y).predict(X).shape)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "(60, 3)", done.stderr


#: Libraries, and our own packages, that take long to load and that few calls need.
HEAVY = {"ctfa_study", "dask", "joblib", "matplotlib", "numba", "numpy", "pandas", "scipy",
         "sklearn", "torch", "xarray"}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import ctfa", set()),
        ("import ctfa_study", {"ctfa_study"}),
        ("main(['--version'])", set()),
        ("main(['--help'])", set()),
        ("main(['fit', '--help'])", set()),
        ("main(['datasets', '--help'])", set()),
        ("from ctfa import theory", {"numpy"}),
    ],
)
def test_nothing_is_loaded_that_is_not_used(code, allowed):
    lines = (
        "import contextlib, sys",
        *(["from ctfa.cli import main"] if code.startswith("main") else []),
        f"with contextlib.suppress(SystemExit): {code}",
        "sys.stdout.write('\\n' + ' '.join({name.partition('.')[0] for name in sys.modules}))",
    )
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert HEAVY & set(done.stdout.splitlines()[-1].split()) <= allowed


@pytest.mark.more
@pytest.mark.parametrize(
    "code",
    [
        "from ctfa.core.backend import BACKENDS, using\nwith using('numpy'): assert BACKENDS",
        "import ctfa; ctfa.core; ctfa.kernels; ctfa.estimators",
    ],
)
def test_what_was_not_imported_is_found_when_it_is_asked_for(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_public_names_are_found_listed_and_loaded_once():
    assert set(ctfa.__all__) <= set(dir(ctfa))
    for name in ctfa.__all__:
        assert getattr(ctfa, name) is getattr(ctfa, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ctfa.nothing  # noqa: B018
    with pytest.raises(AttributeError, match="from ctfa_study import baselines"):
        ctfa.baselines  # noqa: B018


@pytest.mark.parametrize("module", [m for m in MODULES if "__" not in m])
def test_examples_in_docstrings_are_true(module):
    if module.startswith("ctfa.kernels."):
        pytest.importorskip("numba", reason="compiled scans need numba")
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_extra_that_an_error_names_brings_the_library():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = extras["project"]["optional-dependencies"]
    brought = {name: {re.match(r"[\w-]+", one)[0] for one in held} for name, held in extras.items()}
    brought["xarray"].add("pandas")  # which xarray brings
    brought["geo"] |= {"shapely", "pyogrio"}  # as geopandas does
    missing = {lib: extra for lib, extra in libraries._EXTRAS.items() if lib not in brought[extra]}
    assert not missing
