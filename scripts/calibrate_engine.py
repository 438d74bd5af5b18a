"""Measures what an engine reaches of its device: effective peak and bandwidth, as a file for ``analysis.measured``.

    python scripts/calibrate_engine.py --out results/bench/hardware.yaml engine=vllm model=smollm2-135m budget=tiny ...

The arguments are those of ``python -m arcbench``. Prompts of distinct words, so that no prefix is shared, are sent with
one token to generate (prefill), then short ones with many (decode), as many at once as the engine runs. Effective peak
is FLOP over seconds of the first; effective bandwidth is the roofline's bytes over seconds of the second, less its
prefill. Times are wall clock, after one round that is thrown away.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from analysis.roofline import Roofline, Switches
from analysis.roofline_facts import BYTES, Hardware, ModelFacts
from arcbench.runner.building import make_engine
from arcbench.types import ConfigError, Engine, EngineError, Message, Reply, Request

ROUNDS = 3
DECODE_TOKENS = 64
SHORT_TOKENS = 32


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file; 2 with one line for bad input."""
    parser = argparse.ArgumentParser(description="What an engine reaches of its device.")
    parser.add_argument("--out", type=Path, default=Path("results/bench/hardware.yaml"), help="file to write")
    args, overrides = parser.parse_known_args(argv)
    try:
        engine, config = make_engine(overrides)
        found = asyncio.run(measure(engine, config))
    except (ConfigError, EngineError) as fault:
        print(f"calibrate_engine: {fault}", file=sys.stderr)
        return 2
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(yaml.safe_dump(found, sort_keys=False), "utf-8")
    print(f"wrote {args.out}: " + ", ".join(f"{key} {value}" for key, value in found.items()))
    return 0


async def measure(engine: Engine, config: dict[str, Any] | Any) -> dict[str, Any]:
    """A device as ``conf/hardware`` has it, with what this engine reaches."""
    model = config["model"]
    facts = ModelFacts.read(model["id"])
    width = BYTES[model["dtype"]]
    await engine.start()
    try:
        device = str(engine.describe().get("device"))
        room = config["budget"]["window_tokens"] - config["budget"]["completion_tokens"]
        empty = engine.count((Message("user", ""),), thinking=False)
        long_s, long_replies = await rounds(engine, tokens=room - empty - 1, max_tokens=1)
        decode = min(DECODE_TOKENS, config["budget"]["completion_tokens"])
        short_s, short_replies = await rounds(engine, tokens=SHORT_TOKENS, max_tokens=decode)
    finally:
        await engine.close()
    # what is known of the device is what is asked of it; any memory is enough for as many sequences as the engine runs
    made_up = Hardware(
        id="calibrated", device=device, hbm_bytes=1e15, bandwidth_bytes_per_s=1, peak_flop_per_s=1, source="made up"
    )
    switches = Switches.read(weight_bytes_per_parameter=width, kv_bytes_per_element=width)
    roofline = Roofline(model=facts, hardware=made_up, switches=switches)
    peak = _sum(long_replies, "prompt_tokens") * roofline.flop_per_prompt_token / long_s
    decode_s = short_s - _sum(short_replies, "prompt_tokens") * roofline.flop_per_prompt_token / peak
    if decode_s <= 0:
        raise ConfigError(f"decoding took {short_s:.2f} s, no longer than its prefill; give a larger model or budget")
    batch = min(engine.concurrency, len(short_replies) // ROUNDS)
    read = sum(
        float(
            roofline.decode_bytes(
                decode_tokens=reply.completion_tokens,
                context_tokens=reply.prompt_tokens + (reply.completion_tokens - 1) / 2,
                batch=batch,
            )
        )
        for reply in short_replies
    )
    return {
        "id": "calibrated",
        "device": device,
        "hbm_bytes": roofline.weight_bytes + batch * config["budget"]["window_tokens"] * roofline.kv_bytes_per_token,
        "bandwidth_bytes_per_s": read / decode_s,
        "peak_flop_per_s": peak,
        "source": f"scripts/calibrate_engine.py: {model['id']}, {model['dtype']}, {batch} sequences at once",
    }


async def rounds(engine: Engine, *, tokens: int, max_tokens: int) -> tuple[float, list[Reply]]:
    """Seconds and replies of a few rounds of as many prompts at once as the engine runs, after one for warmth."""
    draw = random.Random(tokens)
    replies: list[Reply] = []
    spent = 0.0
    for turn in range(ROUNDS + 1):
        requests = [request(engine, draw, tokens, max_tokens, seed) for seed in range(engine.concurrency)]
        started = time.perf_counter()
        answered = await asyncio.gather(*map(engine.complete, requests))
        if turn:
            spent += time.perf_counter() - started
            replies += answered
    return spent, replies


def request(engine: Engine, draw: random.Random, tokens: int, max_tokens: int, seed: int) -> Request:
    """A prompt of random digits of about so many tokens, never more, which shares no prefix with another."""
    text = engine.pieces(" ".join(str(draw.randrange(10**6)) for _ in range(tokens)), tokens)[0]
    return Request(
        messages=(Message("user", text),),
        max_tokens=max_tokens,
        thinking=False,
        episode="calibrate",
        number=1,
        seed=seed,
    )


def _sum(replies: Sequence[Reply], key: str) -> int:
    return sum(getattr(reply, key) for reply in replies)


if __name__ == "__main__":
    sys.exit(main())
