"""docs/troubleshooting.md: every message that it quotes stands in the source, every command and key exists; and every
command says what it is for."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes import compose

from arcbench.records import flatten
from arcbench.runner.overrides import GROUPS, choices
from arcbench.types import NoAnswer

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PAGE.splitlines() if line.startswith("| ")]
COMMANDS = sorted(
    f"{package}.{path.stem}"
    for package in ("arcbench", "analysis")
    for path in (ROOT / package).glob("*.py")
    if re.search(r"^if __name__", path.read_text("utf-8"), re.M) and path.stem != "__main__"
)


def texts(path: Path) -> Iterator[str]:
    """The strings of a source file, each as one text with a mark where something is filled in."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)  # type: ignore[misc]


@pytest.fixture(scope="module")
def said() -> list[str]:
    """All strings of the sources, and the lines of the Makefile."""
    packages = ("arcbench", "baselines", "harness", "analysis", "scripts")
    sources = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    return [*(text for path in sources for text in texts(path)), *(ROOT / "Makefile").read_text("utf-8").splitlines()]


def test_every_quoted_message_stands_in_the_source(said):
    quoted = [message for row in ROWS for message in re.findall(r"`([^`]+)`", row[0]) if " " in message]
    assert len(quoted) > 35
    for message in quoted:
        parts = [re.escape(part.strip()) for part in message.split("...")]
        pattern = re.compile(".*".join(parts), re.S)
        assert any(pattern.search(text) for text in said), message
        assert len(message.replace("...", "")) > 6, message


def test_every_command_and_choice_on_the_page_exists():
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    targets |= {path.stem for path in (ROOT / "conf/tables").glob("*.yaml")}
    assert set(re.findall(r"`make ([a-z0-9_-]+)", PAGE)) <= targets
    assert set(re.findall(r"python -m ([a-z_.]+)", PAGE)) <= {"arcbench", *COMMANDS}
    keys = {
        key
        for words in (
            [],
            ["engine=vllm", "model=qwen3-8b"],
            ["engine=server", "model=qwen3-8b"],
            ["harness=longbench_v2_hard"],
        )
        for key in flatten(compose(*words))
    }
    keys |= set(GROUPS) | {"hydra/launcher"}
    named = set(re.findall(r"`(?:[^`]* )?([a-z_]+(?:[./][a-z_]+)*)=[^`]*`", PAGE)) - {
        "key",
        "a",
    }  # what stands for a key
    assert len(named) > 20
    assert named <= keys, named - keys
    dotted = set(re.findall(r"`((?:budget|harness|engine|model)\.[a-z_.]+)`", PAGE))
    assert dotted <= keys, dotted - keys


def test_the_reasons_that_are_named_are_reasons():
    named = set(re.findall(r"(?:many|all) `(\w+)`", PAGE))
    assert named == {"context_overflow", "output_cut", "malformed", "gave_up"}
    assert named <= set(NoAnswer.__args__)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_is_for_and_stands_in_the_readme(name):
    takes_pairs = name in ("analysis.roofline", "analysis.capacity", "arcbench.plan")
    done = subprocess.run([sys.executable, "-m", name, "--help"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"python -m {name}" in done.stdout
    assert takes_pairs or "show this help message" in done.stdout
    assert f"python -m {name}" in README


def test_the_help_of_a_run_lists_every_choice():
    done = subprocess.run([sys.executable, "-m", "arcbench", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    for group in GROUPS:
        assert f"\n{group}: {', '.join(choices(group))}\n" in done.stdout
    others = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()} - {*GROUPS, "hydra"}
    told = re.search(r"Choices \((.*) are of analyses", done.stdout)
    assert told
    assert set(re.split(", | and ", told[1])) == others
