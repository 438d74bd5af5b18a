"""The engine behind HTTP on a real vLLM server, CPU build: about two minutes, most of it the two starts."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from fakes import compose
from test_vllm import WEIGHTS, WINDOW, prompt_of, request

from arcbench.engines.server import ServerEngine
from arcbench.records import RunFolder, read_episodes
from arcbench.runner.cell import Cell, run_episodes
from arcbench.types import ConfigError

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def url():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(WEIGHTS), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--served-model-name", "small", "--max-model-len", str(WINDOW)]
    command += ["--dtype", "float32", "--enforce-eager", "--enable-prompt-tokens-details"]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        deadline = time.monotonic() + 300
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "vllm serve ended"
                assert time.monotonic() < deadline, "vllm serve did not start"
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/v1"
        server.terminate()


WORDS = ["experiment=needle_smollm2", "method=sliding_window", "harness.n_tasks=2", f"model.path={WEIGHTS}",
         "harness.profiles.strict.work_orders=2", "budget.force_at_calls=[3]", "harness.turn_limit=6",
         "engine.concurrency=1"]  # fmt: skip


def played(folder: Path, *words: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The records of a run on an engine of its own, and what the engine says of itself."""
    cell = Cell.compose(compose(*WORDS, *words) | {"run_dir": str(folder)})

    async def play() -> dict[str, Any]:
        await cell.engine.start()
        try:
            with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as run:
                await run_episodes(cell.setup(cell.engine), cell.harness.tasks(), run, cell.timeout_s, 2)
            return dict(cell.engine.describe())
        finally:
            await cell.engine.close()

    described = asyncio.run(play())
    return sorted(read_episodes(folder / "episodes.jsonl"), key=lambda record: record["task"]), described


def of_a_call(call: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key != "latency_s"}


def test_a_run_over_http_is_the_run_of_the_engine_in_this_process(url, tmp_path):
    server = ["engine=server", f"engine.url={url}", "engine.per_request_seed=false"]
    over_http, described = played(tmp_path / "server", *server)
    in_process, _ = played(tmp_path / "vllm", "engine.cpu_kv_cache_gib=1")
    assert [record["error"] for record in over_http] == [None, None]
    for ours, theirs in zip(over_http, in_process, strict=True):
        # the same greedy model: word for word, with the same counts, the same hits in the cache and the same ends
        assert [of_a_call(call) for call in ours["calls"]] == [of_a_call(call) for call in theirs["calls"]]
        assert (ours["outcome"], ours["turns"]) == (theirs["outcome"], theirs["turns"])
        assert all(call["cached_tokens"] is not None for call in ours["calls"])
    assert described["served_model"] == "small"
    assert described["server_window_tokens"] == WINDOW
    assert described["template_checked"] is True
    assert described["prompt_counts"] == "exact"


def engine_on(url: str, **changes: Any) -> ServerEngine:
    config = compose(*WORDS, "engine=server", f"engine.url={url}", "engine.per_request_seed=false")["engine"]
    arguments = {key: value for key, value in config.items() if not key.startswith("_")}
    return ServerEngine(**(arguments | changes))


def test_a_window_that_the_server_has_not_is_refused(url):
    async def start(engine: ServerEngine) -> None:
        try:
            await engine.start()
        finally:
            await engine.close()

    with pytest.raises(ConfigError, match=f"budget.window_tokens=4096: small at .* takes at most {WINDOW}"):
        asyncio.run(start(engine_on(url, window_tokens=4096)))
    with pytest.raises(ConfigError, match="engine.served_model=large: .* serves small"):
        asyncio.run(start(engine_on(url, served_model="large")))


def test_a_cell_finds_nothing_of_another_in_the_server_s_cache(url):
    async def ask() -> list[int | None]:
        engine = engine_on(url)
        hits = []
        for new_cell in (True, False, True):
            if new_cell:
                await engine.start()
            hits.append((await engine.complete(request(*prompt_of(engine, 500, "c"), max_tokens=2))).cached_tokens)
        await engine.close()
        return hits

    first, same_cell, next_cell = asyncio.run(ask())
    assert (first, next_cell) == (0, 0)
    assert same_cell > 300


def test_any_chat_server_answers_messages(url):
    async def ask() -> Any:
        config = compose(*WORDS)["model"] | {"constrain_replies": False}
        engine = engine_on(url, api="chat", model=config, served_model="small")
        await engine.start()
        try:
            return await engine.complete(request(*prompt_of(engine, 100, "a"), max_tokens=4))
        finally:
            await engine.close()

    reply = asyncio.run(ask())
    assert reply.prompt_tokens == 100  # here the estimate is exact: the server's template is ours
    assert 0 < reply.completion_tokens <= 4
