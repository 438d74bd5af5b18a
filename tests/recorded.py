"""Run folders: made of letters, for tables whose cells are worked out by hand; or played."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fakes import compose

from arcbench.records import CALL_COLUMNS, NEEDED, RUN_COLUMNS, RunFolder
from arcbench.runner.cell import Cell, run_episodes

OUTCOMES = {"c": ("correct", None), "w": ("wrong", None), "n": ("no_answer", "turn_limit"), "e": ("error", None)}


def record_run(
    root: Path, outcomes: str, *, seed: int = 42, planned: int | None = None, tasks: str | None = None, **fields: Any
) -> Path:
    """One run folder from letters: c(orrect), w(rong), n(o answer), e(rror); ``tasks`` gives each task a letter of its
    own, the same under every seed (without it tasks are those of the seed); ``documents`` the same for documents,
    ``config`` is more of the resolved config, by group, ``calls`` the (prompt tokens, reply tokens) of every episode's
    calls, or by letter, ``record`` is more of every record, and ``task_seed`` is the one in the records, where it is
    not the run's."""
    more: dict[str, Any] = fields.pop("config", {})
    played, of_record = fields.pop("calls", ()), fields.pop("record", {})
    documents, task_seed = fields.pop("documents", None), fields.pop("task_seed", seed)
    model = {"sampling": {"no_thinking": {"temperature": fields.pop("temperature", 0.7)}}}
    manifest = dict.fromkeys(RUN_COLUMNS[1:], "x") | {
        "protocol": 1, "harness": "needle", "engine": "vllm", "model": "qwen3-8b", "method": "arc", "variant": None,
        "seed": seed, "planned": planned if planned is not None else len(outcomes),
    } | fields  # fmt: skip
    config: dict[str, Any] = {
        "method": {"id": manifest["method"]},
        "seed": seed,
        "budget": {"window_tokens": 16384},
        "model": model,
    }
    for group, values in more.items():
        config[group] = config.get(group, {}) | values
    with RunFolder(root / manifest["method"] / str(seed), config, ignored=()) as folder:
        folder.write_manifest(manifest)
        for i, letter in enumerate(outcomes):
            outcome, reason = OUTCOMES[letter]
            name = f"needle/{seed}/{i}" if tasks is None else f"task/{tasks[i]}"
            facts = {"context_sha256": documents[i]} if documents else {}
            record = {"task": name, "seed": task_seed, "index": i, "outcome": outcome, "reason": reason, "facts": facts}
            calls = calls_of(played[letter] if isinstance(played, dict) else played)
            folder.append(dict.fromkeys(NEEDED, ()) | {"calls": calls} | record | of_record)
    return root / manifest["method"]


def calls_of(played: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Calls of an episode: prompt tokens, reply tokens, who is billed (the agent), cached tokens (not recorded), the
    messages by their indices."""
    return [
        dict.fromkeys(CALL_COLUMNS)
        | {"number": number, "prompt_tokens": prompt, "completion_tokens": reply}
        | {"billed": more[0] if more else "agent", "cached_tokens": more[1] if len(more) > 1 else None}
        | {"messages": more[2] if len(more) > 2 else (), "latency_s": 0.5}
        for number, (prompt, reply, *more) in enumerate(played, start=1)
    ]


def cell_run(folder: Path, *words: str) -> Path:
    """A cell of real tasks, played: its run folder."""
    cell = Cell.compose(compose(*words, f"results_dir={folder}"))
    with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as run_folder:
        tasks = cell.harness.tasks()
        run_folder.write_manifest(cell.manifest({}, cell.engine, len(tasks)))
        asyncio.run(run_episodes(cell.setup(cell.engine), tasks, run_folder, cell.timeout_s, len(tasks)))
    return cell.run_dir
