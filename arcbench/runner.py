"""From a command line to records: the composition root, and the only place that knows Hydra."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import difflib
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

import hydra
import orjson
import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from tqdm import tqdm

from arcbench import cells
from arcbench.cells import End
from arcbench.checks import above, template, whole
from arcbench.episode import Bench, Setup, failed, play, system_prompt
from arcbench.parsing import Fault
from arcbench.progress import Finished
from arcbench.provenance import git_state, machine, versions
from arcbench.records import RunError, RunFolder, digest, flatten
from arcbench.types import Budget, ConfigError, Engine, Harness, Json, MethodFactory, Rules, Task

ROOT = Path(__file__).resolve().parent.parent
UNREADABLE = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError)
"""What composing a config raises."""
DONE, FAILED, BAD_INPUT, STOPPED = 0, 1, 2, 130
"""Exit statuses: all well; an episode or a cell ended in an error; bad input; interrupted."""


def main() -> int:
    """Run the cell (or, with ``-m``, the cells) that the command line describes; returns the exit status."""
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra then raises instead of printing and leaving
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word not in ("-m", "--multirun"))  # argparse wants it first
    session = Session()
    try:
        refuse_experiment_list(overrides_of(sys.argv[1:]))
        with session:
            hydra.main(version_base="1.3", config_path=str(ROOT / "conf"), config_name="config")(session.cell)()
            session.sum_up()
    except ConfigError as fault:
        session.complain(str(fault), BAD_INPUT)
    except UNREADABLE as fault:
        session.complain(explain_hydra(fault, sys.argv[1:]), BAD_INPUT)
    except KeyboardInterrupt:
        with contextlib.suppress(ConfigError):
            session.not_reached([" ".join(words) for words in expanded(sys.argv[1:])[0]])
        session.sum_up()
        session.complain("stopped; run the same command again to go on from here", STOPPED)
    return session.status


class Session:
    """One process: its event loop, the one engine that is alive, and how its cells ended."""

    def __init__(self) -> None:
        self.status = DONE
        self.ends: list[End] = []
        self._entered = False
        self._loop = asyncio.Runner()
        self._engine: Engine | None = None
        self._engine_config: Mapping[str, Json] | None = None

    def __reduce__(self) -> tuple[type[Session], tuple[()]]:
        """A launcher that runs cells elsewhere sends them there with a session of their own."""
        return Session, ()

    def __enter__(self) -> Session:
        self._entered = True
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            self._loop.run(self._close_engine())
            self._loop.close()

    def complain(self, line: str, status: int) -> None:
        """One line on standard error, and a status that is not zero."""
        print(f"arcbench: {line}", file=sys.stderr)
        self.status = max(self.status, status)

    def cell(self, cfg: DictConfig) -> None:
        """Run one cell. A cell that cannot run says so and leaves the other cells of a sweep alone."""
        if not self._entered:  # in a process of its own, where it is the only one
            with self:
                return self.cell(cfg)
        words = " ".join(HydraConfig.get().overrides.task) if HydraConfig.initialized() else ""
        try:
            cell = Cell.compose(cast(dict[str, Json], OmegaConf.to_container(cfg, resolve=True)))
            owed, summary = self._loop.run(self._run(cell))
        except ConfigError as fault:
            self.complain(str(fault), BAD_INPUT)
            self.ends.append(End(words=words, state=cells.FAILED))
        except RunError as fault:
            self.complain(str(fault), FAILED)
            self.ends.append(End(words=words, state=cells.FAILED))
        except KeyboardInterrupt:
            self.ends.append(End(words=words, state=cells.OWED))
            raise
        else:
            print(orjson.dumps(summary).decode(), flush=True)
            state = cells.FAILED if summary["error"] else cells.DONE if owed else cells.SKIPPED
            self.ends.append(
                End(
                    words=words, state=state, planned=summary["planned"], finished=summary["run"],
                    correct=summary["correct"], errors=summary["error"],
                )
            )  # fmt: skip
            if summary["error"]:
                self.complain(
                    f"{summary['error']} episodes ended in an error; run the same command again to redo them", FAILED
                )

    def not_reached(self, words: Sequence[str]) -> None:
        """Of all cells of a sweep, in order, those that never began are owed."""
        self.ends += [End(words=each, state=cells.OWED) for each in words[len(self.ends) :]]

    def sum_up(self) -> None:
        """How the cells of a sweep ended, on standard error."""
        if len(self.ends) > 1:
            print(cells.summary(self.ends), file=sys.stderr)

    async def _run(self, cell: Cell) -> tuple[int, dict[str, Json]]:
        """How many tasks were owed, and the summary."""
        with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as folder:
            manifest = folder.manifest()
            refuse_other_data(manifest, cell.harness.describe(), cell.run_dir)
            tasks = cell.harness.tasks()
            owed = [task for task in tasks if task.id not in folder.finished]
            errors: Counter[str] = Counter()
            engine = await self._started_engine(cell) if owed else cell.engine
            if owed or not manifest:
                folder.write_manifest(cell.manifest(manifest, engine, len(tasks)))
            if owed:
                started, before = time.monotonic(), len(folder.finished)
                try:
                    errors = await run_episodes(cell.setup(engine), owed, folder, cell.timeout_s, len(tasks))
                finally:  # a session that is killed says nothing of its time
                    played = {
                        "played_s": round(time.monotonic() - started, 3),
                        "episodes": len(folder.finished) - before,
                    }
                    with contextlib.suppress(RunError):
                        folder.write_manifest(last_session(folder.manifest(), played))
            return len(owed), cell.summary(tasks, folder.finished, sum(errors.values()))

    async def _started_engine(self, cell: Cell) -> Engine:
        """The engine of this cell: the living one where its config is the same, started again, so that it forgets
        the cell before."""
        if self._engine is None or self._engine_config != cell.config["engine"]:
            await self._close_engine()
            await cell.engine.start()
            self._engine, self._engine_config = cell.engine, cell.config["engine"]
        else:
            await self._engine.start()
        return self._engine

    async def _close_engine(self) -> None:
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.close()


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


def composed(overrides: Sequence[str]) -> dict[str, Json]:
    """The whole resolved config that a command line with these overrides chooses. Raises :class:`ConfigError`."""
    refuse_experiment_list(overrides)
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
            config = hydra.compose("config", overrides=list(overrides))
        return cast(dict[str, Json], OmegaConf.to_container(config, resolve=True))
    except UNREADABLE as fault:
        raise ConfigError(explain_hydra(fault, overrides)) from None


def overrides_of(words: Sequence[str]) -> list[str]:
    """The overrides of a command line, without its options; ``--config-dir``, by which Hydra finds what stands
    outside ``conf``, as the override that it comes to. Raises :class:`ConfigError` as :func:`refuse_added`."""
    found: list[str] = []
    left = iter(words)
    for word in left:
        option, sign, value = word.partition("=")
        if option in ("--config-dir", "-cd"):
            folder = Path(value if sign else next(left, ""))
            refuse_added(option, folder)
            found.append(f"hydra.searchpath=['file://{folder.absolute()}']")
        elif not word.startswith("-"):
            found.append(word)
    return found


def refuse_added(option: str, folder: Path) -> None:
    """A folder that is not there, a file in it that cannot be read, and the name or id of one of ours, which Hydra
    would take without a word. Raises :class:`ConfigError`."""
    if not folder.is_dir():
        raise ConfigError(f"{option}={folder}: no such folder")
    for group in GROUPS:
        twice = sorted({path.stem for path in (folder / group).glob("*.yaml")} & set(choices(group)))
        if twice:
            raise ConfigError(f"{option}={folder}: {group}={twice[0]} is one of ours; give yours another name")
        for path in sorted((folder / group).glob("*.yaml")):
            try:
                own = yaml.safe_load(path.read_text("utf-8"))
            except (yaml.YAMLError, ValueError) as fault:
                raise ConfigError(f"{path}: {explain(fault)}") from None
            if isinstance(own, dict) and own.get("id") in choices(group):
                raise ConfigError(f"{path}: id={own['id']} is one of ours; give yours another")


def expanded(overrides: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The cells of a command line, each as its overrides, and the words that are of no cell (Hydra's own). Raises
    :class:`ConfigError`."""
    words = overrides_of(overrides)
    refuse_experiment_list(words)
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
            parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
            single = [o.input_line or "" for o in parser.parse_overrides(words) if not o.is_sweep_override()]
            config = hydra.compose("config", overrides=single, return_hydra_config=True)
            swept = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
            own = [word for word in words if word.split("=")[0].lstrip("+~").startswith("hydra.")]
            parsed = parser.parse_overrides([*swept, *(word for word in words if word not in own)])
            (batch,) = BasicSweeper.split_arguments(parsed, None)
        return batch, own
    except UNREADABLE as fault:
        raise ConfigError(explain_hydra(fault, words)) from None


