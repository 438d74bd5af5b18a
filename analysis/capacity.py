"""What serving agents would cost: ``python -m analysis.capacity model=... hardware=... price_usd_per_gpu_hour=...``.

For the recorded trajectories below ``runs=DIR``, as if ``model`` had played them on ``hardware``: how many agents fit
at once, episodes per GPU-hour and dollars per thousand episodes and per thousand correct ones, for each method, by the
roofline (``analysis.roofline``, whose switches may be given too). Then the same for more GPUs and narrower numbers:
under *tensor* parallelism one replica spreads over the GPUs, so weights are held once and more agents fit; under *data*
parallelism each GPU is a replica. Communication between GPUs is left out, which favours tensor parallelism.

An agent takes the cache of its longest context while it waits for its tools; ``agents`` counts those that fit with it,
``batch`` those that the roofline decodes together. Prefill is uncached unless ``prefill=cached``: then less what the
cache served, as the engine recorded it, or for a row where a call does not say as ``analysis.prefix_cache`` models it.

Writes ``capacity_<harness>``, ``capacity_scaling_<harness>`` and a figure of context length against batch and time to
``tables=DIR``. Exit status 2, with one line on standard error, for bad input.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import plot, render, serving
from analysis.accuracy import accuracy, kinds
from analysis.render import DASH, Sheet, number
from analysis.roofline import Roofline, Switches, pairs_of
from analysis.roofline_facts import Hardware, ModelFacts
from analysis.rows import records_of
from arcbench.checks import above
from arcbench.records import RunError
from arcbench.types import ConfigError

GPUS = (1, 2, 4, 8)
BYTES = {"16 bit": (2, 2), "8-bit weights": (1, 2), "8-bit cache": (2, 1), "8-bit both": (1, 1)}
"""Precisions of the scaling table: bytes of a parameter, and of an element of the cache."""
CONTEXTS = tuple(2**power for power in range(10, 18))
HOUR_S, THOUSAND, GB = 3600, 1000, 1e9
_NAMES = ("profile", "budget", "recall", "method", "variant", "setting")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = sys.argv[1:] if argv is None else argv
    if "--help" in words:
        print(__doc__)
        return 0
    try:
        given = pairs_of(words)
        named = {key: given.pop(key, None) for key in ("model", "hardware", "price_usd_per_gpu_hour")}
        runs, tables = (Path(str(given.pop(key, f"results/{key}"))) for key in ("runs", "tables"))
        for key, value in named.items():
            if value is None:
                raise ConfigError(f"{key}=: must be given, as in model=qwen3-8b hardware=h200 price_usd_per_gpu_hour=3")
        price = above("price_usd_per_gpu_hour", named["price_usd_per_gpu_hour"], 0)
        facts, hardware = ModelFacts.read(str(named["model"])), Hardware.read(str(named["hardware"]))
        roofline = Roofline(model=facts, hardware=hardware, switches=Switches.read(**given))
        read = serving.read(runs, serving.Settings.read().cache_block_tokens)
        for kind, harness, some in kinds(read.runs):
            its = read.calls[read.calls["run_dir"].isin(some["run_dir"])]
            name = f"{harness}_{kind}" if kind == "mechanism" else harness
            data = accuracy(some, read.episodes, partial(_row, calls=its, roofline=roofline, price=price))
            for made in (sheet(name, data, roofline, named), scaling(name, data, its, roofline, price)):
                print(render.markdown(made))
                for path in render.write(made, tables):
                    print(f"wrote {path}")
        for path in draw(roofline, tables / f"capacity_{hardware.id}"):
            print(f"wrote {path}")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


# ------------------------------------------------------------------------------------------ numbers


def _row(
    group: pd.DataFrame, own: pd.DataFrame, calls: pd.DataFrame, roofline: Roofline, price: float
) -> dict[str, Any]:
    ran = own.loc[own["outcome"] != "error", ["run_dir", "task", "outcome"]]
    its = calls[calls["run_dir"].isin(group["run_dir"])].merge(ran, on=["run_dir", "task"])
    row: dict[str, Any] = {"run_dirs": tuple(group["run_dir"])}
    return row | (planned(its, ran, roofline, price) if len(its) else {})


def planned(calls: pd.DataFrame, ran: pd.DataFrame, roofline: Roofline, price: float) -> dict[str, Any]:
    """What so many GPUs (``n_gpu``, one replica) do with the episodes of these calls."""
    costs = roofline.episodes(serving.served(calls)[0])
    agent = calls[calls["billed"] == "agent"]
    longest = (agent["prompt_tokens"] + agent["completion_tokens"]).groupby([agent["run_dir"], agent["task"]]).max()
    held = float(longest.mean())
    gpus = roofline.switches.n_gpu
    seconds = float(costs["total_s"].mean())  # of the whole replica
    correct = int((ran["outcome"] == "correct").sum())
    usd = price * gpus * seconds / HOUR_S
    return {
        "n_gpu": gpus,
        "longest_context_tokens": held,
        "agents": math.floor(roofline.kv_bytes / (held * roofline.kv_bytes_per_token)),
        "batch": float(costs["batch"].mean()),
        "device_s_per_episode": seconds * gpus,
        "episodes_per_gpu_hour": HOUR_S / (seconds * gpus),
        "usd_per_1000_episodes": THOUSAND * usd,
        "usd_per_1000_correct": THOUSAND * usd * len(ran) / correct if correct else math.nan,
    }


def scalings(roofline: Roofline) -> Iterator[tuple[str, str, int, Roofline | ConfigError]]:
    """Precision, parallelism, GPUs, and the roofline of one replica, or why it does not fit."""
    for precision, (weight, cache) in BYTES.items():
        for parallel in ("tensor", "data"):
            for gpus in GPUS:
                switches = replace(
                    roofline.switches, weight_bytes_per_parameter=weight, kv_bytes_per_element=cache,
                    n_gpu=gpus if parallel == "tensor" else 1,
                )  # fmt: skip
                if parallel == "data" and gpus == 1:
                    continue  # the same as tensor parallelism over one
                try:
                    yield precision, parallel, gpus, replace(roofline, switches=switches)
                except ConfigError as fault:
                    yield precision, parallel, gpus, fault


# ------------------------------------------------------------------------------- what people read


def sheet(name: str, data: pd.DataFrame, roofline: Roofline, named: dict[str, Any]) -> Sheet:
    """A row a method."""
    common = {c: data[c].iloc[0] for c in _NAMES if c != "method" and data[c].nunique() == 1}
    shown = [c for c in _NAMES if c not in common]
    body = [{c: row[c] or DASH for c in shown} | _cells(row) for row in records_of(data)]
    device, price = f"{roofline.switches.n_gpu} x {roofline.hardware.id}", named["price_usd_per_gpu_hour"]
    lead = [
        f"As if {named['model']} had played the recorded trajectories on {device} at {price} dollars a GPU-hour: by "
        f"the roofline, not measured, prefill {roofline.switches.prefill}, the GPU always busy.",
        "Agents: those whose longest context fits in memory at once; batch: those decoded together, at their mean "
        "context.",
    ]
    if any(common.values()):
        lead.append(f"All rows: {', '.join(f'{key} {value}' for key, value in common.items() if value)}.")
    return Sheet(
        name=f"capacity_{name}", title=f"Capacity, {name}", lead=tuple(lead), data=data.drop(columns="run_dirs"),
        body=pd.DataFrame(body), text_columns=frozenset(_NAMES), notes=(),
    )  # fmt: skip


def _cells(row: dict[str, Any]) -> dict[str, str]:
    return {
        "episodes": str(row["n_run"]),
        "correct": str(row["n_success"]),
        "longest context": number(row.get("longest_context_tokens"), 0),
        "agents": number(row.get("agents"), 0),
        "batch": number(row.get("batch"), 1),
        "device s an episode": number(row.get("device_s_per_episode"), 3),
        "episodes a GPU-hour": number(row.get("episodes_per_gpu_hour"), 0),
        "usd per 1,000 episodes": number(row.get("usd_per_1000_episodes")),
        "usd per 1,000 correct": number(row.get("usd_per_1000_correct")),
    }


def scaling(name: str, data: pd.DataFrame, calls: pd.DataFrame, roofline: Roofline, price: float) -> Sheet:
    """A row a method, precision, parallelism and number of GPUs."""
    rows, unfit = [], {}
    for row in records_of(data):
        its = calls[calls["run_dir"].isin(row["run_dirs"])]
        if its.empty:
            continue
        ran = its[["run_dir", "task"]].drop_duplicates().assign(outcome="")
        for precision, parallel, gpus, one in scalings(roofline):
            if isinstance(one, ConfigError):
                unfit[f"{precision}, {parallel}, {gpus} GPUs"] = str(one)
                continue
            replicas = gpus // one.switches.n_gpu
            found = planned(its, ran, one, price)
            rows.append(
                {key: row[key] for key in _NAMES}
                | {"precision": precision, "parallel": parallel, "n_gpu": gpus, "agents": found["agents"] * replicas}
                | {"episodes_per_hour": found["episodes_per_gpu_hour"] * gpus}
                | {key: found[key] for key in ("batch", "episodes_per_gpu_hour", "usd_per_1000_episodes")}
            )
    made = pd.DataFrame(rows)
    words = [*_NAMES, "precision", "parallel"]
    body = made.copy()
    if len(made):
        body = made[[c for c in words if c in ("method", "precision", "parallel") or made[c].nunique() > 1]].replace(
            "", DASH
        )
        body["GPUs"], body["agents"] = made["n_gpu"].map(str), made["agents"].map(str)
        body["episodes an hour"] = made["episodes_per_hour"].map(lambda v: number(v, 0))
        body["episodes a GPU-hour"] = made["episodes_per_gpu_hour"].map(lambda v: number(v, 0))
        body["usd per 1,000 episodes"] = made["usd_per_1000_episodes"].map(number)
    return Sheet(
        name=f"capacity_scaling_{name}",
        title=f"Capacity by GPUs and precision, {name}",
        lead=("Tensor: one replica over all GPUs; data: a replica a GPU. Communication is left out.",),
        data=made,
        body=body,
        text_columns=frozenset(words),
        notes=tuple(f"{what}: {why}." for what, why in unfit.items()),
    )


def draw(roofline: Roofline, stem: Path) -> list[Path]:
    """Context length against batch, and against the time of a thousand decoded tokens of all sequences together."""
    figure, (left, right) = plot.pyplot().subplots(1, 2, figsize=(9.0, 3.6), layout="constrained")
    for i, (precision, (weight, cache)) in enumerate(BYTES.items()):
        switches = replace(roofline.switches, weight_bytes_per_parameter=weight, kv_bytes_per_element=cache)
        one = replace(roofline, switches=switches)
        made = [one.constants(context) for context in CONTEXTS]
        style = {"color": plot.COLOURS[i], "linestyle": plot.STYLES[i], "marker": plot.MARKERS[i], "label": precision}
        left.plot(CONTEXTS, [each["batch"] for each in made], **style)
        right.plot(CONTEXTS, [THOUSAND * each["decode_s_per_token"] for each in made], **style)
    for axis, what in ((left, "sequences decoded together"), (right, "device seconds per 1,000 decoded tokens")):
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xlabel("context, tokens")
        axis.set_ylabel(what)
        axis.grid(alpha=0.3)
    left.legend(fontsize=8)
    return plot.save(figure, stem)


if __name__ == "__main__":
    sys.exit(main())
