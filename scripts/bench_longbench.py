"""What LongBench-v2 costs the harness: loading, memory, file commands on the largest document, replayed pages.

    python scripts/bench_longbench.py [--data FILE.jsonl[.xz]] [--repeat 5] [--methods arc,rag_memory]

Without ``--data`` it makes a document of 3.6 million characters itself. Times are wall clock on this machine; a file
command's is the median after the first. Replays are made with the scripted engine: documents of growing length, made
here, show what a page costs when many pages have been seen; with ``--data`` all rows follow.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from tqdm import tqdm

from arcbench.episode import play
from arcbench.runner import overrides
from arcbench.runner.cell import Cell
from arcbench.types import Action, ConfigError
from harness.longbench_rows import COLUMNS, Row
from harness.longbench_v2 import LongBench

GROWING_CHARS = (225_000, 450_000, 900_000, 1_800_000)
MADE_CHARS = 3_600_000
COMMANDS = (
    "chunk 300",
    "head document.txt",
    "tail -c 2000 document.txt",
    "sed -n 40000,40060p document.txt",
    "wc document.txt",
    "grep -n Queequeg document.txt",
    "grep -n the document.txt",
    "grep -i -c power document.txt",
    "grep 'pow.*law' document.txt",
    "grep -E -c 'Ishmael|Queequeg' document.txt",
    "grep -i -E -c 'ishmael|queequeg' document.txt",
)


def main() -> int:
    """Print the figures; 2 with one line for bad input."""
    parser = argparse.ArgumentParser(description="What LongBench-v2 costs the harness.")
    parser.add_argument("--data", help="rows to load; without it one document is made")
    parser.add_argument("--repeat", type=int, default=5, help="times that each file command is timed")
    parser.add_argument("--methods", default="arc,rag_memory", help="whose replays are timed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            measure(args.data or made(Path(folder), MADE_CHARS), args.repeat)
            for method in args.methods.split(","):
                growing(Path(folder), method)
                if args.data:
                    replayed(args.data, method)
        except ConfigError as fault:
            print(f"bench_longbench: {fault}", file=sys.stderr)
            return 2
    return 0


def measure(data: str, repeat: int) -> None:
    """Load, then time what an episode asks of the harness."""
    before = resident_mb()
    seconds, harness = timed(make, data, "files")
    rows = harness.rows.hard
    text_mb = sum(len(context) for context in {row.context_sha256: row.context for row in rows}.values()) / 1e6
    held = resident_mb() - before
    print(f"rows {len(rows)} of {harness.rows.read} read, {sum(row.chars for row in rows):,} characters")
    print(f"load {seconds:.2f} s; memory {held:.0f} MB for {text_mb:.0f} MB of text ({held / text_mb:.2f} x)")
    again, _ = timed(make, data, "files")
    print(f"a second harness in the same process {again * 1000:.1f} ms")
    seconds, tasks = timed(harness.tasks)
    print(f"{len(tasks)} tasks {seconds * 1000:.0f} ms")
    largest = max(rows, key=lambda row: row.chars)
    commands(harness, largest, repeat)
    pages(make(data, "replay"), largest)


def commands(harness: LongBench, row: Row, repeat: int) -> None:
    """Each file command on one document: the first time, and the median of the others."""
    print(f"file commands on {row.chars:,} characters, {row.lines:,} lines: ms at first, then")
    environment = harness.open(harness.task(row))
    for command in COMMANDS:
        name, _, argument = command.partition(" ")
        action = Action(name, argument, command)
        first, *others = [timed(environment.answer, action, {})[0] * 1000 for _ in range(repeat + 1)]
        print(f"  {first:8.2f} {statistics.median(others):8.2f}  {command}")


def pages(harness: LongBench, row: Row) -> None:
    """The history of one task, and its pages packed for the record: time of a page, early ones against late ones."""
    history = harness.task(row).history
    seconds, turns = timed(list, history)
    print(f"{len(turns)} turns of history {seconds / len(turns) * 1e6:.0f} us each")
    quotes = harness.quotes(harness.task(row).facts)
    assert quotes
    shown = [f"{turn.observation.note}\n{turn.observation.text}" for turn in turns]
    each = [timed(quotes.pack, text)[0] for text in shown]
    third = max(1, len(each) // 3)
    early, late = statistics.median(each[:third]), statistics.median(each[-third:])
    print(f"packing a page {early * 1e6:.0f} us in the first third, {late * 1e6:.0f} us in the last")


def growing(folder: Path, method: str) -> None:
    """What a page costs in ever longer documents."""
    for chars in GROWING_CHARS:
        harness, cell = composed(made(folder, chars), "replay", method)
        (task,) = harness.tasks()
        seconds, _ = timed(asyncio.run, play(task, cell.setup(cell.engine)))
        pages = len(task.history) - 1
        print(f"{method}: {pages} pages replayed, {1000 * seconds / pages:.2f} ms a page")


def replayed(data: str, method: str) -> None:
    """All rows of a file, one after the other."""
    harness, cell = composed(data, "replay", method)
    tasks = harness.tasks()
    setup = cell.setup(cell.engine)

    async def all_of_them() -> int:
        pages = 0
        for task in tqdm(tasks, desc=method, unit="ep"):
            record = await play(task, setup)
            pages += sum(turn["call"] is None for turn in record["turns"])
        return pages

    seconds, pages = timed(asyncio.run, all_of_them())
    print(f"{method}: {len(tasks)} documents, {pages} pages in {seconds:.0f} s, {1000 * seconds / pages:.2f} ms a page")


def make(data: str, delivery: str) -> LongBench:
    """The shipped harness on these rows."""
    return composed(data, delivery, "full_context")[0]


def composed(data: str, delivery: str, method: str) -> tuple[LongBench, Cell]:
    """The shipped harness on these rows, and its cell."""
    words = [
        "harness=longbench_v2_hard",
        f"harness.delivery={delivery}",
        f"method={method}",
        "budget.force_at_calls=[]",
    ]
    cell = Cell.compose(overrides.composed([*words, f"harness.data_files='{data}'"]))
    assert isinstance(cell.harness, LongBench)
    return cell.harness, cell


def made(folder: Path, least_chars: int) -> str:
    """A file with one row, a long document of different lines."""
    lines: list[str] = []
    chars = 0
    while chars < least_chars:
        i = len(lines)
        lines.append(f"{i}: the law of power number {i * 7919 % 104729} was read aloud")
        chars += len(lines[-1]) + 1
    row = dict.fromkeys(COLUMNS, "text") | {"difficulty": "hard", "length": "long", "answer": "A"}
    path = folder / f"made{least_chars}.jsonl"
    path.write_bytes(orjson.dumps(row | {"context": "\n".join(lines)}))
    return str(path)


def timed(act: Callable[..., Any], *values: Any) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    start = time.perf_counter()
    result = act(*values)
    return time.perf_counter() - start, result


def resident_mb() -> float:
    """Resident memory of this process (Linux)."""
    pages_used = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages_used * 4096 / 1e6


if __name__ == "__main__":
    sys.exit(main())