def cells_of(overrides: Sequence[str]) -> Iterator[tuple[list[str], dict[str, Json] | ConfigError]]:
    """Each cell of a command line: its overrides, and its resolved config or why there is none.

    Hydra composes once for each choice of groups; a value is set in a copy of that, as Hydra itself does last of all.
    Raises :class:`ConfigError` for what Hydra cannot read.
    """
    batch, own = expanded(overrides)
    composed_of: dict[tuple[str, ...], DictConfig | ConfigError] = {}
    for words in batch:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
            loader = GlobalHydra.instance().config_loader()
            parsed = OverridesParser.create(config_loader=loader).parse_overrides(words)
            values = [o for o in parsed if is_value(o, loader)]
            groups = tuple(o.input_line or "" for o in parsed if o not in values)
            try:
                if groups not in composed_of:
                    composed_of[groups] = hydra.compose("config", overrides=[*groups, *own])
                base = composed_of[groups]
                if isinstance(base, ConfigError):
                    raise base
                config = copy.deepcopy(base)
                for override in values:
                    OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
                found = cast(dict[str, Json], OmegaConf.to_container(config, resolve=True))
            except UNREADABLE as fault:
                yield words, ConfigError(explain_hydra(fault, words))
                continue
            except ConfigError as fault:
                yield words, fault
                continue
        yield words, found


