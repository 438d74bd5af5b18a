"""What serving an agent takes: ``python -m analysis.serving [--runs DIR] [--tables DIR] [--hardware h200]``.

Rewriting a prompt throws away what a prefix cache holds of it. From the records alone, per episode: the prompt tokens
that were prefilled and those that the cache served (as the engine reported; where a call of a row has no such number,
as :mod:`analysis.prefix_cache` models, for all its calls), the tokens that had been computed before and were computed
*again*, per compaction too, the calls of agent and method, decoded tokens, the engine's seconds, and the cache memory
that an agent holds while it waits for its tools. By the roofline (``analysis.roofline``) also the seconds of a device,
with prefix caching and without, per episode and per correct answer, with an interval over all episodes: bootstrap over
tasks, those of one task under several seeds drawn together.

Writes ``serving_<harness>``. Exit status 2, with one line on standard error, for bad input.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import frames, plot, prefix_cache, render, settings
from analysis.accuracy import SCRIPTED, UNSCORED, accuracy, kinds, reasons_of
from analysis.render import DASH, Sheet, number
from analysis.roofline import CACHED, UNCACHED, Roofline, Switches
from analysis.roofline_facts import BYTES, Hardware, ModelFacts
from analysis.rows import records_of
from analysis.settings import CONF
from arcbench import records
from arcbench.checks import above, whole
from arcbench.records import RunError
from arcbench.types import ConfigError

SETTINGS = CONF / "statistics/serving.yaml"
RECORDED, MODELLED = "recorded", "modelled"
GB = 1e9
_NAMES = ("profile", "budget", "recall", "engine", "model", "method", "variant", "setting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """``conf/statistics/serving.yaml`` says what each number is."""

    cache_block_tokens: int
    level: float
    resamples: int
    resampling_seed: int

    def __post_init__(self) -> None:
        """Raises :class:`ConfigError` for a number that is none of those allowed."""
        for key, least in (("cache_block_tokens", 1), ("resamples", 1), ("resampling_seed", 0)):
            whole(key, getattr(self, key), least)
        if not above("level", self.level, 0) < 1:
            raise ConfigError(f"level={self.level}: must be below 1")

    @classmethod
    def read(cls, path: Path = SETTINGS) -> Settings:
        """From a YAML file. Raises :class:`ConfigError`, ``OSError``."""
        return cls(**settings.read(path, [field.name for field in fields(cls)]))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.serving", description="What serving an agent takes.")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the tables go to")
    parser.add_argument("--hardware", default="h200", help="device of the roofline, of conf/hardware")
    parser.add_argument(
        "--reader-as", default="qwen3-8b", help="model whose architecture the scripted reader is charged"
    )
    args = parser.parse_args(argv)
    try:
        given = Settings.read()
        loaded = read(args.runs, given.cache_block_tokens)
        charge = Charge(Hardware.read(args.hardware), str(args.reader_as))
        for _, harness, some in kinds(loaded.runs):
            its = loaded.calls[loaded.calls["run_dir"].isin(some["run_dir"])]
            made = sheet(harness, table(some, loaded.episodes, its, charge, given), charge, given)
            print(render.markdown(made))
            for path in (
                *render.write(made, args.tables),
                *draw_policy(made.data, args.tables / f"{made.name}_policy"),
            ):
                print(f"wrote {path}")
        if loaded.runs["engine"].isin(UNSCORED).all():
            raise RunError(f"{args.runs}: only runs of engines whose tokens say nothing ({', '.join(UNSCORED)})")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


# ----------------------------------------------------------------------------------- from records


def read(root: Path | str, block_tokens: int) -> records.Frames:
    """As ``analysis.frames.load``, with the columns of :func:`analysis.prefix_cache.part` on each call."""
    loaded, own = frames.load_with(root, {"cache": prefix_cache.part(block_tokens)})
    calls = loaded.calls.merge(own["cache"], on=["run_dir", "task", "number"], validate="one_to_one")
    return replace(loaded, calls=calls)


@dataclass(frozen=True)
class Charge:
    """On which device a model is charged; the scripted reader as the model ``reader_as``."""

    hardware: Hardware
    reader_as: str

    def roofline(self, model: str, dtype: str | None, prefill: str) -> Roofline | None:
        """Of a model that ran in this ``dtype`` (the reader's is as the paper's), with a prefix cache or without;
        ``None`` where its architecture is not known."""
        try:
            facts = ModelFacts.read(self.reader_as if model == SCRIPTED else model)
        except ConfigError:
            if model == SCRIPTED:
                raise
            return None
        width = BYTES.get(dtype or "")
        widths: dict[str, Any] = {"weight_bytes_per_parameter": width, "kv_bytes_per_element": width} if width else {}
        return Roofline(model=facts, hardware=self.hardware, switches=Switches.read(prefill=prefill, **widths))


def served(calls: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The calls with one ``cached_tokens`` each, and where that is from: all recorded, or all modelled."""
    if calls["cached_tokens"].isna().any():
        return calls.assign(cached_tokens=calls["modelled_tokens"]), MODELLED
    return calls, RECORDED


