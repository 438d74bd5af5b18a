"""Which runs are one row of a table, what must be said of it beside its key, and where it stands."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import pandas as pd

from arcbench.types import ConfigError

METHOD_ORDER = (
    "full_context",
    "sliding_window",
    "llm_summary",
    "structured_state",
    "rag_memory",
    "arc",
    "arc_paged",
    "arc_select",
    "vista",
    "vista_no_dashboard",
    "vista_no_recovery",
    "vista_no_archive",
    "vista_fixed_archive",
    "vista_status_board",
    "vista_wording",
)
"""Order of rows, the papers' methods first; any other method follows in alphabetical order."""

BLOCK = ("harness", "profile", "budget", "recall", "engine", "model")
"""Runs that agree in these are to be compared with each other."""

KEY = (*BLOCK, "method", "variant")
"""Runs that agree in these, and in their configuration, are one row."""

# Keys (by their last part) that are no setting: the runs of one row may differ in how much was run, and where.
# Nor is the protocol, since two versions of it must not stand in one table at all: see one_run_per_seed.
# harness.method repeats the row's own method.
_NO_SETTING = ("seed", "n_tasks", "order", "concurrency", "results_dir", "run_dir", "protocol", "method")
# Keys that say how hard the tasks and how tight the budget were: shown on every row when they differ between methods.
_SHARED_KEYS = ("harness.", "budget.", "recall.")
_LONGEST_VALUE_CHARS = 40
# Groups of keys that are no method's own.
_COMMON = ("harness.", "budget.", "recall.", "engine.", "model.")


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Its rows as mappings."""
    return cast(list[dict[str, Any]], frame.to_dict("records"))


# ---------------------------------------------------------------------------------------- settings


def settings_of(runs: pd.DataFrame) -> list[str]:
    """What must be said of each run beside its key, as ``name=value`` joined by commas.

    Said are the configuration keys in which runs of one key differ (they are then separate rows), and keys
    of the harness and the budget in which methods of one block differ (they must not be compared unawares).
    A key found in one place is said of every run of the harness that has it. What one run's own config says cannot
    change an outcome is no setting of any run.
    """
    ignored = {"digest_ignores", *(name for config in runs["config"] for name in config.get("digest_ignores") or ())}
    configs = [_flat(config, ignored) for config in runs["config"]]
    by_key: dict[tuple[str, ...], list[dict[str, str]]] = {}
    by_block: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for key, config in zip(runs[list(KEY)].itertuples(index=False, name=None), configs, strict=True):
        by_key.setdefault(key, []).append(config)
        shared = {k: v for k, v in config.items() if k.startswith(_SHARED_KEYS)}
        by_block.setdefault(key[: len(BLOCK)], []).append(shared)
    varying = sorted({name for group in (*by_key.values(), *by_block.values()) for name in differing(group)})
    labels = _labels(varying, configs)
    return [
        ", ".join(f"{label}={config[name]}" for name, label in labels.items() if name in config) for config in configs
    ]


def _labels(varying: Iterable[str], configs: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """What each key is called: its last part where that is enough. Keys of one last part that have the same values
    everywhere (one is taken from the other) are said once."""
    by_last: dict[str, list[str]] = {}
    for name in varying:
        by_last.setdefault(name.rpartition(".")[2], []).append(name)
    labels: dict[str, str] = {}
    for last, names in by_last.items():
        same = all(len({config.get(name) for name in names}) == 1 for config in configs)
        labels |= {names[0]: last} if same else {name: name for name in names}
    return labels


def settings_apart(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with what :func:`settings_of` says of each in two columns: ``shared``, what methods have in common
    (harness, budget, engine, model), and ``own``, the method's."""

    def some(config: Mapping[str, Any], common: bool) -> dict[str, Any]:
        return {k: v for k, v in config.items() if k.startswith(_COMMON) == common or k == "digest_ignores"}

    shared, own = (
        settings_of(runs.assign(config=runs["config"].map(lambda config, common=common: some(config, common))))
        for common in (True, False)
    )
    return runs.assign(shared=shared, own=own)


def differing(configs: Iterable[Mapping[str, str]]) -> set[str]:
    """Names that do not have one and the same value in all of the configurations."""
    configs = list(configs)
    names = {name for config in configs for name in config}
    return {name for name in names if len({config.get(name) for config in configs}) > 1}


def _flat(config: Mapping[str, Any], ignored: Collection[str]) -> dict[str, str]:
    below = tuple(name for name in ignored if name.endswith("."))
    return {
        k: _value(v)
        for k, v in config.items()
        if k.rpartition(".")[2] not in _NO_SETTING and k not in ignored and not k.startswith(below)
    }


def _value(value: Any) -> str:
    """A configuration value as a label; a long one (a prompt) by its hash."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if len(text) > _LONGEST_VALUE_CHARS or "\n" in text:
        return f"sha1:{hashlib.sha1(text.encode()).hexdigest()[:8]}"
    return text


def one_run_per_seed(runs: pd.DataFrame) -> None:
    """Refuse what could only be pooled by counting tasks twice or by mixing versions of the protocol."""
    records = records_of(runs.sort_values("seed"))
    for i, one in enumerate(records):
        for other in records[i + 1 :]:
            if one["seed"] != other["seed"] and one["protocol"] == other["protocol"]:
                continue
            same = f"seed {one['seed']}" if one["seed"] == other["seed"] else "one row of the table"
            why = (
                f"protocol {one['protocol']} and {other['protocol']}"
                if one["protocol"] != other["protocol"]
                else f"digests {one['digest']} and {other['digest']}"
            )
            raise ConfigError(
                f"two runs of {one['method']} with the same configuration for {same}: {one['run_dir']} and "
                f"{other['run_dir']} ({why}); move one away, or pass --runs with a narrower folder"
            )


# ------------------------------------------------------------------------------------ order of rows


def order(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort key of a row of a table."""
    blocks = tuple(_natural(row[c]) for c in BLOCK)
    return (*blocks, place(row["method"]), _natural(row["variant"]), _natural(row["setting"]))


def place(method: object) -> tuple[int, str]:
    """Sort key of a method."""
    known = METHOD_ORDER.index(str(method)) if method in METHOD_ORDER else len(METHOD_ORDER)
    return known, str(method)


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Sort key by which qwen3-8b comes before qwen3-32b."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]
