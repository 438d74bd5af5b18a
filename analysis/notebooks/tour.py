# %% [markdown]
# # A tour of the results
# Load runs, make a table, compare two methods task by task, draw a figure. `RUNS` is any folder with run folders below.

# %%
import os
from pathlib import Path

from analysis import accuracy, figures, figures_cost, frames, paired, plot, render
from analysis.paired import Item

RUNS = Path(os.environ.get("ARCBENCH_RUNS", "results/runs"))
OUT = Path(os.environ.get("ARCBENCH_OUT", "results/notebooks"))
read = frames.load(RUNS)
print(read.runs[["method", "variant", "recall", "engine", "model", "seed", "planned"]].to_string())

# %% [markdown]
# ## How episodes ended

# %%
print(read.episodes.groupby(["method", "outcome"]).size().unstack(fill_value=0))

# %% [markdown]
# ## The table
# The same that `make tables` writes.

# %%
for sheet in accuracy.sheets(read.runs, read.episodes):
    print(render.markdown(sheet))

# %% [markdown]
# ## Two methods on the same tasks
# The worst and the best row under one setting, on the tasks that both have: which tasks only one of them got right,
# McNemar's exact test (two-sided), and the test that holds where a task stands under several seeds.
# `python -m analysis.compare` does this for any two sets of runs.

# %%
name, runs, rows = next(figures.benchmarks(read))
ranked = rows[rows["n_run"] > 0].sort_values("accuracy_pct", kind="stable")
groups = [group for _, group in ranked.groupby(["model", "budget", "profile", "recall", "shared"], sort=False)]
pair = next((group.iloc[[0, -1]] for group in groups if len(group) > 1), None)


def items(run_dirs, tasks=None):
    """Right or not, task by task, of those that ended without an error."""
    its = read.episodes[read.episodes["run_dir"].isin(run_dirs) & (read.episodes["outcome"] != "error")]
    both = its if tasks is None else its[its["task"].isin(tasks)]
    return [Item(row.task, row.outcome == "correct", row.seed, None) for row in both.itertuples()]


if pair is None:
    print("no two methods were run under one setting")
else:
    first, second = (plot.label(row) for row in pair.to_dict("records"))
    a, b = pair["run_dirs"]
    common = {item.id for item in items(a)} & {item.id for item in items(b)}
    pairs = paired.pair(items(a, common), items(b, common), names=(first, second))
    counts = pairs.counts()
    print(f"{first} alone {counts.n_a_only}, {second} alone {counts.n_b_only}, both {counts.n_both}, of {counts.n}")
    print("exact p", paired.exact_two_sided(counts).printed())
    print("sign-flip p", paired.sign_flip(pairs.by_cluster()).printed())

# %% [markdown]
# ## A figure
# `make figures` draws all of them.

# %%
for name, _, rows in figures.benchmarks(read):
    plot.show(figures.accuracies(rows, OUT / f"accuracy_{name}"))
    plot.show(figures_cost.traffic(rows, OUT / f"traffic_{name}"))
