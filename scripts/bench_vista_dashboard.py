"""What VISTA's dashboard costs: milliseconds to render it, whether block sizes matter, and the tokens it takes.

    python scripts/bench_vista_dashboard.py [--blocks 10 62 120 500] [--chars 1000 100000] [--visible 8] [--repeats 50]

Prints three tables in Markdown. Times are p50 and p99 by the clock on the wall and, in brackets, p99 of this process's
own processor time, which other work on the machine does not blur. Tokens are those of the scripted model's tokenizer.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from arcbench.engines.chat import Chat, load_chat
from arcbench.types import Action, Message, Observation, Turn
from arcbench.vista.dashboard import FORMS, Dashboard, Row
from arcbench.vista.workspace import Workspace

CONF = Path(__file__).resolve().parents[1] / "conf"
TOTAL = 10**6  # tokens: nothing has to go
OVERHEAD = 1000


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description="Benchmark VISTA's dashboard.")
    parser.add_argument("--blocks", type=int, nargs="+", default=[10, 62, 120, 500], help="blocks of a workspace")
    parser.add_argument("--chars", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="characters of a result")
    parser.add_argument("--visible", type=int, default=8, help="newest blocks that are not archived")
    parser.add_argument("--repeats", type=int, default=50, help="how often each thing is timed")
    args = parser.parse_args()
    if min(args.blocks) <= args.visible or min(args.chars) < 1000 or args.visible < 1 or args.repeats < 2:
        print(
            "--blocks: more than --visible, which is at least 1; --chars: at least 1000; --repeats: at least 2",
            file=sys.stderr,
        )
        return 2
    method, chat = config("method/vista"), load_chat(config("model/scripted"))
    forms = {form: Dashboard(form=form, texts=method["status"], key="method.status") for form in FORMS}
    most = max(args.blocks)
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}; ms: p50, p99 (p99 of processor time)\n")
    print(f"| {most} blocks | rows, from cached counts | text, from cached rows | text, and its tokens counted |")
    print("|---|--:|--:|--:|")
    space = workspace(method, most, args.visible, min(args.chars))
    rows = space.rows()
    for form, dashboard in forms.items():
        listed = timed(lambda _: space.rows(), args.repeats)
        drawn = timed(lambda _, dashboard=dashboard: compose(dashboard, rows, 0, lambda message: 0), args.repeats)
        # another overhead each time, so that no count of the same text is remembered
        counted = timed(lambda i, dashboard=dashboard: compose(dashboard, rows, i, weigher(chat)), args.repeats)
        print(f"| {form} | {listed} | {drawn} | {counted} |", flush=True)
    print(f"\n| characters a result, {most} blocks | rows and text |\n|--:|--:|")
    for chars in args.chars:
        space = workspace(method, most, args.visible, chars)
        every = timed(lambda _, space=space: compose(forms["full"], space.rows(), 0, lambda message: 0), args.repeats)
        print(f"| {chars:,} | {every} |", flush=True)
    print(f"\n| blocks ({args.visible} of them visible) | {' | '.join(f'{form}, tokens' for form in FORMS)} |")
    print("|--:" * (1 + len(FORMS)) + "|")
    for blocks in args.blocks:
        rows = workspace(method, blocks, args.visible, min(args.chars), weigher(chat)).rows()[:blocks]
        sizes = [compose(dashboard, rows, 0, weigher(chat))[1] for dashboard in forms.values()]
        print(f"| {blocks} | {' | '.join(map(str, sizes))} |", flush=True)
    return 0


def config(name: str) -> Any:
    """A file of ``conf/``, as it stands."""
    return yaml.safe_load((CONF / f"{name}.yaml").read_text("utf-8"))


def workspace(
    method: Mapping[str, Any],
    blocks: int,
    visible: int,
    chars: int,
    weigh: Callable[[Message], int] = lambda message: len(message.content) // 4 + 4,
) -> Workspace:
    """At least so many blocks, of which all but the newest were archived, eight at a time."""
    space = Workspace(
        weigh=weigh,
        recoverable=True,
        preview_chars=method["preview_chars"],
        command_chars=method["command_chars"],
        texts=method["texts"],
    )
    space.begin(Message("user", "Read the files."))
    for index in range(blocks // 2):
        command, body = f"cat file{index}", (f"line {index} of the file\n" * (chars // 15 + 2))[:chars]
        reply, result = Message("assistant", f"```\n{command}\n```"), Message("user", body)
        action = Action("cat", f"file{index}", command)
        space.add(Turn(index, index + 1, reply, action, Observation(body), result, "environment"))
    last = blocks - visible
    for first in range(2, last, 8):
        space.archive(space.resolve(f"B{first}-B{min(first + 7, last)}"), f"files from {first} on")
    return space


def compose(
    dashboard: Dashboard, rows: Sequence[Row], more: int, weigh: Callable[[Message], int]
) -> tuple[Message, int]:
    """One dashboard."""
    return dashboard.compose(rows, overhead=OVERHEAD + more, total=TOTAL, weigh=weigh)


def weigher(chat: Chat) -> Callable[[Message], int]:
    """Tokens that a message adds to a prompt."""
    empty = chat.count((), thinking=False)
    return lambda message: chat.count((message,), thinking=False) - empty


def timed(work: Callable[[int], object], repeats: int) -> str:
    """p50 and p99 (and p99 of processor time) of the work, in milliseconds."""
    wall, cpu = [], []
    for i in range(repeats):
        started, began = time.perf_counter_ns(), time.thread_time_ns()
        work(i)
        cpu.append(time.thread_time_ns() - began)
        wall.append(time.perf_counter_ns() - started)
    return f"{quantile_ms(wall, 0.5):.2f}, {quantile_ms(wall, 0.99):.2f} ({quantile_ms(cpu, 0.99):.2f})"


def quantile_ms(nanoseconds: Sequence[int], at: float) -> float:
    """A quantile, in milliseconds."""
    return sorted(nanoseconds)[int(at * len(nanoseconds))] / 1e6


if __name__ == "__main__":
    sys.exit(main())
