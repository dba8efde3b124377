"""The house: imports go down only, and the core stands on numpy and scipy."""

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import ctfa

SOURCE = Path(ctfa.__file__).parent
#: Layer of each module, by the longest prefix of its name.
LAYERS = {
    "ctfa.theory": 0,
    "ctfa.core": 0,
    "ctfa.core.spaces": 1,
    "ctfa.core.spaces.base": 0,
    "ctfa.core.criteria": 1,
    "ctfa.core.graph": 1,
    "ctfa.core.agenda": 2,
    "ctfa.core.all_pairs": 2,
    "ctfa.core.backend": 2,
    "ctfa.core.directions": 2,
    "ctfa.core.edges": 2,
    "ctfa.core.judge": 2,
    "ctfa.core.rows": 2,
    "ctfa.core.runs": 2,
    "ctfa.core.scans": 2,
    "ctfa.core.gappy_members": 2,
    "ctfa.core.solvers": 2,
    "ctfa.core.cut": 2,
    "ctfa.core.replay": 2,
    "ctfa.kernels": 3,
    "ctfa._validation": 3,
    "ctfa._merging": 3,
    "ctfa._anomalies": 3,
    "ctfa._collections": 3,
    "ctfa._streaming": 3,
    "ctfa._target_rule": 3,
    "ctfa._target_units": 3,
    "ctfa._on_device": 3,
    "ctfa._progress": 3,
    "ctfa._threads": 3,
    "ctfa._layout": 3,
    "ctfa._whole_file": 3,
    "ctfa._names": 3,
    "ctfa._whole_fit": 3,
    "ctfa._target_aggregator": 3,
    "ctfa._feature_aggregator": 3,
    "ctfa._fitted_targets": 4,
    "ctfa._regressor": 4,
    "ctfa._regressor_data": 4,
    "ctfa._regressor_cv": 4,
    "ctfa._heads": 4,
    "ctfa._group_models": 4,
    "ctfa._explanation": 4,
    "ctfa._merge_evidence": 4,
    "ctfa._evidence": 4,
    "ctfa._held_out": 4,
    "ctfa._path": 4,
    "ctfa._multi_input": 4,
    "ctfa._own_choice": 4,
    "ctfa._own_evidence": 4,
    "ctfa._own_models": 4,
    "ctfa._own_phase": 4,
    "ctfa._own_rule": 4,
    "ctfa._pooled": 4,
    "ctfa._pooled_fit": 4,
    "ctfa._pooled_rule": 4,
    "ctfa._pooled_groups": 4,
    "ctfa._pooled_evidence": 4,
    "ctfa._parity": 5,
    "ctfa.datasets": 5,
    "ctfa.baselines": 5,
    "ctfa.testing": 5,
    "ctfa.plotting": 5,
    "ctfa._collapsed": 5,
    "ctfa.persistence": 5,
    "ctfa.pieces": 5,
    "ctfa.report": 5,
    "ctfa.comparison": 6,
    "ctfa.labelled": 6,
    "ctfa._demo": 6,
    "ctfa": 6,
    "ctfa.reproduction": 7,
    "ctfa._commands": 7,
    "ctfa.cli": 7,
    "ctfa.__main__": 8,
}
MODULES = sorted(
    ".".join(("ctfa", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
)


def imported(module):
    """Names of modules that a module imports, anywhere in its text."""
    file = SOURCE.parent / Path(*module.split("."))
    path = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            # "from ctfa import _validation" imports a module, not a name of the package.
            yield from (
                f"{node.module}.{alias.name}"
                if f"{node.module}.{alias.name}" in MODULES
                else node.module
                for alias in node.names
            )


def layer(module):
    while module not in LAYERS:
        module = module.rpartition(".")[0]
    return LAYERS[module]


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_down_only(module):
    for name in imported(module):
        if name.startswith("ctfa") and not name.startswith(f"{module}."):
            assert layer(name) <= layer(module), f"{module} imports {name} from above"


def test_criteria_and_spaces_do_not_know_each_other():
    assert not any(name.startswith("ctfa.core.spaces") for name in imported("ctfa.core.criteria"))
    for module in MODULES:
        if module.startswith("ctfa.core.spaces"):
            assert "ctfa.core.criteria" not in imported(module)


@pytest.mark.parametrize("module", [m for m in MODULES if layer(m) <= 2])
def test_the_core_and_the_theory_import_numpy_and_scipy_only(module):
    allowed = {"ctfa", "numpy", "scipy", *sys.stdlib_module_names}
    assert {name.partition(".")[0] for name in imported(module)} <= allowed


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("ctfa.kernels")])
def test_kernels_stand_beside_the_estimators_on_the_core(module):
    allowed = {"numpy", "numba", *sys.stdlib_module_names}
    for name in imported(module):
        of_the_core = name.startswith(("ctfa.core.", "ctfa.kernels."))
        assert of_the_core or name.partition(".")[0] in allowed, f"{module} imports {name}"


def test_only_kernels_know_the_compiler():
    users = [m for m in MODULES if any(n.partition(".")[0] == "numba" for n in imported(m))]
    assert all(module.startswith("ctfa.kernels.") for module in users)


@pytest.mark.parametrize("module", [m for m in MODULES if m.startswith("ctfa._commands.")])
def test_commands_speak_in_one_place(module):
    source = ast.parse((SOURCE.parent / Path(*module.split("."))).with_suffix(".py").read_text())
    printed = [n for n in ast.walk(source) if isinstance(n, ast.Name) and n.id == "print"]
    assert not printed or module == "ctfa._commands._terminal", "say() and note() print"


@pytest.mark.parametrize("module", MODULES)
def test_only_public_scikit_learn_names_are_used(module):
    private = [n for n in imported(module) if n.startswith("sklearn") and "._" in n]
    assert private == []


def test_the_package_works_where_no_extra_is_installed():
    code = """
import sys
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


@pytest.mark.parametrize(
    "module", [m.name for m in pkgutil.walk_packages([str(SOURCE)], "ctfa.") if "__" not in m.name]
)
def test_examples_in_docstrings_are_true(module):
    if module.startswith("ctfa.kernels."):
        pytest.importorskip("numba", reason="compiled scans need numba")
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_the_tree_in_the_architecture_names_every_module():
    text = (Path(__file__).parent.parent / "ARCHITECTURE.md").read_text()
    tree = text.partition("## The tree")[2].partition("## Layers")[0]
    for path in SOURCE.rglob("*.py"):
        relative = path.relative_to(SOURCE)
        folder = relative.parts[-2] + "/" if len(relative.parts) > 1 else ""
        # The theory is one entry; an __init__ is its folder.
        whole = relative.name == "__init__.py" or folder == "theory/"
        assert (folder if whole else relative.name) in tree, f"{relative} is not in the tree"