def is_value(override: Override, loader: ConfigLoader) -> bool:
    """Whether it sets a value that is there, and chooses, adds or deletes nothing."""
    chooses = override.package is not None or loader.get_group_options(override.key_or_group)
    return not (chooses or override.is_delete() or override.is_add() or override.is_force_add())


def make_engine(overrides: Sequence[str]) -> tuple[Engine, Mapping[str, Json]]:
    """The engine of that config, not started, and the config: for commands that ask a model something of their own.
    Raises :class:`ConfigError`."""
    config = composed(overrides)
    with one_line("config"):
        check_root(config)
        check_budget(config["budget"])
        return build(config["engine"]), config


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


# ------------------------------------------------------------------------------------ small pieces


ROOT_KEYS = frozenset(("budget", "harness", "engine", "model", "method", "rules", "seed", "retriever", "results_dir",
                       "run_dir", "episode_timeout_s", "digest_ignores"))  # fmt: skip


def check_root(config: Mapping[str, Json]) -> None:
    """The keys at the root of a config. Raises :class:`ConfigError`."""
    for key in config:
        if key not in ROOT_KEYS:
            raise ConfigError(f"{key}={config[key]}: there is no such key")
    if not isinstance(config.get("rules"), Mapping):
        raise ConfigError(f"rules={config.get('rules')}: must be the texts and limits of the agent loop")
    for group in ("budget", "harness", "engine", "model", "method"):
        if not isinstance(config.get(group), Mapping):
            raise ConfigError(f"{group}={config.get(group)}: must be one of {', '.join(choices(group))}")
    if whole("seed", config["seed"], 0) >= 2**63:  # the most that JSON readers agree on
        raise ConfigError(f"seed={config['seed']}: must be below 2**63")
    if not isinstance(config["results_dir"], str) or not config["results_dir"]:
        raise ConfigError(f"results_dir={config['results_dir']}: must be a folder; quote one that is a number")
    if config["run_dir"] is not None and (not isinstance(config["run_dir"], str) or not config["run_dir"]):
        raise ConfigError(f"run_dir={config['run_dir']}: must be null or a folder; quote one that is a number")
    ignored = config["digest_ignores"]
    if not isinstance(ignored, list) or not all(isinstance(name, str) for name in ignored):
        raise ConfigError(f"digest_ignores={ignored}: must be a list of keys")
    for key in ("thinking", "constrain_replies"):
        if not isinstance(config["model"].get(key), bool):
            raise ConfigError(f"model.{key}={config['model'].get(key)}: must be true or false")
    for group in ("harness", "engine", "model", "method"):
        name = config[group].get("id")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):  # a folder is named by it
            raise ConfigError(f"{group}.id={name}: must be a name of letters, digits, '_', '.' and '-'")
    variant = config["method"].get("variant", "")
    if variant is not None and (not isinstance(variant, str) or not variant):
        raise ConfigError(f"method.variant={variant}: must be null, or a text that tells methods of one id apart")


