"""What ARC's store costs: inserts, recalls, compactions and memory at growing numbers of stored observations.

    python scripts/bench_arc_store.py [--sizes 1000 10000 100000] [--chars 4096] [--folder DIR]

Prints two tables in Markdown. Times are p50 and p99 by the clock on the wall and, in brackets, p99 of this
process's own processor time, which other work on the machine does not blur. Needs the payload twice in memory.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import random
import sqlite3
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from arcbench.arc import ArcContext, SqliteStore
from arcbench.arc.library import finish
from arcbench.arc.store import Store
from arcbench.types import Action

RECALLS = 2000
FEW = 100
AMPLE = 10**12  # tokens: nothing compacts by itself
STORES = (
    "| store | observations | insert, µs | recall, µs | unknown id, ms | 100 turns compacted, ms | bytes / payload |\n"
    "|---|--:|--:|--:|--:|--:|--:|"
)
TURNS = (
    "| turns rewritten | to citations, µs a turn | then to bare ids, µs a turn | 10 more turns beside them, ms |\n"
    "|--:|--:|--:|--:|"
)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Benchmark ARC's store and its compaction.")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="observations stored")
    parser.add_argument("--chars", type=int, default=4096, help="characters of an observation")
    parser.add_argument("--folder", type=Path, help="where the SQLite files go (default: the temporary folder)")
    args = parser.parse_args()
    if min(args.sizes) < FEW or args.chars < 1000:
        print(f"--sizes={args.sizes} --chars={args.chars}: at least {FEW} and 1000", file=sys.stderr)
        return 2
    if args.folder and not args.folder.is_dir():
        print(f"--folder={args.folder}: must be a folder", file=sys.stderr)
        return 2
    python = f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    print(f"{os.cpu_count()} cores, {python}; {args.chars:,} characters an observation\n")
    print(STORES)
    for size in args.sizes:
        row = measured(Store(), size, args.chars)
        print(f"| in memory | {size:,} | {row} | {memory_share(size, args.chars):.2f} |", flush=True)
    for size in args.sizes:
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            path = Path(folder) / "store.sqlite"
            with SqliteStore(path) as store:
                row = measured(store, size, args.chars)
            print(f"| SQLite | {size:,} | {row} | {path.stat().st_size / (size * args.chars):.2f} |", flush=True)
    print(f"\n{TURNS}")
    for size in args.sizes:
        print(f"| {size:,} | {rewriting(size, args.chars)} |", flush=True)
    return 0


def measured(store: Store, size: int, chars: int) -> str:
    """Cells of the first table: all inserts, some recalls, one unknown id, one small compaction."""
    ids = []

    def insert(i: int, body: str) -> None:
        ids.append(store.add(f"cat file{i}", body, returncode=0, step=i).id)

    inserts = timed(insert, (body_of(i, chars) for i in range(size)))
    context = ArcContext(count=guess, budget_tokens=AMPLE, store=store)
    arc: Any = context.method

    def recall(_: int, action: Action) -> None:
        arc.recalls_this_step = 0
        assert finish(arc.handle(action)).restored

    picks = random.Random(0).choices(ids, k=RECALLS)
    recalls = timed(recall, (Action("_recall", f"§{id}", f"_recall §{id}") for id in picks))
    unknown = once_ms(lambda: store.nearest("0" * len(ids[0]), arc.nearest_ids))
    talk(context, FEW, chars, "page")
    few = once_ms(lambda: finish(arc.compact("forced")))
    return f"{inserts} | {recalls} | {unknown:.1f} | {few:.1f}"


def rewriting(size: int, chars: int) -> str:
    """Cells of the second table: every turn but the recent ones is cited, then shrunk; then ten more come."""
    context = ArcContext(count=guess, budget_tokens=AMPLE)
    arc: Any = context.method
    talk(context, size, chars, "file")
    cited = once_ms(lambda: finish(arc.compact("forced")))
    arc.bench.budget = ArcContext(count=guess, budget_tokens=FEW).method.bench.budget  # all must shrink
    bare = once_ms(lambda: finish(arc.compact("overflow")))
    talk(context, 10, chars, "page")
    more = once_ms(lambda: finish(arc.compact("forced")))
    assert not arc.full_citations
    return f"{1000 * cited / size:.0f} | {1000 * bare / size:.0f} | {more:.1f}"


def memory_share(size: int, chars: int) -> float:
    """Bytes that a store in memory holds, over those of the observations' text."""
    gc.collect()
    tracemalloc.start()
    store = Store()
    for i in range(size):
        store.add(f"cat file{i}", body_of(i, chars), returncode=0, step=i)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return held / (size * chars)


def talk(context: ArcContext, turns: int, chars: int, name: str) -> None:
    """An agent reads so many files."""
    if not context.messages():
        context.add("user", "Read the files.")
    for i in range(turns):
        context.add("assistant", f"cat {name}{i}")
        context.add("user", body_of(f"{name}{i}", chars))


def body_of(seed: int | str, chars: int) -> str:
    """An observation unlike any other."""
    return random.Random(seed).randbytes(chars // 2 + 1).hex()[:chars]


def guess(message: dict[str, str]) -> int:
    """Tokens of a message, so cheaply that the counting is not what is measured."""
    return len(message["content"]) // 3 + 4


def timed(work: Callable[[int, Any], None], given: Any) -> str:
    """p50 and p99 (and p99 of processor time) of the work on each thing given, in microseconds."""
    wall, cpu = [], []
    for i, each in enumerate(given):
        started, began = time.perf_counter_ns(), time.thread_time_ns()
        work(i, each)
        cpu.append(time.thread_time_ns() - began)
        wall.append(time.perf_counter_ns() - started)
    return f"{quantile_us(wall, 0.5):.0f}, {quantile_us(wall, 0.99):.0f} ({quantile_us(cpu, 0.99):.0f})"


def quantile_us(nanoseconds: Sequence[int], at: float) -> float:
    """A quantile, in microseconds."""
    return sorted(nanoseconds)[int(at * len(nanoseconds))] / 1000


def once_ms(work: Callable[[], object]) -> float:
    """Milliseconds that it takes, once."""
    gc.collect()
    started = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
