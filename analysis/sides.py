"""The two sides of a comparison: a folder of runs or a log of another suite, as one list of outcomes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis import foreign
from analysis.accuracy import OUTCOMES, UNSCORED
from arcbench.records import DOCUMENT, Run, flatten, runs_below
from arcbench.types import ConfigError, Json

COMPLETED = ("correct", "wrong")
"""Outcomes in which an answer was submitted and accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One task with an outcome under one seed: that of the run, under which the model was sampled (the tasks may be
    those of another, see conf/experiment/noise_floor.yaml)."""

    task: str
    seed: int
    completed: bool
    correct: bool
    cluster: str | None
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two sets: its outcomes, how many were planned and went wrong, and what it was run with
    (``settings`` is empty, ``protocols`` and ``engines`` too, for a log of another suite). ``protocols`` names a run
    folder of each."""

    path: Path
    what: str
    outcomes: tuple[Outcome, ...]
    n_planned: int
    n_error: int
    protocols: Mapping[str, Path]
    engines: frozenset[str]
    settings: tuple[dict[str, str], ...]
    notes: tuple[str, ...]

    @property
    def n_missing(self) -> int:
        """Planned tasks without any record."""
        return self.n_planned - self.n_error - len(self.outcomes)

    def holes(self) -> str:
        """What was planned and has no outcome, in words; empty when nothing is."""
        parts = ((self.n_error, "in error"), (self.n_missing, "missing"))
        return ", ".join(f"{n} {what}" for n, what in parts if n)


def read(path: Path, choice: foreign.Choice) -> Side:
    """A folder of runs or a foreign log. Raises :class:`ConfigError` or :class:`RunError` when it cannot be used,
    ``OSError`` when it cannot be opened."""
    if not path.exists():
        raise ConfigError(f"{path}: not there; give a folder with runs or a log ({', '.join(foreign.SUFFIXES)})")
    return _runs(path, choice.cluster_by) if path.is_dir() else _log(path, choice)


def _runs(path: Path, cluster_by: str | None) -> Side:
    outcomes: list[Outcome] = []
    n_planned = n_error = 0
    homes: dict[tuple[str, int], Path] = {}
    runs = list(runs_below(path))
    for run in runs:
        if run.manifest["engine"] in UNSCORED:
            raise ConfigError(f"{run.path}: engine {run.manifest['engine']} says nothing about a method")
        recorded = run.each(functools.partial(_outcome, run, cluster_by))
        for task, _ in recorded:
            key = (task, run.manifest["seed"])
            if key in homes:
                raise ConfigError(
                    f"task {key[0]} (seed {key[1]}) stands in {homes[key]} and in {run.path}; name a folder with one "
                    "run a seed"
                )
            homes[key] = run.path
        found = [outcome for _, outcome in recorded if outcome is not None]
        outcomes += found
        n_error += len(recorded) - len(found)
        n_planned += max(run.manifest["planned"], len(recorded))  # planned anew with fewer, a run keeps what it has
    names = dict.fromkeys(f"{run.manifest['method']} ({run.manifest['model']})" for run in runs)
    return Side(
        path=path,
        what=", ".join(names),
        outcomes=tuple(outcomes),
        n_planned=n_planned,
        n_error=n_error,
        protocols={str(run.manifest["protocol"]): run.path for run in runs},
        engines=frozenset(str(run.manifest["engine"]) for run in runs),
        settings=tuple({key: str(value) for key, value in flatten(run.config).items()} for run in runs),
        notes=(),
    )


def _outcome(run: Run, cluster_by: str | None, record: dict[str, Json]) -> tuple[str, Outcome | None]:
    """A record's task and what became of it; ``None`` for an error."""
    if record["outcome"] == "error":
        return record["task"], None
    if record["outcome"] not in OUTCOMES:
        raise ConfigError(
            f"{run.path}: outcome {record['outcome']} of task {record['task']}; allowed: {', '.join(OUTCOMES)}"
        )
    facts = record.get("facts") or {}
    if cluster_by is not None and cluster_by not in facts:
        raise ConfigError(f"--cluster-by {cluster_by}: not a fact of task {record['task']} in {run.path}")
    cluster = facts.get(cluster_by or DOCUMENT)
    return record["task"], Outcome(
        task=record["task"],
        seed=run.manifest["seed"],
        completed=record["outcome"] in COMPLETED,
        correct=record["outcome"] == "correct",
        cluster=None if cluster is None else str(cluster),
        fingerprint="",
    )


def _log(path: Path, choice: foreign.Choice) -> Side:
    log = foreign.read(path, choice)
    outcomes = tuple(
        Outcome(
            task=sample.id,
            seed=sample.epoch,
            completed=sample.completed,
            correct=sample.correct,
            cluster=sample.cluster,
            fingerprint=f"{log.suite}:{sample.fingerprint}" if sample.fingerprint else "",
        )
        for sample in log.samples
        if sample.correct is not None
    )
    return Side(
        path=path,
        what=f"{log.suite} {log.task}".rstrip() + f", score {log.score}",
        outcomes=outcomes,
        n_planned=len(log.samples),
        n_error=len(log.samples) - len(outcomes),
        protocols={},
        engines=frozenset(),
        settings=(),
        notes=log.notes,
    )
