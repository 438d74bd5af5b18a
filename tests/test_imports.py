"""Who may import whom, read from the source: the table of the design."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
OURS = ("arcbench", "baselines", "harness", "analysis", "examples", "scripts")
PURE = ("arcbench.text", "arcbench.checks", "arcbench.parsing", "arcbench.recent", "arcbench.transcript")
CORE = "arcbench.types"

# what a package may import of ours, beside itself; the first entry that fits a module counts
ALLOWED: list[tuple[str, tuple[str, ...]]] = [
    ("arcbench.types", ()),
    ("arcbench.text", ()),
    ("arcbench.runner", ("arcbench",)),
    ("arcbench.__main__", ("arcbench.runner",)),
    ("arcbench.plan", ("arcbench",)),
    ("arcbench.arc", (CORE, *PURE)),
    ("arcbench.vista", (CORE, *PURE)),
    ("arcbench.engines.replay", (CORE, *PURE, "arcbench.engines", "arcbench.records")),
    ("arcbench.engines", (CORE, *PURE)),
    ("arcbench.records", (CORE, "arcbench.progress")),
    ("arcbench.checks", (CORE,)),
    ("arcbench.episode", (CORE, *PURE)),
    ("arcbench", (CORE, *PURE)),
    ("baselines", (CORE, *PURE)),
    ("harness", (CORE, "arcbench.text", "arcbench.checks", "arcbench.parsing")),
    ("examples", (CORE, *PURE, "harness")),
    ("analysis.perception", (CORE, "arcbench.records", "arcbench.runner", "analysis")),
    ("analysis.episode", (CORE, "arcbench.records", "arcbench.transcript")),
    ("analysis.probe", (CORE, "arcbench.checks", "arcbench.text", "arcbench.vista.dashboard", "analysis")),
    ("analysis.status", (CORE, "arcbench.records", "arcbench.cells", "analysis")),
    ("analysis.snapshots", (CORE, "arcbench.records", "arcbench.text", "arcbench.vista.dashboard")),
    ("analysis", (CORE, "arcbench.records", "arcbench.checks")),
    ("scripts", OURS),
]
HEAVY = ("vllm", "torch", "transformers", "sentence_transformers")
FILES = sorted(path for package in OURS for path in (ROOT / package).rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def imported(path: Path, *, everywhere: bool = True) -> Iterator[str]:
    """Modules that a file imports: all of them, or those at module level only (not for type checking only)."""
    tree = ast.parse(path.read_text("utf-8"))
    nodes: list[ast.AST] = list(ast.walk(tree))
    if not everywhere:
        nodes = [inner for node in tree.body if not _guarded(node) for inner in _flat(node)]
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            module = node.module or ""
            # `from package import module` names a module too
            for alias in node.names:
                below = ROOT / Path(*module.split(".")) / alias.name
                yield f"{module}.{alias.name}" if below.with_suffix(".py").exists() or below.is_dir() else module


def _guarded(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _flat(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and what runs with it when the module is loaded."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _flat(child)


def strangers(module: str, imports: Iterator[str]) -> set[str]:
    """The imports of ours that the table does not allow to this module."""
    package, allowed = next((package, allowed) for package, allowed in ALLOWED if within(module, package))
    own = package if package != "arcbench" else module
    return {
        other
        for other in imports
        if other.partition(".")[0] in OURS and not any(within(other, each) for each in (own, *allowed))
    }


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_each_module_keeps_to_the_table(path: Path) -> None:
    assert strangers(name_of(path), imported(path)) == set()


def test_the_table_finds_what_it_forbids(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("import harness.needle\nfrom arcbench import episode\nfrom arcbench.types import Task\nimport os\n")
    assert strangers("arcbench.arc.method", imported(file)) == {"harness.needle", "arcbench.episode"}
    assert strangers("baselines.x", imported(file)) == {"harness.needle", "arcbench.episode"}
    assert strangers("harness.x", imported(file)) == {"arcbench.episode"}
    assert strangers("analysis.x", imported(file)) == {"harness.needle", "arcbench.episode"}
    assert strangers("arcbench.runner.cell", imported(file)) == {"harness.needle"}
    file.write_text(
        "def f():\n    import torch\nif TYPE_CHECKING:\n    import pandas\ntry:\n    import vllm\nexcept E:\n    pass\n"
    )
    assert set(imported(file)) == {"torch", "pandas", "vllm"}
    assert set(imported(file, everywhere=False)) == {"vllm"}


def test_no_method_imports_another() -> None:
    targets = {
        target.rpartition(".")[0]
        for path in (ROOT / "conf" / "method").glob("*.yaml")
        if (target := yaml.safe_load(path.read_text("utf-8")).get("_target_"))  # else that of its defaults
    }
    assert "arcbench.arc" in targets
    for path in FILES:
        module = name_of(path)
        homes = {target for target in targets if within(module, target)}
        if homes or within(module, "baselines"):
            assert not {i for i in imported(path) for target in targets - homes if within(i, target)}, module


def test_only_the_runner_imports_hydra() -> None:
    users = {
        name_of(path) for path in FILES for module in imported(path) if module.split(".")[0] in ("hydra", "omegaconf")
    }
    assert users == {f"arcbench.runner.{name}" for name in ("overrides", "building", "session")}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_heavy_is_imported_at_module_level(path: Path) -> None:
    found = {module for module in imported(path, everywhere=False) if module.split(".")[0] in HEAVY}
    if not any(within(name_of(path), home) for home in ("arcbench.engines.vllm", "scripts")):
        assert found == set()
