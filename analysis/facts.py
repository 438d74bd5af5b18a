"""N facts, and which one is asked for is said last: ``python -m analysis.facts [--runs results/facts]``.

Reads runs of ``experiment=vista_facts`` and holds them against VISTA's Proposition 1: N independent values of k bits, a
prompt state of B bits, the question afterwards; then a method that cannot recover what left its prompt is right with
probability at most B/(Nk) + 1/k. Here the values are random characters, which nothing can say in fewer bits, so a state
that holds r of them verbatim has B = rk bits about them, and the bound is r/N and the chance of guessing the others.

- ``facts_<harness>``: accuracy by method and number of facts, beside the share r/N of the values that stood in the
  prompt when the question came (also as ``.svg`` and ``.png``);
- ``facts_cells_<harness>``: the same cell by cell, with intervals and both forms of the bound.

The exit status is 1, with a line for each case on standard error, when a method that cannot recover gave a right answer
whose value was not in its prompt, or more right answers than the share explains; it is 2 for bad input.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import plot, render, settings
from analysis.accuracy import accuracy
from analysis.frames import load
from analysis.render import DASH, Sheet, number
from analysis.rows import place, records_of
from analysis.settings import CONF
from arcbench.records import Run, RunError, runs_below
from arcbench.types import ConfigError, Json

BLOCK = ("harness", "profile", "budget", "recall", "engine", "model", "orders")
"""Runs that agree in these stand in one table row after row, and in one figure."""

WITHOUT_RECOVERY = (
    "full_context",
    "sliding_window",
    "llm_summary",
    "structured_state",
    "vista_no_recovery",
    "vista_no_archive",
)
"""The methods under which what has left the prompt cannot be brought back: those that the proposition bounds."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.facts", description="Many facts, one asked for last.")
    parser.add_argument("--runs", type=Path, default=Path("results/facts"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the sheets go to")
    parser.add_argument("--settings", type=Path, default=CONF / "theory/facts.yaml", help="numbers of the check")
    args = parser.parse_args(argv)
    try:
        settings = Settings.read(args.settings)
        episodes = measured(runs_below(args.runs))
        if episodes.empty:
            raise ConfigError(f"{args.runs}: no episodes with facts here; make some with experiment=vista_facts")
        found = cells(args.runs, episodes, settings)
        for harness, of_harness in found.groupby("harness"):
            for sheet in (table(of_harness, faults_of(episodes, str(harness))), cell_sheet(of_harness)):
                print(render.markdown(sheet))
                for path in render.write(sheet, args.tables):
                    print(f"wrote {path}")
            for path in draw(of_harness, args.tables / f"facts_{harness}"):
                print(f"wrote {path}")
    except (ConfigError, RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    wrong = violations(found, episodes)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The numbers of the check (``conf/theory/facts.yaml`` says what each is)."""

    vocabulary: int
    standard_errors: float

    @classmethod
    def read(cls, path: Path) -> Settings:
        """From a YAML file. Raises :class:`ConfigError`, ``OSError``."""
        keys = ("vocabulary", "standard_errors")
        given = settings.read(path, keys)
        for key in keys:
            if isinstance(given[key], bool) or not isinstance(given[key], int | float) or not given[key] > 1:
                raise ConfigError(f"{key}={given[key]}: must be a number above 1")
        return cls(**given)


# ----------------------------------------------------------------------------------- from records


@dataclass(frozen=True, slots=True)
class State:
    """The prompt state when the question came: the view of the call that asked for the last page, with that page.
    Where the question never came (``asked`` false): the last view there was."""

    asked: bool
    tokens: int
    values: int
    """Of the task's values, those that stand in it verbatim (r)."""
    has_value: bool
    """Whether the asked one does."""


def state_of(record: Mapping[str, Json]) -> State:
    """The state of one episode when the question came."""
    facts, messages = record["facts"], record["messages"]
    views = views_of(record)
    last = f"next {facts['codes'][-1]}"
    pages = [t for t in record["turns"] if t["action"] == last and t["answered_by"] == "environment"]
    page = next((turn for turn in pages if turn["returncode"] == 0), None)
    shown = views[page["call"] - 1] | {page["reply"], page["result"]} if page else views[-1] if views else set()
    text = "\n".join(messages[i]["content"] for i in sorted(shown))
    held = [value in text for value in facts["values"]]
    return State(page is not None, sum(messages[i]["tokens"] for i in shown), sum(held), held[facts["asked"]])


def views_of(record: Mapping[str, Json]) -> list[set[int]]:
    """The messages that each of the agent's calls saw."""
    return [set(call["messages"]) for call in record["calls"] if call["billed"] == "agent"]


def measured(runs: Iterator[Run]) -> pd.DataFrame:
    """A row for each episode of the runs that ask for one of their facts last (or have one only), errors left out."""
    rows = []
    for run in runs:
        harness = run.config["harness"]
        if harness.get("reveal") != "end" and harness.get("needles") != 1:
            continue
        key = block_of(run)
        for record in run.episodes():
            if record["outcome"] == "error":
                continue
            state = state_of(record)
            views = views_of(record)
            texts = [record["messages"][i]["content"] for i in views[-1]] if views else []
            rows.append(
                key
                | {"run_dir": str(run.path), "task": record["task"], "correct": record["outcome"] == "correct"}
                | {"asked": state.asked, "state_tokens": state.tokens, "held": state.values}
                | {"value_held": state.has_value}
                | {"faults": record["method_failures"]}
                | {"value_in_last_view": any(record["facts"]["value"] in text for text in texts)}
            )
    return pd.DataFrame(rows)


def faults_of(episodes: pd.DataFrame, harness: str) -> Counter[tuple[str, str]]:
    """How often each method's own means failed, and how."""
    own = episodes[episodes["harness"] == harness]
    return Counter((m, fault) for m, faults in zip(own["method"], own["faults"], strict=True) for fault in faults)


def block_of(run: Run) -> dict[str, Any]:
    """The columns that say which cell a run belongs to, and what its values are made of."""
    harness, columns = run.config["harness"], run.columns
    orders = harness["profiles"][harness["profile"]]["work_orders"]
    key = {name: columns[name] or "" for name in (*BLOCK[:-1], "method", "variant")}
    value = {"alphabet": len(harness["alphabet"]), "value_chars": harness["value_chars"]}
    return key | {"orders": str(orders), "facts": harness["needles"]} | value


# ------------------------------------------------------------------------------------------ cells


def cells(root: Path, episodes: pd.DataFrame, settings: Settings) -> pd.DataFrame:
    """A row for each method with each number of facts: accuracy, what the prompt held, and the bounds."""
    frames = load(root)
    rows = []
    for key, group in episodes.groupby([*BLOCK, "method", "variant", "facts"], sort=False):
        cell: dict[str, Any] = dict(zip([*BLOCK, "method", "variant", "facts"], key, strict=True))
        runs = frames.runs[frames.runs["run_dir"].isin(group["run_dir"])]
        counted = accuracy(runs, frames.episodes)
        if len(counted) > 1:
            settings_of = " and ".join(counted["setting"])
            raise ConfigError(
                f"{cell['method']} with {cell['facts']} facts: there are runs with {settings_of}; keep one"
            )
        rows.append(cell | _accuracy(counted.iloc[0]) | _bounds(group, int(cell["facts"]), settings))
    rows.sort(key=lambda row: (*(str(row[name]) for name in BLOCK), place(row["method"]), row["variant"], row["facts"]))
    return pd.DataFrame(rows)


def _accuracy(row: pd.Series[Any]) -> dict[str, Any]:
    names = ("n_planned", "n_run", "n_error", "n_missing", "n_success", "n_wrong", "n_no_answer", "accuracy_pct",
             "wilson95_low_pct", "wilson95_high_pct", "agent_calls_per_episode", "prompt_tokens_per_episode",
             "n_method_failures", "seeds", "incomplete")  # fmt: skip
    reasons = [name for name in row.index if str(name).startswith("n_no_answer_") and row[name]]
    return {name: row[name] for name in (*names, *reasons)}


def _bounds(group: pd.DataFrame, facts: int, settings: Settings) -> dict[str, Any]:
    """What was in the prompt, and the most that this allows without recovery, in percent of the tasks that were run."""
    chars, alphabet = int(group["value_chars"].iloc[0]), int(group["alphabet"].iloc[0])
    bits = chars * math.log2(alphabet)
    guess = float(alphabet) ** -chars
    share = (group["held"] / facts).where(group["asked"], 0.0)  # a question that never came has no answer
    allowed = share + (1 - share) * guess
    # the proposition wants a whole number of bits: fewer make it weaker, not wrong
    by_values = [recovery_bound(held * bits, facts, math.floor(bits)) for held in share * facts]
    by_tokens = [
        recovery_bound(tokens * math.log2(settings.vocabulary), facts, math.floor(bits))
        for tokens in group["state_tokens"]
    ]
    error = math.sqrt(float((allowed * (1 - allowed)).sum()))
    return {
        "n_asked": int(group["asked"].sum()),
        "held_mean": float((share * facts).mean()),
        "held_pct": 100 * float(share.mean()),
        "state_tokens_mean": float(group["state_tokens"].mean()),
        "bits_each": bits,
        "bound_values_pct": 100 * float(allowed.mean()),
        "bound_proposition_pct": 100 * sum(by_values) / len(by_values),
        "bound_tokens_pct": 100 * sum(by_tokens) / len(by_tokens),
        "most_by_chance": float(allowed.sum()) + settings.standard_errors * error,
        "value_held_pct": 100 * float(group["value_held"].mean()),
        "value_in_last_view_pct": 100 * float(group["value_in_last_view"].mean()),
    }


def recovery_bound(budget_bits: float, blocks: int, bits_each: int) -> float:
    """Proposition 1: without recovery, P(correct) is at most this.

    ``blocks`` independent blocks of ``bits_each`` uniform bits, the prompt state at most ``budget_bits``, the question
    asked afterwards. It is 1, and says nothing, where the budget holds everything. Raises :class:`ConfigError`.
    """
    for key, value, least in (("budget_bits", budget_bits, 0), ("blocks", blocks, 1), ("bits_each", bits_each, 1)):
        if not value >= least:
            raise ConfigError(f"{key}={value}: must be a number of at least {least}")
    return min(1.0, budget_bits / (blocks * bits_each) + 1 / bits_each)


def violations(found: pd.DataFrame, episodes: pd.DataFrame) -> list[str]:
    """A line for each right answer that a method without recovery cannot have had, and for each of its cells with more
    right answers than the values in its prompt explain."""
    lines = []
    bound = episodes[episodes["method"].isin(WITHOUT_RECOVERY)]
    for row in records_of(bound[bound["correct"] & ~bound["value_held"]]):
        lines.append(
            f"{row['task']} under {row['method']} with {row['facts']} facts: right, though the value was not in the "
            f"prompt when it was asked for ({row['run_dir']})"
        )
    for row in records_of(found[found["method"].isin(WITHOUT_RECOVERY)]):
        # floating point may miss a whole number
        if row["n_success"] > row["most_by_chance"] + 1e-6:
            lines.append(
                f"{row['method']} {row['variant']} with {row['facts']} facts: {row['n_success']} of {row['n_run']} "
                f"right, more than the {number(row['bound_values_pct'], 1)} % of the values in its prompt explain"
            )
    return lines


# ----------------------------------------------------------------------------------------- sheets


def table(found: pd.DataFrame, faults: Mapping[tuple[str, str], int]) -> Sheet:
    """Methods by numbers of facts. ``faults``: how often which failure of a method's own means came up."""
    numbers = sorted(set(found["facts"]))
    names = _varying(found)
    rows = []
    for _, group in found.groupby([*BLOCK, "method", "variant"], sort=False):
        first = group.iloc[0]
        row = {name: first[name] for name in names}
        row["recovery"] = "no" if first["method"] in WITHOUT_RECOVERY else "yes"
        row |= {"method": first["method"], "variant": first["variant"] or DASH}
        by_facts = {one["facts"]: one for one in records_of(group)}
        for facts in numbers:
            one = by_facts.get(facts)
            row[f"N={facts}"] = (
                f"{number(one['accuracy_pct'], 0)} ({number(one['held_pct'], 0)})" if one is not None else DASH
            )
        row["planned/run/error"] = "/".join(str(group[name].sum()) for name in ("n_planned", "n_run", "n_error"))
        rows.append(row)
    body = pd.DataFrame(rows).sort_values("recovery", kind="stable")
    harness = found["harness"].iloc[0]
    notes = [
        "Recovery no: the number in brackets is the most there can be, but for chance and a guess of "
        f"1 in 10^{-math.log10(2) * -found['bits_each'].iloc[0]:.0f} (VISTA, Proposition 1, with B = the values in the "
        "prompt). Recovery yes: it is what the same prompt would be worth without recovery.",
    ]
    if 1 in numbers:
        notes.append(
            "N=1 is the file, whose value is announced at the start: a summary knows what to keep, which the "
            "proposition does not allow it for N > 1."
        )
    notes += [
        f"{method}: {fault} in {count} compactions, whose old turns were then dropped."
        for (method, fault), count in faults.items()
    ]
    return Sheet(
        name=f"facts_{harness}",
        title=f"One of N facts, asked for last ({harness})",
        lead=(
            "Accuracy in % of planned tasks; in brackets the share of the N values, in %, that stood verbatim in the "
            "prompt when the question came (0 where it never came).",
            *_common(found),
        ),
        data=found,
        body=body,
        text_columns=frozenset({*BLOCK, "recovery", "method", "variant"}),
        notes=tuple(notes),
    )


def cell_sheet(found: pd.DataFrame) -> Sheet:
    """Each cell, with its bounds."""
    body = found[[*_varying(found), "method"]].copy()
    body["variant"] = found["variant"].replace("", DASH)
    body["N"] = found["facts"].map(str)
    body["planned/run/error"] = [f"{row['n_planned']}/{row['n_run']}/{row['n_error']}" for row in records_of(found)]
    body["asked"] = found["n_asked"].map(str)
    body["right"] = found["n_success"].map(str)
    body["accuracy %"] = found["accuracy_pct"].map(lambda v: number(v, 1))
    body["95 % interval"] = [
        f"{number(row['wilson95_low_pct'], 1)} to {number(row['wilson95_high_pct'], 1)}" for row in records_of(found)
    ]
    body["held r"] = found["held_mean"].map(lambda v: number(v, 1))
    body["r/N %"] = found["bound_values_pct"].map(lambda v: number(v, 1))
    body["with 1/k %"] = found["bound_proposition_pct"].map(lambda v: number(v, 1))
    body["by tokens %"] = found["bound_tokens_pct"].map(lambda v: number(v, 1))
    body["bound"] = [_verdict(row) for row in records_of(found)]
    vacuous = bool((found["bound_tokens_pct"] >= 100).all())
    return Sheet(
        name=f"facts_cells_{found['harness'].iloc[0]}",
        title=f"One of N facts: what was held and what it allows ({found['harness'].iloc[0]})",
        lead=(
            f"A value has k = {found['bits_each'].iloc[0]:.1f} bits. Means over the tasks that were run; the interval "
            "is Wilson's over planned tasks.",
            *_common(found),
        ),
        data=found,
        body=body,
        text_columns=frozenset({*BLOCK, "method", "variant", "bound"}),
        notes=(
            "asked: episodes in which the last page, with the question, was reached. held r: of the N values, those "
            "verbatim in the prompt then.",
            "r/N: the bound for a method without recovery, the chance of a guess included; recovery can go beyond it, "
            "as the last column says. with 1/k: as the proposition has it, B/(Nk) + 1/k with B = rk.",
            "by tokens: the proposition with B = tokens of the prompt, each of as many bits as the vocabulary allows"
            + (": 100 % everywhere, so it says nothing at these sizes." if vacuous else "."),
        ),
    )


def _verdict(row: Mapping[str, Any]) -> str:
    if row["method"] in WITHOUT_RECOVERY:
        return "holds" if row["n_success"] <= row["most_by_chance"] + 1e-6 else "VIOLATED"
    gap = row["accuracy_pct"] - row["bound_values_pct"]
    return f"{gap:.0f} points above" if gap >= 0.5 else "not above"


def _varying(found: pd.DataFrame) -> list[str]:
    return [name for name in BLOCK[1:] if found[name].nunique() > 1]


def _common(found: pd.DataFrame) -> list[str]:
    same = [f"{name} {found[name].iloc[0]}" for name in BLOCK[1:] if found[name].nunique() == 1 and found[name].iloc[0]]
    return [f"All rows: {', '.join(same)}."] if same else []


# ----------------------------------------------------------------------------------------- figure

WITHOUT, WITH = "#D55E00", "#0072B2"
COLUMNS = 6


def draw(found: pd.DataFrame, stem: Path) -> list[Path]:
    """A small panel for each method: accuracy with its interval against N, over the share of values in the prompt."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    names = _varying(found)
    panels = [group for _, group in found.groupby([*BLOCK, "method", "variant"], sort=False)]
    panels.sort(key=lambda group: group["method"].iloc[0] not in WITHOUT_RECOVERY)  # stable
    rows = math.ceil(len(panels) / COLUMNS)
    figure, axes = plot.pyplot().subplots(
        rows, COLUMNS, figsize=(2.2 * COLUMNS, 2.05 * rows + 0.5), sharex=True, sharey=True, squeeze=False
    )
    ticks = sorted(set(found["facts"]))
    for axis, group in zip(axes.flat, panels, strict=False):
        first = group.iloc[0]
        recovers = first["method"] not in WITHOUT_RECOVERY
        colour = WITH if recovers else WITHOUT
        axis.fill_between(group["facts"], 0, group["held_pct"], color="#BBBBBB", linewidth=0)
        whiskers = [
            (group["accuracy_pct"] - group["wilson95_low_pct"]).clip(lower=0),
            (group["wilson95_high_pct"] - group["accuracy_pct"]).clip(lower=0),
        ]
        axis.errorbar(
            group["facts"], group["accuracy_pct"], yerr=whiskers, color=colour, marker="o" if recovers else "s",
            markersize=4, linewidth=1.4, elinewidth=0.8,
        )  # fmt: skip
        extra = [str(first[name]) for name in names]
        title = f"{first['method']}" + (f"\n{first['variant']}" if first["variant"] else "")
        axis.set_title(", ".join([title, *extra]), fontsize=8)
        axis.set_xscale("log", base=2)
        axis.set_xticks(ticks, [str(tick) for tick in ticks], fontsize=7)
        axis.set_ylim(-4, 104)
        axis.tick_params(axis="y", labelsize=7)
        axis.grid(axis="y", linewidth=0.4, color="#DDDDDD")
        axis.set_axisbelow(True)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    above_hole = axes.flat[max(0, len(panels) - COLUMNS) : max(0, (rows - 1) * COLUMNS)]
    for axis in above_hole:
        axis.tick_params(labelbottom=True)
    handles = [
        Line2D([], [], color=WITHOUT, marker="s", markersize=4, label="accuracy, no recovery"),
        Line2D([], [], color=WITH, marker="o", markersize=4, label="accuracy, with recovery"),
        Rectangle((0, 0), 1, 1, color="#BBBBBB", label="values in the prompt when asked: the bound without recovery"),
    ]
    figure.set_layout_engine("constrained")
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    figure.supxlabel("facts N, one of them asked for last", fontsize=9)
    figure.supylabel("%", fontsize=9)
    return plot.save(figure, stem)


if __name__ == "__main__":
    sys.exit(main())
