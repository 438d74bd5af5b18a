"""Run folders: one per cell, append-only, safe to interrupt at any moment; and the one reader of them.

``<results>/<harness>/<engine>/<model>/<method>/<digest>/`` holds ``config.yaml`` (the resolved
config), ``manifest.json`` (what it ran on), ``episodes.jsonl`` (one whole episode per line) and
``.lock``. ``docs/record.md`` lists the fields.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import orjson
import yaml

from arcbench import progress
from arcbench.progress import Finished
from arcbench.types import ConfigError, Json

if TYPE_CHECKING:
    import pandas as pd

EPISODES, MANIFEST, CONFIG = "episodes.jsonl", "manifest.json", "config.yaml"
DIGEST_CHARS = 12
_YAML = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster, where PyYAML was built with it
T = TypeVar("T")


class RunError(RuntimeError):
    """A run folder that cannot be used: one line that names it and says what to do."""


class NoRunsError(RunError):
    """A folder without a run."""


# --------------------------------------------------------------------------------------- identity


def flatten(config: Mapping[str, Json], prefix: str = "") -> dict[str, Json]:
    """Nested mappings as one mapping with dotted keys; lists stay values."""
    flat: dict[str, Json] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def identity(config: Mapping[str, Json], ignored: Sequence[str]) -> dict[str, Json]:
    """The part of a resolved config that can change an outcome. ``ignored`` names dotted keys that
    cannot; a name ending in ``.`` covers all keys below it."""
    return {
        key: plain(value)
        for key, value in sorted(flatten(config).items())
        if not any(key == name or (name.endswith(".") and key.startswith(name)) for name in ignored)
    }


def plain(value: Json) -> Json:
    """A value as identity has it: 1.0 is 1, whichever way it was written."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def digest(config: Mapping[str, Json], ignored: Sequence[str]) -> str:
    """Short hash of :func:`identity`: the name of the run folder."""
    canonical = orjson.dumps(identity(config, ignored), option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(canonical).hexdigest()[:DIGEST_CHARS]


# ----------------------------------------------------------------------------------------- writing


class RunFolder:
    """One cell's folder, held by one process. Use as a context manager.

    Raises :class:`ConfigError` when the folder holds a run of another config (naming the first value
    that differs) and :class:`RunError` when another process has it.
    """

    def __init__(self, path: Path, config: Mapping[str, Json], ignored: Sequence[str]) -> None:
        self.path = path
        self.config = config
        self.ignored = ignored
        self.finished: dict[str, Finished] = {}
        """By task id the episodes that are done (``error`` ones are owed again)."""
        self._lock: BinaryIO | None = None
        self._file: BinaryIO | None = None

    def __enter__(self) -> RunFolder:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = (self.path / ".lock").open("ab")
        except OSError as fault:
            raise RunError(f"{self.path}: cannot be written ({fault.strerror}); choose another folder") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise RunError(f"{self.path}: another process is running this cell; wait for it or stop it") from None
        try:
            self._settle_config()
            episodes = self.path / EPISODES
            repair(episodes)
            self.finished = finished(episodes)
            self._file = episodes.open("ab", buffering=0)
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()
            progress.write(self.path / EPISODES, self.finished)
        if self._lock:
            self._lock.close()

    def append(self, record: Mapping[str, Json]) -> None:
        """Write one episode as one line, in one system call. A line that a full disk cut short is taken back."""
        assert self._file is not None
        line = orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
        start = self._file.seek(0, os.SEEK_END)
        try:
            written = self._file.write(line)
            if written != len(line):
                raise OSError(28, "no space left on device")
        except OSError as fault:
            self._file.truncate(start)
            raise RunError(f"{self.path / EPISODES}: cannot be written ({fault.strerror})") from None
        if record["outcome"] != "error":
            self.finished[record["task"]] = Finished.of(record)

    def manifest(self) -> dict[str, Json]:
        """The manifest so far; empty in a new folder, and where it is damaged: it is about to be rewritten."""
        try:
            return dict(read_manifest(self.path))
        except RunError:
            return {}

    def write_manifest(self, manifest: Mapping[str, Json]) -> None:
        """Replace the manifest in one step."""
        replace_file(self.path / MANIFEST, orjson.dumps(manifest, option=orjson.OPT_INDENT_2))

    def _settle_config(self) -> None:
        path = self.path / CONFIG
        if not path.exists():
            replace_file(path, yaml.safe_dump(dict(self.config), sort_keys=False, allow_unicode=True).encode())
            return
        there = identity(read_config(self.path), self.ignored)
        ours = identity(self.config, self.ignored)
        for key in sorted({*there, *ours}):
            if there.get(key) != ours.get(key):
                raise ConfigError(
                    f"{key}={ours.get(key)}: {self.path} holds a run with {key}={there.get(key)}; "
                    "give another run_dir=, or leave run_dir out"
                )


def replace_file(path: Path, content: bytes) -> None:
    """Write a whole file so that a reader sees the old or the new one, never half of it. Raises :class:`RunError`."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError as fault:
        draft.unlink(missing_ok=True)
        raise RunError(f"{path}: cannot be written ({fault.strerror})") from None


def repair(episodes: Path) -> None:
    """Make the file end at the end of a record: a torn last line goes, a whole one gets its newline."""
    if not episodes.exists() or not episodes.stat().st_size:
        return
    with episodes.open("r+b") as file:
        last = _last_newline(file)
        file.seek(last)
        tail = file.read()
        if not tail:
            return
        try:
            orjson.loads(tail)
            file.write(b"\n")
        except orjson.JSONDecodeError:
            file.truncate(last)


def _last_newline(file: BinaryIO, block: int = 1 << 20) -> int:
    """Offset just after the last newline (0 when there is none), reading from the end."""
    end = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - block)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


# ----------------------------------------------------------------------------------------- reading


def read_episodes(path: Path | str) -> Iterator[dict[str, Json]]:
    """The records of an ``episodes.jsonl``, in the order they ended; a torn or broken line is passed over.

    Lines end at ``\\n`` only: U+2028 and its kind are text.
    """
    path = Path(path)
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(record, dict) and record.keys() >= NEEDED and isinstance(record["task"], str):
                yield record


def finished(episodes: Path) -> dict[str, Finished]:
    """By task id the episodes that are done: as it is kept beside them, or else from the records."""
    kept = progress.read(episodes)
    if kept is not None:
        return kept
    latest = {record["task"]: Finished.of(record) for record in read_episodes(episodes)}
    return {task: each for task, each in latest.items() if each.outcome != "error"}


NEEDED = frozenset(
    (
        "task",
        "seed",
        "index",
        "outcome",
        "reason",
        "submission",
        "error",
        "method_failures",
        "turns",
        "calls",
        "compactions",
        "messages",
    )
)
"""What every record has; a line without it is damaged, and its task is owed again."""


def read_manifest(folder: Path) -> Mapping[str, Json]:
    """A run's manifest. Raises :class:`RunError` when it is missing or damaged."""
    path = folder / MANIFEST
    try:
        manifest = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise RunError(f"{folder}: no {MANIFEST}; run the same command again, or move the folder away") from None
    except orjson.JSONDecodeError:
        manifest = None
    if not isinstance(manifest, dict) or not manifest.keys() >= set(RUN_COLUMNS[1:]):
        raise RunError(f"{path}: damaged; remove it and run the same command again, or move the folder away")
    return manifest


def read_config(folder: Path) -> Mapping[str, Json]:
    """A run's resolved config. Raises :class:`RunError` when it is missing or damaged."""
    path = folder / CONFIG
    try:
        config = yaml.load(path.read_text("utf-8"), _YAML)
    except FileNotFoundError:
        raise RunError(f"{folder}: no {CONFIG}; bring it back, or move the folder away") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        config = None
    if not isinstance(config, dict):
        raise RunError(f"{path}: damaged; remove it and run the same command again, or move the folder away")
    return config


# ------------------------------------------------------------------------------------------ frames


@dataclass(frozen=True)
class Frames:
    """Tidy frames over run folders. ``runs``: one row a run; ``episodes``: one row a task of a run
    (its latest record); ``calls`` and ``compactions``: one row each, joined by run_dir and task."""

    runs: pd.DataFrame
    episodes: pd.DataFrame
    calls: pd.DataFrame
    compactions: pd.DataFrame


@dataclass(frozen=True)
class Part:
    """What is read of each record: ``rows``, none or several, which all have these ``columns``, ``task`` among them.
    Values are numbers, texts, true, false or None. What they depend on beside the record is part of the name."""

    name: str
    columns: tuple[str, ...]
    rows: Callable[[Mapping[str, Json]], Iterable[Mapping[str, Json]]]


Columns = dict[str, list[Json]]
"""The rows of a part, column by column."""

RUN_COLUMNS = (
    "run_dir", "digest", "protocol", "harness", "profile", "engine", "model", "method", "variant",
    "budget", "recall", "seed", "planned",
)  # fmt: skip
EPISODE_COLUMNS = (
    "task", "index", "outcome", "reason", "submission", "error", "agent_calls", "method_calls", "prompt_tokens",
    "completion_tokens", "cached_tokens", "compactions", "method_failures", "document",
)  # fmt: skip
DOCUMENT = "context_sha256"
"""The fact by which tasks on one document are known; ``document`` is null where a task has a text of its own."""
CALL_COLUMNS = (
    "number", "billed", "thinking", "prompt_tokens", "cached_tokens", "completion_tokens", "finish", "latency_s",
)  # fmt: skip
COMPACTION_COLUMNS = (
    "before_call", "trigger", "outcome", "tokens_before", "tokens_after", "failure",
    "kept", "cited", "summarised", "archived", "dropped",
)  # fmt: skip
FATES = COMPACTION_COLUMNS[-5:]


@dataclass(frozen=True)
class Run:
    """One run folder, read."""

    path: Path
    manifest: Mapping[str, Json]
    config: Mapping[str, Json]

    def each(self, pick: Callable[[dict[str, Json]], T]) -> list[T]:
        """What ``pick`` takes of the latest record of each task, in the order in which the tasks were first tried.
        Records are read one at a time and let go. Raises :class:`RunError` when a task was finished twice."""
        latest: dict[str, T] = {}
        finished: set[str] = set()
        for record in read_episodes(self.path / EPISODES):
            task = record["task"]
            if task in finished:
                raise RunError(
                    f"{self.path}: task {task} stands twice in {EPISODES}, and the first was no error; take one of the "
                    "two lines out, or move the folder away"
                )
            if record["outcome"] != "error":
                finished.add(task)
            latest[task] = pick(record)
        return list(latest.values())

    def episodes(self) -> list[dict[str, Json]]:
        """The latest record of each task, whole: see :meth:`each`, which needs less memory."""
        return self.each(lambda record: record)

    def take(self, parts: Sequence[Part]) -> dict[str, Columns]:
        """The rows of these parts, by their names. Raises :class:`RunError` as :meth:`each`."""
        taken = self.each(lambda record: [list(part.rows(record)) for part in parts])
        rows = {part.name: [row for of_task in taken for row in of_task[i]] for i, part in enumerate(parts)}
        return {part.name: {name: [row[name] for row in rows[part.name]] for name in part.columns} for part in parts}

    @property
    def columns(self) -> dict[str, Json]:
        """The run-level columns of the frames."""
        return {"run_dir": str(self.path)} | {key: self.manifest.get(key) for key in RUN_COLUMNS[1:]}


def runs_below(root: Path | str) -> Iterator[Run]:
    """The run folders below ``root``, in order of their paths. Raises :class:`NoRunsError` when there is none, and
    :class:`RunError` when one is damaged or has episodes and no manifest or no config."""
    root = Path(root)
    found = False
    for folder in sorted({path.parent for name in (CONFIG, EPISODES) for path in root.rglob(name)}):
        episodes = folder / EPISODES
        if not (folder / MANIFEST).exists() and not (episodes.exists() and episodes.stat().st_size):
            continue  # a run that was stopped before it began
        found = True
        yield Run(folder, read_manifest(folder), read_config(folder))
    if not found:
        raise NoRunsError(f"{root}: no runs here; make some with `make reproduce-tables` or `python -m arcbench`")


def load(root: Path | str, take: Callable[[Run, Sequence[Part]], dict[str, Columns]] = Run.take) -> Frames:
    """Read every run folder below ``root`` into frames; ``take`` reads the parts of one run (``analysis.frames`` has
    one that keeps them). Raises as :func:`runs_below` and :meth:`Run.each`."""
    import pandas as pd

    runs: list[dict[str, Json]] = []
    frames: dict[str, Columns] = {part.name: {} for part in PARTS}
    for run in runs_below(root):
        runs.append(run.columns | {"config": flatten(run.config)})
        for name, columns in take(run, PARTS).items():
            leading = run.columns if name == "episodes" else {"run_dir": str(run.path)}
            repeated = {column: [value] * len(columns["task"]) for column, value in leading.items()}
            for column, values in (repeated | columns).items():
                frames[name].setdefault(column, []).extend(values)
    return Frames(
        runs=pd.DataFrame(runs, columns=[*RUN_COLUMNS, "config"]),
        **{name: frame(columns) for name, columns in frames.items()},
    )


def frame(columns: Columns) -> pd.DataFrame:
    """Columns as a frame. Without rows they are of type object, which joins and compares with every other; pandas would
    take them for numbers."""
    import pandas as pd

    return pd.DataFrame(columns, dtype=None if any(columns.values()) else object)


def _episode_row(record: Mapping[str, Json]) -> dict[str, Json]:
    calls = record["calls"]
    agent = sum(call["billed"] == "agent" for call in calls)
    return {
        "task": record["task"],
        "index": record["index"],
        "outcome": record["outcome"],
        "reason": record["reason"],
        "submission": record["submission"],
        "error": record["error"],
        "agent_calls": agent,
        "method_calls": len(calls) - agent,
        **{
            kind: _total(call[kind] for call in calls)
            for kind in ("prompt_tokens", "completion_tokens", "cached_tokens")
        },
        "compactions": sum(row["outcome"] == "done" for row in record["compactions"]),
        "method_failures": len(record["method_failures"]),
        "document": (record.get("facts") or {}).get(DOCUMENT),
    }


def _total(counts: Iterable[int | None]) -> int | None:
    """Their sum; ``None`` where one was not recorded."""
    known = list(counts)
    return None if None in known else sum(known)  # type: ignore[arg-type]


def _call_rows(record: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    for call in record["calls"]:
        yield {"task": record["task"]} | {name: call[name] for name in CALL_COLUMNS}


def _compaction_rows(record: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    for row in record["compactions"]:
        fates = {fate: len(row["fates"].get(fate, ())) for fate in FATES}
        yield {"task": record["task"]} | {name: row[name] for name in COMPACTION_COLUMNS if name not in FATES} | fates


PARTS = (
    Part("episodes", EPISODE_COLUMNS, lambda record: [_episode_row(record)]),
    Part("calls", ("task", *CALL_COLUMNS), _call_rows),
    Part("compactions", ("task", *COMPACTION_COLUMNS), _compaction_rows),
)
"""Of the frames but ``runs``, which is read from manifests and configs."""
