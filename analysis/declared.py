"""The declared tables (``conf/tables``): which runs a table is made of, and which cells it must have.

A *spec* says all of a table that is not arithmetic, so a new table is a new file. :func:`cells` gives its rows in
order, those without a run among them: what a table lacks is a row of its own and cannot be passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis import settings
from analysis.accuracy import SCRIPTED, UNSCORED, accuracy
from analysis.reference import TABLES, Reference
from analysis.roofline_facts import HARDWARE
from analysis.rows import KEY, records_of, settings_of
from analysis.settings import CONF
from arcbench.checks import one_of, whole
from arcbench.records import read_manifest
from arcbench.types import ConfigError

FOLDER = CONF / "tables"
ACCURACY, MARGIN, MCNEMAR, ROOFLINE = KINDS = ("accuracy", "margin", "mcnemar", "roofline")
COMPLETE, INCOMPLETE, MISSING = "complete", "incomplete", "missing"
"""Of a cell: all that was planned has an outcome under all the table's seeds; some has; there is no run."""
_LIKE = "like"
_SHARED = ("harness.", "budget.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One table. ``conf/tables/arc_table02.yaml`` says what each field is; one that has ``like: NAME`` takes from the
    spec of that name what it does not say itself. ``name`` is the file's."""

    name: str
    title: str
    kind: str
    reference: str | None
    harness: str
    profiles: tuple[str, ...]
    models: Mapping[str, str]
    methods: tuple[str, ...]
    first: tuple[str, ...]
    seeds: tuple[int, ...]
    scripted_seeds: tuple[int, ...]
    tasks: int
    device: str | None
    not_device: str | None
    hardware: str | None
    base: str | None
    where: Mapping[str, Any]
    axes: Mapping[str, Mapping[str, Any]]
    points: tuple[tuple[str, ...], ...]
    quantities: tuple[str, ...]
    ours: tuple[str, ...]

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        whole("tasks", self.tasks, 1)
        if self.reference is not None:
            one_of("reference", self.reference, TABLES)
        if self.kind == MARGIN and len(self.first) != 1:
            raise ConfigError(f"first={', '.join(self.first)}: must be the one method whose margin it is")
        if self.quantities and self.reference is None:
            raise ConfigError(f"quantities={', '.join(self.quantities)}: without a reference they belong in ours")
        if self.kind == ROOFLINE:
            one_of("base", self.base, self.methods)
            one_of("hardware", self.hardware, sorted(path.stem for path in HARDWARE.glob("*.yaml")))
        for axis, how in self.axes.items():
            settings.exactly(f"axes.{axis}", how, ("key", "unit"))
        for point in self.points:
            if len(point) != len(self.axes):
                raise ConfigError(f"points: {', '.join(point)}: must have a value for each of {', '.join(self.axes)}")

    @classmethod
    def read(cls, path: Path) -> Spec:
        """From its file. Raises :class:`ConfigError`, with the file's name."""
        given = settings.exactly(str(path), _given(path), [f.name for f in fields(cls) if f.name != "name"])
        try:
            lists = {f.name: tuple(given[f.name]) for f in fields(cls) if f.type.startswith("tuple")}
            points = tuple(tuple(str(value) for value in point) for point in given["points"])
            return cls(**given | lists | {"name": path.stem, "points": points})
        except (ConfigError, TypeError, AttributeError) as fault:
            raise ConfigError(f"{path}: {fault}") from None

    def seeds_of(self, scripted: bool) -> tuple[int, ...]:
        """The seeds that a row must have."""
        return self.scripted_seeds if scripted else self.seeds


def _given(path: Path) -> dict[str, Any]:
    """The file's mapping, with what it takes from the one that it is like."""
    try:
        given = yaml.safe_load(path.read_text("utf-8"))
    except FileNotFoundError:
        there = ", ".join(sorted(each.stem for each in path.parent.glob("*.yaml")))
        raise ConfigError(f"table {path.stem}: no {path}; there are {there}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise ConfigError(f"{path}: must be a YAML file: {' '.join(str(fault).split())}") from None
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: must be a YAML mapping")
    like = given.pop(_LIKE, None)
    if like is None:
        return given
    if like == path.stem:
        raise ConfigError(f"{path}: {_LIKE}={like}: must be another table")
    return _given(path.with_stem(str(like))) | given


# -------------------------------------------------------------------------------------------- runs


def runs_of(spec: Spec, runs: pd.DataFrame, *, scripted: bool) -> pd.DataFrame:
    """The runs of a table, of models or of the scripted engine, with a column ``point`` (a value for each axis) and
    ``shared``, what of harness and budget must be said of a run that others of its row do not have."""
    # what the reader played was on no device; of its cost a device's roofline is a mechanism check as good as any
    anywhere = scripted and spec.kind == ROOFLINE
    mine = [run for run in _candidates(spec, runs, scripted) if anywhere or _on_device(spec, _devices(run))]
    swept = [axis["key"] for axis in spec.axes.values()]
    shared = [
        {"config": {key: c for key, c in run["config"].items() if key.startswith(_SHARED) and key not in swept}}
        for run in mine
    ]
    labels = settings_of(pd.DataFrame([run | config for run, config in zip(mine, shared, strict=True)])) if mine else []
    labelled = [run | {"shared": label} for run, label in zip(mine, labels, strict=True)]
    return pd.DataFrame(labelled, columns=[*runs.columns, "point", "shared"])


def beside_paper(spec: Spec, runs: pd.DataFrame) -> frozenset[str]:
    """The folders of the runs that the paper's figures stand beside, whatever their seed."""
    of_any_seed = replace(spec, seeds=tuple(runs["seed"]))
    mine = runs_of(of_any_seed, runs, scripted=False)
    budgets = mine["model"].map(dict(spec.models))
    return frozenset(mine.loc[(mine["profile"] == spec.profiles[0]) & (mine["budget"] == budgets), "run_dir"])


def strays(spec: Spec, runs: pd.DataFrame, *, scripted: bool) -> Iterator[str]:
    """A line for each run that is in no table, since only a part of it was on the device that tells two apart."""
    device = spec.device or spec.not_device
    if device is None:
        return
    for run in _candidates(spec, runs, scripted):
        on = [device in each for each in _devices(run)]
        if any(on) and not all(on):
            yield f"{run['run_dir']} is left out: some of its sessions were on an {device}, and some were not."


def _candidates(spec: Spec, runs: pd.DataFrame, scripted: bool) -> Iterator[dict[str, Any]]:
    """The runs that are of a table, wherever they were run."""
    for run in records_of(runs):
        run |= {"point": _point(spec, run["config"])} | {key: "" if pd.isna(run[key]) else str(run[key]) for key in KEY}
        if _belongs(spec, run, scripted):
            yield run


def _point(spec: Spec, config: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_label(config.get(axis["key"]), axis["unit"]) for axis in spec.axes.values())


def _label(value: Any, unit: int) -> str:
    """A configuration value as the papers' files write it."""
    if isinstance(value, list):
        return ";".join(str(item) for item in value)
    return str(value) if unit == 1 or not isinstance(value, int) else f"{value / unit:g}"


def _belongs(spec: Spec, run: Mapping[str, Any], scripted: bool) -> bool:
    budgets = spec.models.values()
    return (
        run["harness"] == spec.harness
        and run["engine"] not in UNSCORED
        and (run["engine"] == SCRIPTED) == scripted
        and run["profile"] in spec.profiles
        and run["method"] in {*spec.methods, *spec.first}
        and run["seed"] in spec.seeds_of(scripted)
        and run["point"] in spec.points
        and (run["budget"] in budgets or not scripted)
        and (run["budget"] not in budgets or all(_has(run, *condition) for condition in spec.where.items()))
    )


def _has(run: Mapping[str, Any], key: str, wanted: Any) -> bool:
    return bool(run["config"].get(key) == (wanted[run["budget"]] if isinstance(wanted, Mapping) else wanted))


def _devices(run: Mapping[str, Any]) -> list[str]:
    """What each session of a run names as its device."""
    sessions = read_manifest(Path(run["run_dir"])).get("sessions") or ()
    return [str((session.get("engine") or {}).get("device")) for session in sessions]


def _on_device(spec: Spec, devices: Sequence[str]) -> bool:
    """Whether every session of a run was on the table's device, or none on one that it must not have been on."""
    if spec.device is not None and not (devices and all(spec.device in device for device in devices)):
        return False
    return spec.not_device is None or not any(spec.not_device in device for device in devices)


# ------------------------------------------------------------------------------------------- cells


def cells(spec: Spec, runs: pd.DataFrame, episodes: pd.DataFrame, *, scripted: bool) -> list[dict[str, Any]]:
    """The rows of a table in order: the columns of :func:`analysis.accuracy.accuracy`, a column an axis, ``state``
    and ``run_dirs``. A row without a run has no numbers.

    The paper's models have all rows, whether they were run or not; a model beyond them (and the scripted one) as soon
    as it was run, and in a sweep at two of its points. Raises :class:`ConfigError` as ``accuracy``.
    """
    mine = runs_of(spec, runs, scripted=scripted)
    found = list(_found(spec, mine, episodes, scripted))
    blocks: dict[tuple[str, str], set[str]] = {} if scripted else {block: set() for block in spec.models.items()}
    for row in found:
        blocks.setdefault((row["model"], row["budget"]), set()).add(row["point"])
    made = []
    for block, points in blocks.items():
        if (block in spec.models.items() and not scripted) or len(points) >= min(2, len(spec.points)):
            made += list(_block(spec, block, [row for row in found if (row["model"], row["budget"]) == block]))
    return made


def _found(spec: Spec, runs: pd.DataFrame, episodes: pd.DataFrame, scripted: bool) -> Iterator[dict[str, Any]]:
    """The rows that have runs."""

    def own(group: pd.DataFrame, _: pd.DataFrame) -> dict[str, Any]:
        return {"run_dirs": tuple(group["run_dir"]), "shared": group["shared"].iloc[0]}

    for point in spec.points:
        at_point = runs[[each == point for each in runs["point"]]]
        if at_point.empty:
            continue
        its = episodes[episodes["run_dir"].isin(at_point["run_dir"])]
        for row in records_of(accuracy(at_point, its, own)):
            seeds = row["seeds"].split()
            lacking = [f"seed {seed}: no run" for seed in spec.seeds_of(scripted) if str(seed) not in seeds]
            row["incomplete"] = "; ".join(part for part in (row["incomplete"], *lacking) if part)
            row["absent"] = ""  # what the table must have counts, not what other rows have
            row["n_fail"] = row["n_attempts"] - row["n_success"]
            row["state"] = INCOMPLETE if row["incomplete"] else COMPLETE
            yield row | dict(zip(spec.axes, point, strict=True)) | {"point": point}


def _block(spec: Spec, block: tuple[str, str], found: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    model, budget = block
    for profile in spec.profiles:
        for point in spec.points:
            for method in (*spec.methods, *(each for each in spec.first if each not in spec.methods)):
                named = {"model": model, "budget": budget, "profile": profile, "point": point, "method": method}
                there = [row for row in found if all(row[key] == value for key, value in named.items())]
                empty = {"benchmark": spec.harness, "engine": "", "recall": "", "variant": "", "setting": ""}
                absent = empty | named | dict(zip(spec.axes, point, strict=True)) | {"state": MISSING, "shared": ""}
                yield from there or ([absent] if method in spec.methods else ())


# ------------------------------------------------------------------------------------------- notes


def lacking(spec: Spec, rows: Iterable[Mapping[str, Any]], *, scripted: bool) -> Iterator[str]:
    """A line for each model that lacks cells: which ones, and the command that makes them."""
    by_model: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_model.setdefault(row["model"], []).append(row)
    for model, its in by_model.items():
        missing = [row for row in its if row["state"] == MISSING]
        if not missing:
            continue
        which = "any" if len(missing) == len(its) else f"{len(missing)} of {len(its)}"
        named = "" if len(missing) == len(its) else f" ({_named(spec, missing)})"
        yield f"{model}: no run for {which} of the cells{named}. To make them: {command(spec, model, scripted)}."


def command(spec: Spec, model: str, scripted: bool) -> str:
    """What plays the cells of a model that a table lacks."""
    where = f", on an {spec.device}" if spec.device else ""
    return f"make {spec.name}" + ("" if scripted else f" ENGINE=vllm MODEL={model}") + where


def _named(spec: Spec, missing: Iterable[Mapping[str, Any]]) -> str:
    """Cells by what they have in common but the method."""
    methods: dict[str, list[str]] = {}
    for row in missing:
        place = [row["profile"]] if len(spec.profiles) > 1 else []
        place += [f"{axis} {row[axis]}" for axis in spec.axes]
        methods.setdefault(", ".join(place), []).append(row["method"])
    return "; ".join(f"{place}: {', '.join(names)}" if place else ", ".join(names) for place, names in methods.items())


def sizes(spec: Spec, rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What rests on another number of tasks than the table is of; counts of it are not compared with the paper's."""
    of_size: dict[int, set[str]] = {}
    played = [row for row in rows if row["state"] != MISSING]
    for row in played:
        of_size.setdefault(round(row["n_planned"] / row["n_seeds"]), set()).add(_who(row))
    for n, names in sorted(of_size.items()):
        if n != spec.tasks:
            who = "All rows rest" if len(of_size) == 1 else f"{', '.join(sorted(names))} rest"
            yield f"{who} on {n} tasks a seed; the table is of {spec.tasks}."


def _who(row: Mapping[str, Any]) -> str:
    return " ".join(row[key] for key in ("model", "method", "variant") if row[key])


def paper_of(spec: Spec, reference: Reference) -> dict[tuple[str, ...], dict[str, str]]:
    """The paper's rows as printed, by model, axes and methods. Raises :class:`ConfigError` when the paper's table has
    no such column."""
    if spec.reference is None:
        return {}
    printed = reference.printed(spec.reference)
    methods = {MCNEMAR: ("method_a", "method_b"), MARGIN: ()}.get(spec.kind, ("method",))
    keys = ("model", *spec.axes, *methods)
    wrong = [column for column in (*keys, *spec.quantities) if column not in printed.columns]
    if wrong:
        raise ConfigError(f"table {spec.name}: {', '.join(wrong)}: no column of {spec.reference}")
    return {tuple(row[key] for key in keys): row for row in records_of(printed)}
