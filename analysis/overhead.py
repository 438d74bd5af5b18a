"""What ARC itself costs in tokens: ``python -m analysis.overhead [--runs results/runs] [--tables results/tables]``.

From the records alone. Writes three sheets:

- ``overhead_<harness>``: per episode, the prompt tokens of all agent calls by what they were spent on (the
  task, turns as they happened, the method's own text such as citations and summaries, recalled bodies, catalog
  pages), and per compaction what was taken out and what stands for it;
- ``overhead_growth_<harness>``: the visible view by call (``analysis.figures`` draws it);
- ``overhead_stubs_<harness>``: how many observations it takes until bare citations alone fill a window, for the
  methods that keep every citation in view (ARC, Proposition 9).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import render
from analysis.render import Sheet, number
from analysis.rows import place
from arcbench.records import Run, RunError, runs_below
from arcbench.types import Json

KINDS = ("task", "turns", "own_text", "recalled", "pages")
KEY = ["harness", "profile", "budget", "recall", "model", "method", "variant"]
WINDOWS = tuple(2**power for power in range(12, 18))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m analysis.overhead", description="Token overhead of the methods.")
    parser.add_argument("--runs", type=Path, default=Path("results/runs"), help="folder below which all runs are read")
    parser.add_argument("--tables", type=Path, default=Path("results/tables"), help="folder that the sheets go to")
    args = parser.parse_args(argv)
    try:
        episodes, calls, compactions = frames(runs_below(args.runs))
        if episodes.empty:
            raise RunError(f"{args.runs}: no episode here that did not end in an error; play them again")
        for harness in sorted(set(episodes["harness"])):
            sheets = (
                spent(*(frame[frame["harness"] == harness] for frame in (episodes, calls, compactions))),
                growth(calls[calls["harness"] == harness]),
                stubs(compactions[compactions["harness"] == harness]),
            )
            for sheet in (sheet for sheet in sheets if len(sheet.body)):
                print(render.markdown(sheet))
                for path in render.write(sheet, args.tables):
                    print(f"wrote {path}")
    except (RunError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


# ----------------------------------------------------------------------------------- from records


def kinds_of(record: Mapping[str, Json]) -> list[str]:
    """What each message of a record is (:data:`KINDS`), by index."""
    messages = record["messages"]
    kinds = ["turns" if message["role"] == "assistant" else "own_text" for message in messages]
    for turn in record["turns"]:
        # a recall, a chunk or page of a store, or what was read below a method's mount
        given_back = turn["restored"] or (turn["answered_by"] == "method" and turn["exact"])
        page = given_back and str(turn["action"]).startswith("_catalog")
        kinds[turn["reply"]] = "turns"
        kinds[turn["result"]] = "pages" if page else "recalled" if given_back else "turns"
    for call in record["calls"][:1]:
        for index in call["messages"][:2]:
            kinds[index] = "task"
    return kinds


def frames(runs: Iterator[Run]) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Frames of episodes, agent calls and compactions with their tokens by kind."""
    episodes: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    compactions: list[dict[str, Any]] = []
    for run in runs:
        key = {name: run.columns[name] for name in KEY}
        budget = run.config["budget"]
        for record in run.episodes():
            if record["outcome"] == "error":
                continue
            kinds = kinds_of(record)
            tokens = [message["tokens"] for message in record["messages"]]
            agent = [call for call in record["calls"] if call["billed"] == "agent"]
            total = dict.fromkeys(KINDS, 0)
            for number_, call in enumerate(agent, start=1):
                for index in call["messages"]:
                    total[kinds[index]] += tokens[index]
                calls.append(key | {"call": number_, "prompt_tokens": call["prompt_tokens"]})
            cited = [event for event in record["events"] if event["event"] == "citations"]
            episodes.append(
                key
                | {"calls": len(agent), "prompt_tokens": sum(call["prompt_tokens"] for call in agent)}
                | {f"{kind}_tokens": total[kind] for kind in KINDS}
                | {"hint_tokens": _hint_tokens(cited, len(agent))}
                | {"method_calls": len(record["calls"]) - len(agent)}
            )
            for event in cited:
                compactions.append(
                    key
                    | {
                        name: event[name]
                        for name in ("cited", "tokens", "bare_tokens", "replaced_tokens", "hint_tokens")
                    }
                    | {name: event[name] for name in ("archive_chars", "payload_chars")}
                    | {"prefix_tokens": sum(tokens[i] for i in agent[0]["messages"][:2]) if agent else 0}
                    | {"completion_tokens": budget["completion_tokens"]}
                )
    return pd.DataFrame(episodes), pd.DataFrame(calls), pd.DataFrame(compactions, columns=COMPACTION_COLUMNS)


