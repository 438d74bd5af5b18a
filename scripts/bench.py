"""What the harness itself costs: ``python scripts/bench.py [--turns 128,256] [--episodes 256] [--out FILE]``.

With the mock engine, so that nothing is a model's time:

- per method and number of turns, the harness's time between one reply and the next call (p50, p99), how it grows from
  the fewer turns to the more, and the characters tokenised over those that entered the episode;
- with many episodes at once on calls of a fixed latency: wall over ideal, the event loop's lag, memory per live episode
  beside its text;
- the time to append a record, and to open a finished run with what is kept of it and without.

Every turn reads one chunk of a long document. Prints the figures and writes them as JSON. With ``--inspect PYTHON``
(one that has inspect_ai) the same number of calls is played by an inspect_ai agent too, and the ratio is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from arcbench.engines.chat import Chat, Tokenizer
from arcbench.engines.mock import MockEngine
from arcbench.episode import play
from arcbench.provenance import git_state, versions
from arcbench.records import EPISODES, RunFolder
from arcbench.runner.cell import Cell
from arcbench.runner.overrides import composed
from arcbench.types import Reply, Request
from harness.longbench_rows import COLUMNS

METHODS = "full_context,sliding_window,llm_summary,structured_state,rag_memory,arc,arc_paged,arc_select,vista"
DELAY_S = 0.05
LAG_S = 0.01
CHUNK_CHARS = 2000
TARGETS = {"p50_ms": 1.0, "p99_ms": 5.0, "growth": 2.3, "kb_per_episode": 400.0}


def main() -> int:
    """Print and write the figures."""
    parser = argparse.ArgumentParser(description="What the harness itself costs.")
    parser.add_argument("--methods", default=METHODS, help="whose calls are timed")
    parser.add_argument("--turns", default="128,256", help="two numbers of turns")
    parser.add_argument("--episodes", type=int, default=256, help="how many at once")
    parser.add_argument("--out", type=Path, default=Path("results/bench/latest.json"), help="file with all figures")
    parser.add_argument("--inspect", metavar="PYTHON", help="a Python that has inspect_ai: the same calls by its agent")
    args = parser.parse_args()
    fewer, more = sorted(int(turns) for turns in args.turns.split(","))
    found: dict[str, Any] = {
        "machine": {"cpus": os.cpu_count(), "system": platform.platform()}, "git": git_state(), "versions": versions(),
        "calls": {},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        document = made(Path(folder))
        print(f"{'method':18} {'turns':>6} {'p50 ms':>8} {'p99 ms':>8} {'growth':>7} {'tokenised':>10}")
        for method in args.methods.split(","):
            rows = [calls_of(cell_of(document, method, turns, window=10**6 if method == "full_context" else 16384))
                    for turns in (fewer, more)]  # fmt: skip
            growth = rows[1]["total_s"] / rows[0]["total_s"]
            found["calls"][method] = {fewer: rows[0], more: rows[1], "growth": growth}
            for turns, row in zip((fewer, more), rows, strict=True):
                print(
                    f"{method:18} {turns:6} {row['p50_ms']:8.3f} {row['p99_ms']:8.3f} "
                    f"{growth if turns == more else float('nan'):7.2f} {row['tokenised']:10.2f}"
                )
        found["at_once"] = at_once(document, args.episodes)
        found["log"] = log_of(document, Path(folder))
        if args.inspect:
            found["inspect_ai"] = beside_inspect(args.inspect, fewer, document)
    for name in ("at_once", "log", "inspect_ai"):
        if name in found:
            print(f"{name}: " + ", ".join(f"{key} {value:.4g}" for key, value in found[name].items()))
    missed = list(misses(found, more))
    print("targets missed: " + ("; ".join(missed) or "none"))
    found["missed"] = missed
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
    print(f"wrote {args.out}")
    return 0


def misses(found: dict[str, Any], turns: int) -> Any:
    """Figures that are above their target."""
    for method, rows in found["calls"].items():
        for key in ("p50_ms", "p99_ms"):
            if rows[turns][key] > TARGETS[key]:
                yield f"{method} {key} {rows[turns][key]:.2f} > {TARGETS[key]}"
        if rows["growth"] > TARGETS["growth"]:
            yield f"{method} growth {rows['growth']:.2f} > {TARGETS['growth']}"
    if found["at_once"]["kb_per_episode"] > TARGETS["kb_per_episode"]:
        yield f"kb_per_episode {found['at_once']['kb_per_episode']:.0f} > {TARGETS['kb_per_episode']:.0f}"


# ------------------------------------------------------------------------------------------ set-up


def made(folder: Path) -> Path:
    """A file with one question on a document whose chunks all differ."""
    lines = (f"{i}: the {i * 7919 % 100003}th line is about {i * 104729 % 99991} ferries." for i in range(40000))
    row = dict.fromkeys(COLUMNS, "x") | {
        "_id": "bench", "domain": "Single-Document QA", "sub_domain": "x", "difficulty": "hard", "length": "long",
        "question": "Which?", "answer": "A", "context": "\n".join(lines),
        **{f"choice_{letter}": f"choice {letter}" for letter in "ABCD"},
    }  # fmt: skip
    path = folder / "rows.jsonl"
    path.write_bytes(orjson.dumps(row) + b"\n")
    return path


def cell_of(document: Path, method: str, turns: int, *, window: int, delay_s: float = 0.0, at_once: int = 1) -> Cell:
    """One method on the document, with so many turns."""
    overrides = [
        f"method={method}", "harness=longbench_v2_hard", f"harness.data_files={document}", "engine=mock",
        "engine.command=chunk 1", f"engine.delay_s={delay_s}", f"engine.concurrency={at_once}",
        f"harness.deliveries.files.turn_limit={turns}", f"harness.deliveries.files.call_limit={4 * turns}",
        f"harness.chunk_chars={CHUNK_CHARS}",
        "budget.force_at_calls=[]", f"budget.window_tokens={window}", f"budget.presentation_limit_chars={CHUNK_CHARS}",
    ]  # fmt: skip
    return Cell.compose(dict(composed(overrides)))


class Counted:
    """A tokenizer that counts the characters it is given."""

    def __init__(self, own: Tokenizer) -> None:
        self.name, self.sha256, self.special, self.starts = own.name, own.sha256, own.special, own.starts
        self._plain = own.plain
        self.chars = 0

    def plain(self, text: str) -> Any:
        """Ids of a text."""
        self.chars += len(text)
        return self._plain(text)


class Timed(MockEngine):
    """The mock engine, asking for one chunk after the other, with the times at which calls came and went."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.gaps: list[float] = []
        self._left: float | None = None
        self._turn = 0
        self.tokenizer = Counted(self.chat.tokenizer)
        self.chat = Chat(format=self.chat.format, tokenizer=self.tokenizer)  # which has counted nothing yet

    async def complete(self, request: Request) -> Reply:
        """The next chunk's command."""
        now = time.perf_counter()
        if self._left is not None:
            self.gaps.append(now - self._left)
        reply = await super().complete(request)
        if request.billed == "agent":
            self._turn += 1
            text = reply.text.replace("chunk 1", f"chunk {self._turn}")
            reply = Reply(text, "stop", reply.prompt_tokens, reply.completion_tokens, None, 0.0)
        self._left = time.perf_counter()
        return reply


