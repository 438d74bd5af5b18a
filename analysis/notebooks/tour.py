# %% [markdown]
# # A tour of the results
# Load runs, make a table, compare two methods task by task, draw a figure. `RUNS` is any folder with run folders below.

# %%
import os
from pathlib import Path

from analysis import accuracy, figures, frames, paired, render
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
# Which tasks only one of them got right, McNemar's exact test (two-sided), and the test that holds where a task stands
# under several seeds.

# %%
first, second = read.runs["method"].drop_duplicates().iloc[:2]


def items(method):
    """Right or not, task by task."""
    its = read.episodes[(read.episodes["method"] == method) & (read.episodes["outcome"] != "error")]
    its = its[its["run_dir"] == its["run_dir"].iloc[0]]
    return [Item(row.task, row.outcome == "correct", row.seed, None) for row in its.itertuples()]


pairs = paired.pair(items(first), items(second), names=(first, second))
counts = pairs.counts()
print(f"{first} alone {counts.n_a_only}, {second} alone {counts.n_b_only}, both {counts.n_both}, of {counts.n}")
print(
    "exact p", paired.exact_two_sided(counts).printed(), "sign-flip p", paired.sign_flip(pairs.by_cluster()).printed()
)

# %% [markdown]
# ## A figure

# %%
for kind, harness, runs in accuracy.kinds(read.runs):
    its = read.episodes[read.episodes["run_dir"].isin(runs["run_dir"])]
    print(*figures.accuracies(accuracy.accuracy(runs, its), OUT / f"accuracy_{harness}_{kind}"), sep="\n")
