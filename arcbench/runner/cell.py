"""One cell: a method on a harness with an engine, model, budget and seed; its episodes, its manifest, its summary."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tqdm import tqdm

from arcbench.checks import above
from arcbench.episode import Bench, Setup, failed, play, system_prompt
from arcbench.progress import Finished
from arcbench.provenance import git_state, machine, versions
from arcbench.records import RunError, RunFolder, digest
from arcbench.runner.building import build, check_budget, check_root, check_rules, factory, one_line
from arcbench.types import Budget, ConfigError, Engine, Harness, Json, MethodFactory, Rules, Task


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One method on one harness with one engine, model, budget and seed."""

    config: Mapping[str, Json]
    harness: Harness
    engine: Engine
    """Not started: no model is loaded."""
    make_method: MethodFactory
    budget: Budget
    rules: Rules
    run_dir: Path
    digest: str
    timeout_s: float

    @classmethod
    def compose(cls, config: dict[str, Json]) -> Cell:
        """Check a resolved config and build what needs no model. Raises :class:`ConfigError`."""
        with one_line("config"):
            check_root(config)
            cell = cls(
                config=config,
                harness=build(config["harness"]),
                engine=build(config["engine"]),
                make_method=factory(config["method"]),
                budget=check_budget(config["budget"]),
                rules=check_rules(config["rules"]),
                run_dir=run_folder(config),
                digest=digest(config, config["digest_ignores"]),
                timeout_s=above("episode_timeout_s", config["episode_timeout_s"], 0),
            )
        cell.try_out()
        return cell

    def setup(self, engine: Engine) -> Setup:
        """What the episodes share."""
        return Setup(
            engine=engine,
            harness=self.harness,
            make_method=self.make_method,
            budget=self.budget,
            rules=self.rules,
            thinking=self.config["model"]["thinking"],
            constrain_replies=self.config["model"]["constrain_replies"],
        )

    def try_out(self) -> None:
        """Make one method and throw it away, so that a bad parameter is found before a model is loaded."""
        nowhere = Task(id="try", seed=0, index=0, prompt="", facts={})
        with one_line(f"method={self.config['method']['id']}"):
            method = self.make_method(bench=Bench(self.setup(self.engine), nowhere))
            if not isinstance(method.promise, str) or not method.promise.strip():
                raise ConfigError(f"method.promise={method.promise}: must be a sentence for the agent")
            system_prompt(self.rules, self.harness.manual, method)

    def manifest(self, before: Mapping[str, Json], engine: Engine, planned: int) -> dict[str, Json]:
        """What this run is and what it has been running on, one session added."""
        config = self.config
        session = {
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "git": git_state(),
            "versions": versions(),
            "hardware": machine(),
            "engine": dict(engine.describe()),
        }
        return {
            "protocol": self.rules.protocol,
            "digest": self.digest,
            "harness": config["harness"]["id"],
            "profile": config["harness"].get("profile"),
            "engine": config["engine"]["id"],
            "model": config["model"]["id"],
            "model_revision": config["model"]["revision"],
            "thinking": config["model"]["thinking"],
            "method": config["method"]["id"],
            "variant": config["method"]["variant"],
            "budget": config["budget"]["id"],
            "recall": config["budget"]["recall"],
            "seed": config["seed"],
            "planned": planned,
            "chat": config["model"]["chat"],
            "data": dict(self.harness.describe()),
            "sessions": [*before.get("sessions", ()), session],
        }

    def summary(self, tasks: Sequence[Task], finished: Mapping[str, Finished], errors: int) -> dict[str, Json]:
        """The one JSON object that ends a run. ``accuracy`` is correct over planned: what failed, what has
        no answer and what is still owed is not correct."""
        outcomes = Counter(finished[task.id].outcome for task in tasks if task.id in finished)
        return {
            "harness": self.config["harness"]["id"],
            "method": self.config["method"]["id"],
            "engine": self.config["engine"]["id"],
            "model": self.config["model"]["id"],
            "seed": self.config["seed"],
            "planned": len(tasks),
            "run": outcomes.total(),
            "correct": outcomes["correct"],
            "wrong": outcomes["wrong"],
            "no_answer": outcomes["no_answer"],
            "error": errors,
            "accuracy": outcomes["correct"] / len(tasks) if tasks else None,
            "run_dir": str(self.run_dir),
        }