def episodes_of(calls: pd.DataFrame, charge: Charge, model: str, dtype: str | None) -> pd.DataFrame:
    """One row an episode of a model's calls, which have one ``cached_tokens`` each: tokens, seconds of a device."""
    cached, prompt = calls["cached_tokens"].astype(float), calls["prompt_tokens"].astype(float)
    # what was computed before and is not served is computed again
    again = (calls["seen_tokens"].astype(float).clip(upper=prompt) - cached).clip(lower=0.0)
    each = calls[["run_dir", "task"]].assign(
        agent_calls=calls["billed"] == "agent",
        method_calls=calls["billed"] != "agent",
        prompt_tokens=prompt,
        cached_tokens=cached,
        prefilled_tokens=prompt - cached,
        again_tokens=again,
        after_compaction_tokens=again.where(calls["compacted"].astype(bool), 0.0),
        decode_tokens=calls["completion_tokens"].astype(float),
        engine_s=calls["latency_s"].astype(float),
    )
    made = each.groupby(["run_dir", "task"], sort=False).sum(min_count=1).reset_index()
    held = (prompt + calls["completion_tokens"])[calls["billed"] == "agent"]
    for name, how in (("held_tokens", "mean"), ("held_most_tokens", "max")):
        made[name] = _by_episode(calls.loc[held.index], held, how, made)
    for prefill in (CACHED, UNCACHED):
        roofline = charge.roofline(model, dtype, prefill)
        if roofline is not None:
            costs = roofline.episodes(calls)[["run_dir", "task", "total_s"]]
            made = made.merge(costs.rename(columns={"total_s": f"{prefill}_s"}), on=["run_dir", "task"])
            made["kv_bytes_per_token"] = roofline.kv_bytes_per_token
    return made


def _by_episode(calls: pd.DataFrame, values: pd.Series[float], how: str, episodes: pd.DataFrame) -> list[float]:
    found = values.groupby([calls["run_dir"], calls["task"]]).agg(how)
    places = pd.MultiIndex.from_frame(episodes[["run_dir", "task"]])
    return found.reindex(places).tolist()


# ------------------------------------------------------------------------------------------ numbers


def table(
    runs: pd.DataFrame, episodes: pd.DataFrame, calls: pd.DataFrame, charge: Charge, given: Settings
) -> pd.DataFrame:
    """One row for each method in each setting: the columns of :func:`analysis.accuracy.accuracy` and what serving its
    episodes took. Raises :class:`ConfigError` for a call without token counts."""

    def own(group: pd.DataFrame, its: pd.DataFrame) -> dict[str, Any]:
        ran = its.loc[its["outcome"] != "error", ["run_dir", "task", "outcome", "compactions"]]
        mine = calls[calls["run_dir"].isin(group["run_dir"])].merge(ran[["run_dir", "task"]], on=["run_dir", "task"])
        mine, source = served(mine)
        dtype = group["config"].iloc[0].get("model.dtype")
        made = episodes_of(mine, charge, str(group["model"].iloc[0]), dtype).merge(ran, on=["run_dir", "task"])
        config = group["config"].iloc[0]
        share = {"compact_to_share": config.get("budget.compact_to_share")}
        return {"cache": source if len(made) else ""} | share | _row(made, given)

    return accuracy(runs, episodes, own)