COMPACTION_COLUMNS = [
    *KEY, "cited", "tokens", "bare_tokens", "replaced_tokens", "hint_tokens", "archive_chars", "payload_chars",
    "prefix_tokens", "completion_tokens",
]  # fmt: skip


def _hint_tokens(cited: Sequence[Mapping[str, Json]], calls: int) -> int:
    """Tokens of recall hints over all calls: what a compaction leaves stands in every call until the next one."""
    starts = [*(event["after_call"] for event in cited), calls]
    return sum(e["hint_tokens"] * (end - start) for e, start, end in zip(cited, starts[:-1], starts[1:], strict=True))


# ----------------------------------------------------------------------------------------- sheets


def spent(episodes: pd.DataFrame, calls: pd.DataFrame, compactions: pd.DataFrame) -> Sheet:
    """Tokens per episode by kind; per compaction, what was replaced by what."""
    harness = str(episodes["harness"].iloc[0])
    rows = []
    for key, group in _groups(episodes):
        row: dict[str, Any] = dict(zip(KEY, key, strict=True)) | {"episodes": len(group)}
        row |= {
            f"{name}_per_episode": group[name].mean()
            for name in ("calls", "prompt_tokens", *(f"{k}_tokens" for k in KINDS), "hint_tokens", "method_calls")
        }
        own = _same(compactions, key)
        row |= {
            "cited_tokens_per_compaction": own["tokens"].mean(),
            "replaced_tokens_per_compaction": own["replaced_tokens"].mean(),
            "archive_over_payload": own["archive_chars"].sum() / own["payload_chars"].sum() if len(own) else None,
        }
        rows.append(row)
    data = pd.DataFrame(rows)
    total = data["prompt_tokens_per_episode"]
    body = data[["profile", "budget", "recall", "model", "method", "variant"]].copy()
    body["episodes"] = data["episodes"].map(str)
    body["calls"] = data["calls_per_episode"].map(lambda v: number(v, 1))
    body["prompt tokens"] = total.map(lambda v: number(v, 0))
    for kind in KINDS:
        share = 100 * data[f"{kind}_tokens_per_episode"] / total
        body[f"{kind.replace('_', ' ')} %"] = share.map(lambda v: number(v, 1))
    body["recall hints %"] = (100 * data["hint_tokens_per_episode"] / total).map(lambda v: number(v, 1))
    body["cited: tokens replaced"] = data["replaced_tokens_per_compaction"].map(lambda v: number(v, 0))
    body["by"] = data["cited_tokens_per_compaction"].map(lambda v: number(v, 0))
    body["archive/payload"] = data["archive_over_payload"].map(lambda v: number(v, 3))
    return Sheet(
        name=f"overhead_{harness}",
        title=f"Where the prompt tokens of an episode went, {harness}",
        lead=("Means per episode over all agent calls; every call's prompt counts.",),
        data=data,
        body=body,
        text_columns=frozenset({"profile", "budget", "recall", "model", "method", "variant"}),
        notes=(
            "own text: citations, handles, dashboards, summaries, notices and retrieved passages, recall hints among "
            "them; turns: replies and results as they happened (a shortened reply too); recalled: bodies and chunks "
            "brought back, and what was read back from a method's files.",
            "cited: over all compactions of an episode so far, the observations that stand as citations: their tokens "
            "as they were, and as citations.",
        ),
    )


