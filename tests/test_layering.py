"""Imports point one way, and nothing but one file runs text as code. Read from the sources, nothing is imported."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MAY_IMPORT = {
    "translate": set(),
    "evaluators": {"translate"},
    "archive": {"translate", "evaluators"},
    "prompts": {"translate", "evaluators"},
    "seeds": set(),
    "evolve": {"translate", "evaluators", "archive", "prompts", "seeds"},
    "benchmarks": {"translate", "evaluators", "archive", "prompts", "seeds", "evolve"},
}
EXECUTES = ROOT / "translate" / "to_numba.py"
FORBIDDEN_CALLS = {"exec", "eval", "__import__"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "imp", "runpy"}
DYNAMIC_IMPORT = {"import_module", "spec_from_file_location", "exec_module", "load_module"}


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level names of every module that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(path.relative_to(ROOT).parts[0] if node.level else (node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_one_way(package):
    for path in sources(package):
        ours = imported(path) & set(MAY_IMPORT) - {package}
        assert ours <= MAY_IMPORT[package], f"{path.relative_to(ROOT)} imports {sorted(ours - MAY_IMPORT[package])}"


def test_nothing_but_evolve_and_benchmarks_imports_evolve():
    for package in set(MAY_IMPORT) - {"evolve", "benchmarks"}:
        assert all("evolve" not in imported(path) for path in sources(package))


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_text_is_run_as_code_and_nothing_is_unpickled(package):
    for path in sources(package):
        where = path.relative_to(ROOT)
        assert not imported(path) & FORBIDDEN_MODULES, where
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id in FORBIDDEN_CALLS | {"compile"}:
                assert path == EXECUTES, f"{where}:{node.lineno} uses {node.id}"
            if isinstance(node, ast.Attribute):
                assert node.attr not in DYNAMIC_IMPORT, f"{where}:{node.lineno} uses {node.attr}"
            if isinstance(node, ast.ImportFrom) and node.module == "importlib":
                assert {alias.name for alias in node.names} <= {"resources", "metadata"}, f"{where}:{node.lineno}"


def test_the_one_file_that_runs_text_runs_only_what_it_wrote_itself():
    tree = ast.parse(EXECUTES.read_text(encoding="utf-8"))
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    run = [n for n in calls if n.func.id in FORBIDDEN_CALLS]
    assert [n.func.id for n in run] == ["exec"]
    assert ast.unparse(run[0].args[0]).startswith("compile(source, ")
    assert "source = generate(program, function_name, feature_order)" in ast.unparse(tree)