def timed(cell: Cell) -> Timed:
    """The engine of a cell, timed."""
    return Timed(**{key: value for key, value in cell.config["engine"].items() if not key.startswith("_")})


# ------------------------------------------------------------------------------------------ figures


def calls_of(cell: Cell) -> dict[str, float]:
    """The harness's time per call of one episode, after one for warmth."""
    (task,) = cell.harness.tasks()
    asyncio.run(play(task, cell.setup(timed(cell))))
    engine = timed(cell)
    gc.collect()
    started = time.perf_counter()
    record = asyncio.run(play(task, cell.setup(engine)))
    total = time.perf_counter() - started
    if record["error"]:
        raise SystemExit(f"bench: {record['error']}")
    gaps = sorted(engine.gaps)
    return {
        "calls": len(gaps) + 1,
        "p50_ms": 1000 * statistics.median(gaps),
        "p99_ms": 1000 * gaps[min(len(gaps) - 1, int(0.99 * len(gaps)))],
        "total_s": total,
        "tokenised": engine.tokenizer.chars / chars_of(record),
    }


def chars_of(record: dict[str, Any]) -> int:
    """Characters of all messages of an episode, those that its record has as spans of the document too."""
    messages = record["messages"]
    spans = (part for message in messages for part in message.get("parts", ()) if isinstance(part, list))
    return sum(len(message.get("content") or "") for message in messages) + sum(end - start for start, end in spans)


