"""What the tests of the perception probe share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from bench import budget
from fakes import FakeEngine, conf, played, setup, task

from analysis import probe, snapshots
from analysis.probe import Asked, Question, Settings
from analysis.snapshots import Block, Found, Snapshot
from arcbench.records import Run
from arcbench.types import Json

COMMITTED = Path(__file__).parents[1] / "conf/perception/probe.yaml"
TABLE5 = Path(__file__).parents[2] / "shared/paper/vista_table05.csv"
SMALL = ("budget=tiny", "budget.window_tokens=4096", "budget.force_at_calls=[10]", "recall=4k_2k",
         "harness.n_tasks=2", "harness.noise=words", "harness.noise_lines_per_side=5")  # fmt: skip
OMITTED = snapshots.left_out(conf("config")["rules"]["omitted"])


def settings(**changes: Any) -> Settings:
    return Settings(**yaml.safe_load(COMMITTED.read_text("utf-8")) | changes)


def asked(engine: FakeEngine) -> Asked:
    return Asked(engine=engine, model="fake", window_tokens=engine.window, identity="fake", temperature=0.0)


def shape(blocks: tuple[Block, ...]) -> list[tuple[str, str, int, str | None]]:
    return [(block.id, block.type, block.root, block.parent) for block in blocks]


def snapshot(*sizes: int) -> Snapshot:
    """Blocks of so many words: the task, then replies and their answers in turn."""
    blocks = [Block("B1", "user_message", "w " * sizes[0], 0, None)]
    for number, size in enumerate(sizes[1:], start=2):
        reply = number % 2 == 0
        parent = None if reply else f"B{number - 1}"
        text = f"{'r' if reply else 'a'} " * size
        blocks.append(Block(f"B{number}", "assistant_message" if reply else "tool_result", text, number // 2, parent))
    return Snapshot("snap", "runs/x", "fake/0", tuple(blocks))


EIGHT = snapshot(5, 3, 7, 3, 40, 3, 12, 2)


def asks_of(found: Snapshot, **changes: Any) -> tuple[Snapshot, list[Question], str]:
    window = changes.pop("window", 10_000)
    return probe.fitted(found, asked(FakeEngine([], window=window)), settings(**changes))


def record(method: Any, *said: str, calls: tuple[int, ...] = (), window: int = 2000) -> dict[str, Json]:
    """An episode in which the agent says this; compactions are forced at these calls."""
    engine = FakeEngine(list(said), window=window)
    return played(task(), setup(engine, method, budget(window, 20, force_at_calls=calls)))


def collected(runs: Iterator[Run], **changes: Any) -> dict[str, Found]:
    """The snapshots of these runs, under the committed settings but for the changes."""
    numbers = settings(**changes)
    return snapshots.collect(runs, blocks_least=numbers.blocks_least, ends_at=numbers.ends_at)