def run_folder(config: Mapping[str, Json]) -> Path:
    """Where the records go: ``run_dir``, else ``<results_dir>/<harness>/<engine>/<model>/<method>/<digest>``."""
    if config["run_dir"] is not None:
        return Path(config["run_dir"])
    ids = (config[group]["id"] for group in ("harness", "engine", "model", "method"))
    return Path(config["results_dir"], *ids, digest(config, config["digest_ignores"]))


def refuse_other_data(before: Mapping[str, Json], data: Mapping[str, Json], run_dir: Path) -> None:
    """The same file name may hold other rows by now. Raises :class:`ConfigError`."""
    played = before.get("data", {}).get("sha256")
    if played is not None and played != data.get("sha256"):
        raise ConfigError(
            f"data.sha256={data.get('sha256')}: {run_dir} holds a run on data with {played}; bring that data back, or "
            "give another run_dir="
        )


def last_session(manifest: Mapping[str, Json], more: Mapping[str, Json]) -> dict[str, Json]:
    """The manifest with more said of its last session."""
    *earlier, last = manifest["sessions"]
    return {**manifest, "sessions": [*earlier, {**last, **more}]}


async def run_episodes(
    setup: Setup, owed: Sequence[Task], folder: RunFolder, timeout_s: float, planned: int
) -> Counter[str]:
    """Play the owed tasks, as many at once as the engine wants; each record is written as its episode ends.

    Returns the error messages with their counts. An interruption abandons what is in flight.
    """
    queue = iter(owed)
    errors: Counter[str] = Counter()
    outcomes = Counter(done.outcome for done in folder.finished.values())
    spent: Counter[str] = Counter()
    live, started = 0, time.monotonic()
    with tqdm(
        total=planned,
        initial=planned - len(owed),
        desc=f"{setup.harness.id} {folder.config['method']['id']} seed {folder.config['seed']}",
        unit="ep",
        mininterval=0.5 if sys.stderr.isatty() else 30,
    ) as bar:

        async def worker() -> None:
            nonlocal live
            for task in queue:
                live += 1
                record = await play_within(task, setup, timeout_s)
                live -= 1
                folder.append(record)
                outcomes[record["outcome"]] += 1
                if record["outcome"] == "error":
                    errors[record["error"]] += 1
                for call in record["calls"]:
                    spent.update(
                        prompt=call["prompt_tokens"], reply=call["completion_tokens"], cached=call["cached_tokens"] or 0
                    )
                done = outcomes.total() - outcomes["error"]
                bar.set_postfix(
                    {
                        "live": live,
                        "queued": planned - done - outcomes["error"] - live,
                        "acc": f"{outcomes['correct'] / done:.1%}" if done else "-",
                        "tok/s": f"{(spent['prompt'] + spent['reply']) / (time.monotonic() - started):,.0f}",
                        "cached": f"{spent['cached'] / spent['prompt']:.0%}" if spent["cached"] else "-",
                        "errors": outcomes["error"],
                    },
                    refresh=False,
                )
                bar.update()
                await asyncio.sleep(0)  # an engine that never waits must not starve Ctrl-C and the other workers

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(setup.engine.concurrency, len(owed))):
                    group.create_task(worker())
        except ExceptionGroup as broken:
            disk, rest = broken.split(RunError)
            if disk is None or rest is not None:
                raise
            raise next(fault for fault in disk.exceptions if isinstance(fault, RunError)) from None
    for error, count in errors.most_common(3):
        print(f"arcbench: {count} x {' '.join(error.split())}", file=sys.stderr)
    return errors


async def play_within(task: Task, setup: Setup, timeout_s: float) -> dict[str, Json]:
    """Play one task; a timeout or a cancellation from inside makes an ``error`` record, one from outside goes on."""
    try:
        async with asyncio.timeout(timeout_s):
            return await play(task, setup)
    except TimeoutError:
        return failed(Bench(setup, task).transcript, f"the episode took longer than episode_timeout_s={timeout_s:g}")
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        return failed(Bench(setup, task).transcript, "the episode was cancelled")