def growth(calls: pd.DataFrame) -> Sheet:
    """Mean visible tokens by agent call."""
    rows = []
    for key, group in _groups(calls):
        for call, sizes in group.groupby("call")["prompt_tokens"]:
            row: dict[str, Any] = dict(zip(KEY, key, strict=True)) | {"call": call, "episodes": len(sizes)}
            rows.append(row | {"prompt_tokens_mean": sizes.mean(), "prompt_tokens_max": sizes.max()})
    data = pd.DataFrame(rows)
    marks = [call for call in (1, 4, 5, 9, 10, 14, 15, 18, 25, 50) if call in set(data["call"])]
    wide = data[data["call"].isin(marks)].pivot_table(
        index=KEY[1:], columns="call", values="prompt_tokens_mean", dropna=False, observed=True
    )
    wide = wide.dropna(how="all").map(lambda v: number(v, 0)).rename(columns=lambda call: f"call {call}").reset_index()
    order = wide["method"].map(place)
    return Sheet(
        name=f"overhead_growth_{data['harness'].iloc[0]}",
        title="Visible tokens by agent call",
        lead=("Mean prompt tokens of that call, over the episodes that reached it.",),
        data=data,
        body=wide.assign(place=order).sort_values(["budget", "recall", "place"]).drop(columns="place"),
        text_columns=frozenset(KEY),
        notes=(
            "A call in which an agent is shown a management view (VISTA's overflow mode) counts as what it was sent.",
        ),
    )


def stubs(compactions: pd.DataFrame) -> Sheet:
    """The number of observations at which bare citations alone fill a window: floor(room / each) + 1."""
    rows = []
    for key, group in _groups(compactions.dropna(subset=["bare_tokens"])):
        cited = group["cited"].sum()
        if not cited:
            continue
        each = group["bare_tokens"].sum() / cited
        prefix = group["prefix_tokens"].mean()
        completion = int(group["completion_tokens"].iloc[0])
        row: dict[str, Any] = dict(zip(KEY, key, strict=True)) | {"bare_tokens_each": each}
        for window in WINDOWS:
            room = window - completion - prefix
            row[f"n_at_{window}"] = int(room // each) + 1 if room > 0 else None
        rows.append(row)
    data = pd.DataFrame(rows, columns=[*KEY, "bare_tokens_each", *(f"n_at_{window}" for window in WINDOWS)])
    body = data[["budget", "recall", "model", "method"]].copy()
    body["tokens a bare citation"] = data["bare_tokens_each"].map(lambda v: number(v, 1))
    for window in WINDOWS:
        body[f"{window:,}"] = data[f"n_at_{window}"].map(lambda v: number(v, 0))
    return Sheet(
        name=f"overhead_stubs_{compactions['harness'].iloc[0] if len(compactions) else None}",
        title="Observations until bare citations alone fill the window",
        lead=("By window, in tokens, less the reserved completion and the task (ARC, Proposition 9).",),
        data=data,
        body=body,
        text_columns=frozenset(KEY),
        notes=("A method that keeps its catalog outside the prompt (arc_paged) has no such number.",),
    )


def _groups(frame: pd.DataFrame) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """The rows by :data:`KEY`, in the order of the tables."""
    found = [(tuple(key), group) for key, group in frame.groupby(KEY, dropna=False)]
    return sorted(found, key=lambda item: (*map(str, item[0][:5]), place(item[0][5]), str(item[0][6])))


def _same(frame: pd.DataFrame, key: tuple[Any, ...]) -> pd.DataFrame:
    same = pd.Series(True, index=frame.index)
    for name, value in zip(KEY, key, strict=True):
        same &= frame[name].isna() if pd.isna(value) else frame[name] == value
    return frame[same]


if __name__ == "__main__":
    sys.exit(main())