def _row(made: pd.DataFrame, given: Settings) -> dict[str, Any]:
    compactions = made["compactions"].sum()
    row: dict[str, Any] = {
        "prefilled_tokens_per_episode": made["prefilled_tokens"].mean(),
        "served_tokens_per_episode": made["cached_tokens"].mean(),
        "hit_rate_pct": 100 * _over(made["cached_tokens"].sum(), made["prompt_tokens"].sum()),
        "again_tokens_per_episode": made["again_tokens"].mean(),
        "again_tokens_per_compaction": _over(made["after_compaction_tokens"].sum(), compactions),
        "decode_tokens_per_episode": made["decode_tokens"].mean(),
        "engine_s_per_episode": made["engine_s"].mean(skipna=False),
    }
    if "kv_bytes_per_token" not in made:
        return row
    gb = made["kv_bytes_per_token"] / GB
    row |= {
        "waiting_gb": (made["held_tokens"] * gb).mean(),
        "waiting_most_gb": (made["held_most_tokens"] * gb).max(),
    }
    for prefill in (CACHED, UNCACHED):
        for per, counted in (("episode", made["outcome"] != ""), ("success", made["outcome"] == "correct")):
            name, seconds = f"{prefill}_s_per_{per}", made[f"{prefill}_s"]
            row[name] = _over(seconds.sum(), counted.sum())
            row[f"{name}_low"], row[f"{name}_high"] = interval(seconds, counted, made["task"], given)
    return row


def interval(
    seconds: pd.Series[float], counted: pd.Series[bool], tasks: pd.Series[str], given: Settings
) -> tuple[float, float]:
    """Interval of the seconds of all episodes over those that count (the correct ones, say): tasks are drawn again,
    with all their episodes; where none of them counts the ratio is infinite. NaN for fewer than two tasks or none
    that counts."""
    sums = pd.DataFrame({"task": tasks, "s": seconds, "n": counted.astype(float)}).groupby("task").sum()
    if len(sums) < 2 or not sums["n"].sum():
        return math.nan, math.nan
    draw = np.random.default_rng(given.resampling_seed)
    values = sums.to_numpy()
    ratios = np.empty(given.resamples)
    for i in range(given.resamples):  # one at a time: a large study's draws would not fit in memory
        total, n = values[draw.integers(0, len(values), len(values))].sum(axis=0)
        ratios[i] = total / n if n else math.inf
    low, high = np.quantile(ratios, [(1 - given.level) / 2, (1 + given.level) / 2], method="inverted_cdf")
    return float(low), float(high)


def _over(part: float, whole_: float) -> float:
    return float(part / whole_) if whole_ else math.nan


# ------------------------------------------------------------------------------- what people read


def sheet(harness: str, data: pd.DataFrame, charge: Charge, given: Settings) -> Sheet:
    """The table of one harness."""
    scripted = set(data["engine"]) == {SCRIPTED}
    common = {c: data[c].iloc[0] for c in _NAMES if data[c].nunique() == 1 and c != "method"}
    shown = [c for c in _NAMES if c not in common]
    body = [{c: row[c] or DASH for c in shown} | _cells(row) for row in records_of(data)]
    lead = [
        "Per episode, means over all that were run. Prefilled, served: prompt tokens that were computed, and that the "
        "prefix cache had; again: computed though an earlier prompt of the episode held them; again a compaction: by "
        "the first call after it. Waiting: cache memory that an agent holds between two calls, mean and most.",
        f"Device seconds are the roofline's on the {charge.hardware.id}, not measured; per correct answer: of all "
        f"episodes; with {100 * given.level:.0f} % intervals by bootstrap over tasks.",
    ]
    if any(common.values()):
        lead.append(f"All rows: {', '.join(f'{name} {value}' for name, value in common.items() if value)}.")
    if scripted:
        lead.insert(
            0, f"No language model took part: the reader's replies are short, and charged as {charge.reader_as}'s."
        )
    return Sheet(
        name=f"serving_{'mechanism_' if scripted else ''}{harness}",
        title=f"What serving takes, {harness}{' (scripted engine)' if scripted else ''}",
        lead=tuple(lead),
        data=data,
        body=pd.DataFrame(body),
        text_columns=frozenset({*_NAMES, "cache", "no answer because"}),
        notes=tuple(_notes(data, given)),
    )


