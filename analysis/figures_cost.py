"""The figures of cost: device time and memory traffic by the roofline, over all episodes that were run.

The paper's figures, which are over successes, stand beside its own models as in its tables (``arc_table03`` and
``arc_table04``), hollow. Prefill is uncached, as in the paper; ``analysis.serving`` has the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import arc_roofline, declared, plot
from analysis.accuracy import accuracy
from analysis.declared import Spec
from analysis.reference import Reference
from analysis.roofline import UNCACHED, Roofline, Switches
from analysis.roofline_facts import Hardware, ModelFacts
from analysis.rows import records_of
from arcbench.types import ConfigError

TABLES: Mapping[str, tuple[str, str]] = {
    "needle": ("arc_table04", "arc_table02"),
    "longbench_v2_hard": ("arc_table03", "arc_table01"),
}
"""The paper's tables of cost and of accuracy, by benchmark."""
_ELSEWHERE = "needle"
"""Whose device, and whose model for the reader, a benchmark without such a table is charged as."""


def priced(harness: str, runs: pd.DataFrame, episodes: pd.DataFrame, calls: pd.DataFrame) -> pd.DataFrame:
    """One row for each method in each setting: the columns of :func:`analysis.accuracy.accuracy`, ``run_dirs``, those
    of :func:`analysis.arc_roofline.means`, and the paper's (``paper_t_total_s``, ``paper_bandwidth_tb``,
    ``paper_accuracy_pct``). Rows of a model of unknown architecture, and of calls without token counts, have no cost.
    ``runs`` are those of :func:`analysis.rows.settings_apart`. Raises :class:`ConfigError` where a model does not fit
    on the device."""
    cost, scored = TABLES.get(harness, TABLES[_ELSEWHERE])
    spec = Spec.read(declared.FOLDER / f"{cost}.yaml")
    hardware, switches = Hardware.read(str(spec.hardware)), replace(Switches.read(), prefill=UNCACHED)
    beside = declared.beside_paper(spec, runs)
    published = _published(cost, scored)

    def own(group: pd.DataFrame, its: pd.DataFrame) -> dict[str, Any]:
        first = records_of(group)[0]
        ran = its.loc[its["outcome"] != "error", ["run_dir", "task"]]
        mine = calls[calls["run_dir"].isin(group["run_dir"])].merge(ran, on=["run_dir", "task"])
        made: dict[str, Any] = {key: first[key] for key in ("shared", "own")} | {"run_dirs": tuple(group["run_dir"])}
        if beside.issuperset(group["run_dir"]):
            made |= published.get((first["model"], first["method"]), {})
        if mine.empty or mine[["prompt_tokens", "completion_tokens"]].isna().any(axis=None):
            return made
        try:
            facts = ModelFacts.read(arc_roofline.model_of(spec, first))
        except ConfigError:
            return made
        costs = Roofline(model=facts, hardware=hardware, switches=switches).episodes(mine)
        return made | arc_roofline.means(costs)

    columns = ["t_decode_s", "t_prefill_s", "bandwidth_tb", "paper_t_total_s", "paper_bandwidth_tb",
               "paper_accuracy_pct"]  # fmt: skip
    made = accuracy(runs, episodes, own)
    return made.reindex(columns=[*made.columns, *(column for column in columns if column not in made)])


def _published(cost: str, scored: str) -> dict[tuple[str, str], dict[str, float]]:
    """The paper's cost and accuracy by model and method."""
    reference = Reference()
    both = reference.table(cost).merge(reference.table(scored), on=["model", "method"])
    columns = ("t_total_s", "bandwidth_tb", "accuracy_pct")
    return {
        (row["model"], row["method"]): {f"paper_{column}": float(row[column]) for column in columns}
        for row in records_of(both)
    }


def traffic(rows: pd.DataFrame, stem: Path) -> list[Path]:
    """Accuracy against the memory traffic of an episode's decoding, in TB, a panel for each model, budget, profile and
    recall point; up and to the left is better."""
    panels = plot.panels(rows[rows["bandwidth_tb"] > 0])  # one without a reply decoded nothing
    if not panels:
        return []
    from matplotlib.ticker import LogLocator

    figure, axes = plot.grid(len(panels), height=3.6)
    for axis, (title, its) in zip(axes, panels.items(), strict=True):
        for row in its:
            look = plot.look(row["method"]) | {"linestyle": "none"}
            axis.plot(row["bandwidth_tb"], row["accuracy_pct"], label=plot.label(row), markersize=7, **look)
            if not pd.isna(row["paper_bandwidth_tb"]):
                axis.plot(row["paper_bandwidth_tb"], row["paper_accuracy_pct"], markersize=9, markerfacecolor="none",
                          **look)  # fmt: skip
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.xaxis.set_minor_formatter("")
        axis.grid(color="0.9")
        there = any(not pd.isna(row["paper_bandwidth_tb"]) for row in its)
        axis.set_xlabel("traffic, TB an episode" + (" (hollow: the paper's, of successes)" if there else ""))
        axis.set_ylabel("correct, % of planned tasks")
        axis.set_ylim(-4, 104)
        axis.set_title(title, fontsize=9)
    plot.legend(figure, axes)
    return plot.save(figure, stem)


def bars(rows: pd.DataFrame, stem: Path) -> list[Path]:
    """Device seconds of an episode, decode and prefill, and beside them its traffic in TB: a pair of panels for each
    model, budget, profile and recall point."""
    panels = plot.panels(rows[rows["t_prefill_s"].notna()])
    if not panels:
        return []
    figure, axes, most = plot.bar_panels(panels, a_panel=2)
    for i, (title, its) in enumerate(panels.items()):
        time, volume = axes[2 * i : 2 * i + 2]
        at = np.arange(len(its))
        decode, prefill, tb, paper_s, paper_tb = (
            np.array([row[key] for row in its], dtype=float)
            for key in ("t_decode_s", "t_prefill_s", "bandwidth_tb", "paper_t_total_s", "paper_bandwidth_tb")
        )
        time.barh(at, decode, height=0.7, color=plot.COLOURS[5], label="decode")
        time.barh(at, prefill, height=0.7, left=decode, color=plot.COLOURS[2], hatch="//", edgecolor="white",
                  label="prefill")  # fmt: skip
        volume.barh(at, tb, height=0.7, color=plot.COLOURS[5])
        for axis, paper, words in ((time, paper_s, "device seconds"), (volume, paper_tb, "decode traffic, TB")):
            axis.plot(paper, at, linestyle="none", marker="D", markerfacecolor="white", markeredgecolor="black",
                      label="the paper's, of successes" if np.isfinite(paper).any() else None)  # fmt: skip
            plot.bar_rows(axis, its, most)
            axis.set_xlabel(f"{words} an episode")
            axis.set_title(title, fontsize=9)
    plot.legend(figure, axes)
    return plot.save(figure, stem)
