"""docs/protocol.md and docs/statistics.md against the config, the types and the functions that they name."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from fakes import compose

from arcbench.records import flatten
from arcbench.types import NoAnswer

ROOT = Path(__file__).resolve().parent.parent
PROTOCOL = (ROOT / "docs/protocol.md").read_text("utf-8")
STATISTICS = (ROOT / "docs/statistics.md").read_text("utf-8")
METHODS = sorted(path.stem for path in (ROOT / "conf/method").glob("*.yaml"))


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def rows(text: str) -> list[list[str]]:
    lines = [line.strip("|") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in re.split(r"(?<!\\) \| | \|$", line + " ")] for line in lines]


@pytest.fixture(scope="module")
def keys() -> set[str]:
    """Every dotted key, and every group of keys, of the shipped harnesses, methods and models."""
    found: set[str] = set()
    for words in (
        *([f"method={name}"] for name in METHODS),
        ["harness=longbench_v2_hard"],
        ["model=qwen3-8b", "engine=vllm"],
    ):
        config = compose(*words)
        found |= set(flatten(config))
        found |= {f"{group}.{key}" for group, its in config.items() if isinstance(its, dict) for key in its}
    return found | set(compose())


def test_every_key_that_the_protocol_names_exists(keys):
    named = set(re.findall(r"`((?:budget|harness|method|rules|model)\.[a-z_.]+)`", PROTOCOL))
    assert len(named) > 25
    assert named <= keys, named - keys
    last = [row[-1] for row in rows(section(PROTOCOL, "What the papers leave open"))[1:]]
    for cell in last:
        for key in re.findall(r"`([^`]+)`", cell):
            assert key in keys or (ROOT / key).is_file(), key


@pytest.mark.parametrize(
    ("words", "key", "said"),
    [
        ([], "budget.keep_recent_turns", "3 turns, in at most a quarter"),
        ([], "budget.compact_to_share", "to 0.6 of the usable window"),
        ([], "budget.keep_verbatim_chars", "500 for all"),
        ([], "budget.presentation_limit_chars", "8,000 characters"),
        ([], "method.preview_chars", "120 characters an end"),
        ([], "method.thought_chars", "200 of a thought"),
        ([], "budget.needle.page_chars", "a page of 3,650"),
        (["method=llm_summary"], "method.summary_max_tokens", "512 tokens"),
        (["method=rag_memory"], "method.top_k", "4 of 800 characters"),
        (["method=rag_memory"], "method.chunk_chars", "4 of 800 characters"),
        ([], "harness.turn_limit", "26 commands"),
        ([], "harness.call_limit", "60 calls"),
        ([], "rules.malformed_limit", "three in a row"),
        (["method=vista"], "method.overflow_calls", "after two calls the guard does"),
        ([], "seed", "not named | 42 |"),
    ],
)  # fmt: skip
def test_numbers_in_the_text_are_the_config_s(words, key, said):
    assert said in PROTOCOL
    value = flatten(compose(*words))[key]
    written = {"3": "3|three", "2": "2|two", "0.25": "quarter"}.get(str(value), f"{value:,}" if value != 0.6 else "0.6")
    assert re.search(rf"(?<![\d.])({written})(?![\d.]\d)", said), (value, said)


def test_the_reasons_are_those_of_the_types():
    reasons = [row[0].strip("`") for row in rows(section(PROTOCOL, "How it ends")) if row[0].startswith("`")]
    assert set(reasons) == {"correct`, `wrong", "no_answer", "error", *get_args(NoAnswer)}


def test_the_profiles_are_the_harness_s():
    profiles = yaml.safe_load((ROOT / "conf/harness/needle.yaml").read_text("utf-8"))["profiles"]
    told = {
        row[0].strip("`"): row[1:] for row in rows(section(PROTOCOL, "The needle task")) if row[0][1:-1] in profiles
    }
    assert set(told) == set(profiles)
    for name, (file, orders, early) in told.items():
        its = profiles[name]
        assert file == ("opens again and again" if its["rereadable"] else "opens once")
        assert orders == (str(its["work_orders"]) if isinstance(its["work_orders"], int) else "2 to 6")
        assert early.startswith({"refused": "refused", "ends": "ends"}[its["submit_early"]])


def test_the_deliveries_are_the_harness_s():
    its = yaml.safe_load((ROOT / "conf/harness/longbench_v2_hard.yaml").read_text("utf-8"))
    text = section(PROTOCOL, "LongBench-v2 hard")
    for name in (*its["deliveries"], *its["single"]):
        assert f"`{name}`" in text, name


# ------------------------------------------------------------------------------------------ statistics


def test_every_function_and_module_that_is_named_exists():
    named = set(re.findall(r"`(analysis(?:\.\w+)+)`", STATISTICS)) | set(
        re.findall(r"python -m (analysis\.\w+)", STATISTICS)
    )
    assert len(named) > 15
    for name in named:
        made: Any = importlib.import_module(".".join(name.split(".")[:2]))
        for part in name.split(".")[2:]:
            made = getattr(made, part)


def test_every_number_that_is_named_is_that_of_the_file():
    found: dict[str, set[Any]] = {}
    for path in (ROOT / "conf/statistics").glob("*.yaml"):
        assert f"conf/statistics/{path.name}" in STATISTICS or path.stem == "paired"
        for key, value in yaml.safe_load(path.read_text("utf-8")).items():
            found.setdefault(key, set()).add(value if not isinstance(value, list) else tuple(value))
    named = re.findall(r"`(\w+)` (\d[\d.]*\d)", STATISTICS)
    assert {key for key, _ in named} == {"resamples", "level", "power", "alpha", "n_tasks", "n_simulations"}
    for key, number in named:
        assert float(number) in found[key], (key, number)


def test_every_paired_test_is_told():
    from analysis import paired, paired_effect

    tests = {
        "chi_square",
        "exact_one_sided",
        "exact_two_sided",
        "mid_p",
        "durkalski",
        "obuchowski",
        "sign_flip",
        "holm",
    }
    assert tests <= set(vars(paired))
    effects = {"odds_ratio", "seed_odds", "newcombe", "tango", "cluster_bootstrap", "smallest_difference"}
    assert effects <= set(vars(paired_effect))
    for name in tests | effects:
        assert re.search(rf"`analysis\.paired(_effect)?\.{name}`", STATISTICS), name