def last_session(manifest: Mapping[str, Json], more: Mapping[str, Json]) -> dict[str, Json]:
    """The manifest with more said of its last session."""
    *earlier, last = manifest["sessions"]
    return {**manifest, "sessions": [*earlier, {**last, **more}]}


def refuse_other_data(before: Mapping[str, Json], data: Mapping[str, Json], run_dir: Path) -> None:
    """The same file name may hold other rows by now. Raises :class:`ConfigError`."""
    played = before.get("data", {}).get("sha256")
    if played is not None and played != data.get("sha256"):
        raise ConfigError(
            f"data.sha256={data.get('sha256')}: {run_dir} holds a run on data with {played}; bring that data back, or "
            "give another run_dir="
        )


def run_folder(config: Mapping[str, Json]) -> Path:
    """Where the records go: ``run_dir``, else ``<results_dir>/<harness>/<engine>/<model>/<method>/<digest>``."""
    if config["run_dir"] is not None:
        return Path(config["run_dir"])
    ids = (config[group]["id"] for group in ("harness", "engine", "model", "method"))
    return Path(config["results_dir"], *ids, digest(config, config["digest_ignores"]))


def check_budget(limits: Mapping[str, Json]) -> Budget:
    """The shared budget. What is nested in it belongs to one harness or method. Raises :class:`ConfigError`."""
    names = [field.name for field in fields(Budget)]
    for key, value in limits.items():
        if key not in (*names, "recall") and not isinstance(value, Mapping):
            raise ConfigError(f"budget.{key}={value}: there is no such key")
    calls = limits["force_at_calls"]
    if not isinstance(calls, list):
        raise ConfigError(f"budget.force_at_calls={calls}: must be a list of call numbers, such as [5,10,15] or []")
    return Budget(**{name: limits[name] for name in names} | {"force_at_calls": tuple(calls)})


def check_rules(texts: Mapping[str, Json]) -> Rules:
    """The agent loop's texts and limits. Raises :class:`ConfigError`."""
    if not isinstance(texts.get("corrections"), Mapping):
        raise ConfigError(f"rules.corrections={texts.get('corrections')}: must have a text for each fault")
    rules = Rules(**texts)
    template("rules.system", rules.system, "manual", "actions", "promise")
    template("rules.omitted", rules.omitted, "chars")
    for key in ("protocol", "grammar", "no_output"):
        if not isinstance(getattr(rules, key), str):
            raise ConfigError(f"rules.{key}={getattr(rules, key)}: must be a text")
    for fault in get_args(Fault):
        template(f"rules.corrections.{fault}", rules.corrections.get(fault))
    whole("rules.malformed_limit", rules.malformed_limit, 1)
    whole("rules.compaction_passes", rules.compaction_passes, 1)
    return rules


