"""README, CONTRIBUTING and docs/record.md against what is there."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest
from fakes import compose

from arcbench.episode import play
from arcbench.runner.cell import Cell
from arcbench.types import NoAnswer

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
RECORD = (ROOT / "docs/record.md").read_text("utf-8")


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def tree() -> dict[str, str]:
    """The files of the README's tree with what it says each is for."""
    files, folder = {}, ""
    for line in section(README, "What each file is for").split("```")[1].strip("\n").split("\n"):
        name, _, purpose = line.strip().partition(" ")
        if not line.startswith(" ") and name.endswith("/"):
            folder = name
        path = folder + name if line.startswith(" ") else name
        files[path] = purpose.strip()
    return files


def test_the_tree_names_every_source_file_and_no_other():
    packages = ("arcbench", "baselines", "harness", "analysis", "examples", "scripts")
    source = {str(path.relative_to(ROOT)) for package in packages for path in (ROOT / package).rglob("*.py")}
    source = {path for path in source if not path.endswith("__init__.py")}
    groups = {f"conf/{path.name}/" for path in (ROOT / "conf").iterdir() if path.is_dir() and any(path.glob("*.yaml"))}
    docs = {str(path.relative_to(ROOT)) for path in (ROOT / "docs").glob("*.md")}
    named = {path for path in tree() if path.endswith((".py", ".md")) or re.fullmatch("conf/.+/", path)}
    assert named == source | groups | docs | {"CONTRIBUTING.md"}
    assert all(purpose for path, purpose in tree().items() if not path.endswith("/") or path.count("/") > 1)


@pytest.mark.parametrize("group", ["method", "budget", "recall", "model"])
def test_the_readme_names_every_choice(group):
    for path in (ROOT / "conf" / group).glob("*.yaml"):
        assert f"`{path.stem}`" in README, f"{group}={path.stem}"


def test_every_make_target_the_readme_names_exists():
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    targets |= {path.stem for path in (ROOT / "conf/tables").glob("*.yaml")}
    named = set(re.findall(r"(?:`|^)make ([a-z][a-z0-9_-]+)", README, re.M))
    assert {"reproduce-tables", "test"} <= named <= targets


def test_make_help_lists_every_target_that_a_person_would_call():
    made = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    listed = set(re.findall(r"^  make (\S+)", made, re.M))
    phony = re.search(r"^\.PHONY: (help .*)$", (ROOT / "Makefile").read_text("utf-8"), re.M)
    assert phony
    assert listed == set(phony[1].split())


def test_the_record_page_lists_the_fields_of_a_record():
    cell = Cell.compose(compose("harness.n_tasks=1"))
    record = asyncio.run(play(cell.harness.tasks()[0], cell.setup(cell.engine)))
    parts = {
        "Fields of an episode": set(record) | {"detail"},
        "Fields of a turn": set(record["turns"][0]),
        "Fields of a call": set(record["calls"][0]),
        "Fields of a compaction": set(record["compactions"][0]),
    }
    for heading, fields in parts.items():
        rows = [line.split("|")[1] for line in section(RECORD, heading).splitlines() if line.startswith("| `")]
        assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == fields, heading
    reasons = re.search(r"\| `reason` \| (.*) \|", RECORD)
    assert reasons
    assert set(re.findall(r"`(\w+)`", reasons[1])) == set(NoAnswer.__args__)