def at_once(document: Path, episodes: int) -> dict[str, float]:
    """Many episodes of ARC on calls of a fixed latency."""
    turns = 32
    cell = cell_of(document, "arc", turns, window=16384, delay_s=DELAY_S, at_once=episodes)
    (task,) = cell.harness.tasks()
    lags: list[float] = []
    held: list[int] = []

    async def watch() -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(LAG_S)
            lags.append(time.perf_counter() - started - LAG_S)
            held.append(resident_bytes())

    async def run() -> list[dict[str, Any]]:
        watcher = asyncio.create_task(watch())
        setup = cell.setup(timed(cell))
        many = [replace(task, id=f"{task.id}/{i}", seed=i, index=i) for i in range(episodes)]
        records = await asyncio.gather(*(play(each, setup) for each in many))
        watcher.cancel()
        return records

    gc.collect()
    before = resident_bytes()
    started = time.perf_counter()
    records = asyncio.run(run())
    wall = time.perf_counter() - started
    calls = max(len(record["calls"]) for record in records)
    text = sum(map(chars_of, records))
    lags.sort()
    return {
        "episodes": episodes,
        "wall_s": wall,
        "wall_over_ideal": wall / (calls * DELAY_S),
        "lag_p50_ms": 1000 * statistics.median(lags),
        "lag_p99_ms": 1000 * lags[int(0.99 * len(lags))],
        "kb_per_episode": max(0.0, (max(held) - before - text) / episodes / 1024),
    }


def log_of(document: Path, folder: Path) -> dict[str, float]:
    """Appending a record, and opening a run of a thousand of them."""
    cell = cell_of(document, "arc", 32, window=16384)
    (task,) = cell.harness.tasks()
    record = asyncio.run(play(task, cell.setup(timed(cell))))
    run, ignored = folder / "run", cell.config["digest_ignores"]
    appended = []
    with RunFolder(run, cell.config, ignored) as log:
        for i in range(1000):
            started = time.perf_counter()
            log.append(record | {"task": f"task/{i}", "outcome": "wrong"})
            appended.append(time.perf_counter() - started)

    def opened() -> float:
        started = time.perf_counter()
        with RunFolder(run, cell.config, ignored) as log:
            if len(log.finished) != 1000:
                raise SystemExit("bench: records were lost")
        return time.perf_counter() - started

    kept = opened()
    (run / ".done.json").unlink()
    return {
        "record_kb": (run / EPISODES).stat().st_size / 1000 / 1024,
        "append_ms": 1000 * statistics.median(appended),
        "open_kept_ms": 1000 * kept,
        "open_read_ms": 1000 * opened(),
    }


def resident_bytes() -> int:
    """Memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def beside_inspect(python: str, turns: int, document: Path) -> dict[str, float]:
    """The same number of calls with observations of the same size: an inspect_ai agent's time a call, and this one's
    with the method that is nearest to each of its strategies."""
    found: dict[str, float] = {}
    for name, method, more in (("plain", "full_context", ()), ("trim", "sliding_window", ("trim",))):
        ours = calls_of(cell_of(document, method, turns, window=10**6 if method == "full_context" else 16384))
        own = 1000 * ours["total_s"] / ours["calls"]
        command = [python, str(Path(__file__).with_name("bench_inspect.py")), str(turns), str(CHUNK_CHARS), *more]
        done = subprocess.run(command, capture_output=True, text=True, cwd=document.parent)
        if done.returncode:
            raise SystemExit(f"bench: {python}: {done.stderr.strip().splitlines()[-1:]}")
        theirs = float(json.loads(done.stdout.splitlines()[-1]))
        found |= {f"{name}_ours_ms": own, f"{name}_inspect_ms": theirs, f"{name}_ratio": theirs / own}
    return found


if __name__ == "__main__":
    sys.exit(main())
