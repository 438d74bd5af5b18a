"""docs/methods.md against conf: every parameter stands there with its value, and nothing that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/methods.md").read_text("utf-8")
CONF = ROOT / "conf"

# texts, and what names a file or its class
TEXTS = {"texts", "actions", "rubric", "status", "promise", "material", "manual"}
NAMES = {"_target_", "_partial_", "_convert_", "id", "variant", "defaults", "hydra"}
# what the page says it leaves out: prompts of the benchmark, and how a model is found and counted
LEFT_OUT = {
    "harness/longbench_v2_hard": ("single.", "official."),
    "model": ("hub_id", "revision", "path", "prepare", "tokenizer.", "chat.", "facts", "sampling"),
    "config": ("results_dir", "run_dir", "digest_ignores"),
}
SECTIONS = {
    "full_context": "method/full_context", "sliding_window": "method/sliding_window",
    "llm_summary": "method/llm_summary", "structured_state": "method/structured_state",
    "rag_memory": "method/rag_memory", "arc": "method/arc", "arc_paged": "method/arc_paged",
    "arc_select": "method/arc_select", "vista": "method/vista", "The needle task": "harness/needle",
    "LongBench-v2 hard": "harness/longbench_v2_hard", "The agent loop": "config",
}  # fmt: skip
GROUPS = {
    "budget": "The budget that all methods share",
    "recall": "The budget that all methods share",
    "model": "Models",
}


def parameters(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values as written, without texts."""
    for key, value in given.items():
        if key in TEXTS or (not prefix and key in NAMES):
            continue
        if isinstance(value, Mapping) and value:
            yield from parameters(value, f"{prefix}{key}.")
        elif not (isinstance(value, str) and re.search(r"\s", value)):
            yield f"{prefix}{key}", value


def config(name: str) -> dict[str, Any]:
    left_out = LEFT_OUT.get(name, LEFT_OUT.get(name.partition("/")[0], ()))
    found = dict(parameters(yaml.safe_load((CONF / f"{name}.yaml").read_text("utf-8"))))
    sampling = {key: value for key, value in found.items() if key.startswith("sampling.") and value is not None}
    found = {key: value for key, value in found.items() if not key.startswith(left_out)} | sampling
    return {key.removeprefix("budget."): value for key, value in found.items()}


def tables(heading: str) -> list[list[list[str]]]:
    """The tables of a section: their header and rows, as cells."""
    text = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split(" | ")])
        elif found[-1]:
            found.append([])
    return [[rows[0], *rows[2:]] for rows in found if rows]


def value(cell: str) -> Any:
    return yaml.safe_load(cell.strip("`")) if not cell.startswith("`${") else cell.strip("`")


@pytest.mark.parametrize(("heading", "name"), SECTIONS.items())
def test_a_section_has_every_parameter_of_its_file_with_its_value(heading, name):
    expected = config(name)
    rows = tables(heading)[0][1:] if expected else []
    assert {key.strip("`"): value(cell) for key, cell, *_ in rows} == expected
    assert all(source and what for _, _, source, what in rows)


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_s_table_has_every_choice_and_parameter(group):
    names = {path.stem for path in (CONF / group).glob("*.yaml")}
    (table,) = [rows for rows in tables(GROUPS[group]) if {cell.strip("`") for cell in rows[0]} & names]
    header = [cell.strip("`") for cell in table[0]]
    assert set(header[1:-2]) == names
    for column, name in enumerate(header[1:-2], start=1):
        shown = {row[0].strip("`"): value(row[column]) for row in table[1:] if row[column]}
        assert shown == config(f"{group}/{name}"), name


def test_every_method_has_a_section_and_every_ablation_a_row_that_says_what_it_changes():
    rows = {row[0].strip("`"): row[1] for row in tables("vista")[1][1:]}
    methods = {path.stem for path in (CONF / "method").glob("*.yaml")}
    assert methods == {name.removeprefix("method/") for name in SECTIONS.values() if "method/" in name} | set(rows)
    for name, differs in rows.items():
        own = yaml.safe_load((CONF / f"method/{name}.yaml").read_text("utf-8"))
        changed = {key: value for key, value in own.items() if key not in NAMES}
        ((key, new),) = changed.items()
        assert differs.startswith(f"`{key}`: ")
        assert isinstance(new, dict) or value(differs.partition(": ")[2]) == new


def test_every_section_names_the_file_that_is_it():
    for heading in (heading for heading, name in SECTIONS.items() if name.startswith("method/")):
        text = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0].strip()
        (path,) = re.findall(r"^`([\w/]+\.py)`", text)
        assert (ROOT / path).is_file()
        target = yaml.safe_load((CONF / f"method/{heading}.yaml").read_text("utf-8"))["_target_"]
        assert f"class {target.rpartition('.')[2]}(" in (ROOT / path).read_text("utf-8")