def _cells(row: dict[str, Any]) -> dict[str, str]:
    def count(key: str) -> str:
        return number(row.get(key), 0)

    def seconds(name: str) -> str:
        ends = [number(row.get(f"{name}_{end}"), 3) for end in ("low", "high")]
        value = number(row.get(name), 3)
        return value if DASH in ends else f"{value} ({ends[0]} to {ends[1]})"

    return {
        "cache": row["cache"] or DASH,
        "calls": f"{number(row['agent_calls_per_episode'], 1)} + {number(row['method_calls_per_episode'], 1)}",
        "compactions": number(row["compactions_per_episode"], 1),
        "prefilled": count("prefilled_tokens_per_episode"),
        "served": count("served_tokens_per_episode"),
        "hit rate %": number(row.get("hit_rate_pct"), 1),
        "again": count("again_tokens_per_episode"),
        "again a compaction": count("again_tokens_per_compaction"),
        "decoded": count("decode_tokens_per_episode"),
        "engine s": number(row.get("engine_s_per_episode"), 2),
        "waiting GB": f"{number(row.get('waiting_gb'), 3)}, {number(row.get('waiting_most_gb'), 3)}",
        "device s, cached": seconds(f"{CACHED}_s_per_episode"),
        "device s, uncached": seconds(f"{UNCACHED}_s_per_episode"),
        "per correct, cached": seconds(f"{CACHED}_s_per_success"),
        "per correct, uncached": seconds(f"{UNCACHED}_s_per_success"),
        "planned/run/error": "/".join(str(row[key]) for key in ("n_planned", "n_run", "n_error")),
        "correct": str(row["n_success"]),
        "no answer because": reasons_of(row),
    }


def _notes(data: pd.DataFrame, given: Settings) -> Iterator[str]:
    yield "Calls: the agent's + the method's own."
    if MODELLED in set(data["cache"]):
        yield (
            f"cache modelled: the engine did not report what its cache served; the longest common prefix with the "
            f"episode's earlier prompts, in whole messages and blocks of {given.cache_block_tokens} tokens, is a lower "
            "bound for a cache that evicts nothing."
        )
    if RECORDED in set(data["cache"]):
        yield "cache recorded: as the engine reported, in blocks of its own, with hits on other episodes' prompts."
    played = [row for row in records_of(data) if row["n_run"]]
    unknown = sorted({row["model"] for row in played if pd.isna(row.get("cached_s_per_episode", math.nan))})
    if unknown:
        yield f"Of {', '.join(unknown)} no architecture facts are known (conf/model), so there are no device seconds."
    for row in records_of(data):
        if row["incomplete"]:
            name = ", ".join(row[c] for c in _NAMES if row[c])
            yield f"{name} is incomplete: {row['incomplete']}; what that would take is in no number here."


def draw_policy(data: pd.DataFrame, stem: Path) -> list[Path]:
    """Hit rate by how far a compaction makes room, a line a method; nothing where all runs have one policy."""
    played = data[(data["n_run"] > 0) & data["compact_to_share"].notna() & data["hit_rate_pct"].notna()]
    if played["compact_to_share"].nunique() < 2:
        return []
    figure, axis = plot.pyplot().subplots(figsize=(7.0, 4.0), layout="constrained")
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in records_of(played):
        label = " ".join(part for part in (row["method"], row["variant"] and f"({row['variant']})") if part)
        lines.setdefault((row["method"], label), []).append((float(row["compact_to_share"]), row["hit_rate_pct"]))
    for (method, label), points in lines.items():
        axis.plot(*zip(*sorted(points), strict=True), label=label, **plot.look(method))
    axis.set_xlabel("share of the usable prompt that a compaction leaves (1: just what fits)")
    axis.set_ylabel("prompt tokens served from the prefix cache, %")
    axis.set_ylim(0, 100)
    axis.invert_xaxis()
    figure.legend(loc="outside right center", fontsize=8)
    return plot.save(figure, stem)


if __name__ == "__main__":
    sys.exit(main())