def build(config: Mapping[str, Json]) -> Any:
    """Instantiate a config's ``_target_``. Raises :class:`ConfigError` in one line, whatever went wrong."""
    name = str(config.get("id", config.get("_target_")))
    if not isinstance(config.get("_target_"), str):
        raise ConfigError(f"{name}: _target_={config.get('_target_')}: must be the class, such as my_module.MyClass")
    with one_line(f"{name}: _target_={config['_target_']}"):
        return hydra.utils.instantiate(dict(config), _convert_="all")


def factory(config: Mapping[str, Json]) -> MethodFactory:
    """What makes the method of each episode. Raises :class:`ConfigError`."""
    if config.get("_partial_") is not True:
        raise ConfigError(
            f"method={config['id']}: _partial_={config.get('_partial_')}: must be true; each episode makes its own"
        )
    made: MethodFactory = build(config)
    return made


@contextlib.contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turn what a constructor raises into one :class:`ConfigError`."""
    try:
        yield
    except ConfigError:
        raise
    except (HydraException, TypeError, LookupError, ImportError, AttributeError, ValueError, ArithmeticError) as fault:
        cause: BaseException | None = fault
        while cause is not None and not isinstance(cause, ConfigError):
            cause = cause.__cause__
        if cause is not None:
            raise cause from None
        raise ConfigError(f"{what}: {explain(deepest(fault))}") from fault


def deepest(fault: BaseException) -> BaseException:
    """What an exception was first raised for: Hydra's own say little of why a class could not be had."""
    while fault.__cause__ is not None:
        fault = fault.__cause__
    return fault


def explain(fault: BaseException) -> str:
    """An exception's text on one line."""
    return " ".join(str(fault).split()) or type(fault).__name__


def refuse_experiment_list(words: Sequence[str]) -> None:
    """Hydra would ignore the settings of all but the last of several experiments without a word."""
    for word in words:
        if word.startswith("experiment=") and "," in word:
            raise ConfigError(f"{word}: one experiment at a time; run them one after the other")


def explain_hydra(fault: BaseException, words: Sequence[str]) -> str:
    """What Hydra rejects, as one line that names key, value and what is allowed."""
    text = explain(fault)
    if "Lexer" in text or "Lexer" in type(fault).__name__:
        return f"{' '.join(words)}: Hydra cannot read one of these; quote its value, such as 'key=\"value\"'"
    if missing := re.search(
        r"Could not find '([\w/]+)/([^/']*)' Available options in '[^']*': (.*?)( Config search path|$)", text
    ):
        return f"{missing[1]}={missing[2]}: must be one of {', '.join(missing[3].split())}"
    if "Config group override" in text:  # null, a number: no name of a choice
        for word in words:
            group, _, choice = word.partition("=")
            if group in GROUPS and choice not in choices(group):
                return f"{word}: must be one of {', '.join(choices(group))}"
    if unknown := re.search(r"Could not override '([^']+)'", text):
        key = unknown[1].lstrip("@")
        given = next((word for word in words if word.split("=")[0] == key), key)
        near = difflib.get_close_matches(key, known_keys(words), n=3)
        return f"{given}: there is no such key" + (f"; the nearest are {', '.join(near)}" if near else "")
    return text


GROUPS = ("budget", "recall", "harness", "engine", "model", "method", "experiment")
"""The folders of ``conf`` that a run chooses from; the others hold the numbers of analyses."""


def choices(group: str) -> list[str]:
    """The names that a config group can be set to."""
    return sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))


def known_keys(words: Sequence[str]) -> list[str]:
    """Every dotted key of the config that the group choices among these words compose."""
    groups = set(GROUPS)
    ours = {*groups, "hydra.searchpath"}
    choices = [word for word in overrides_of(words) if word.split("=")[0] in ours and "," not in word]
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
            config = OmegaConf.to_container(hydra.compose("config", overrides=choices), resolve=False)
    except (HydraException, OmegaConfBaseException):
        return sorted(groups)
    return [*sorted(groups), *flatten(cast(dict[str, Json], config))]
