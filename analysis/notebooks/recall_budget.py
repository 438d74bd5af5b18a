# %% [markdown]
# # The recall budget
# ARC keeps every observation outside the prompt and hands it back on demand, within a budget of characters. How much
# does it need? Runs of a sweep: `python -m arcbench -m method=arc,arc_select recall=4k_2k,8k_4k,16k_8k,32k_16k`.

# %%
import os
from pathlib import Path

from analysis import figures, frames, plot
from analysis.reference import Reference

RUNS = Path(os.environ.get("ARCBENCH_RUNS", "results/runs"))
OUT = Path(os.environ.get("ARCBENCH_OUT", "results/notebooks"))
read = frames.load(RUNS)

# %%
for name, runs, rows in figures.benchmarks(read):
    index = ["model", "budget", "profile", "shared", "method", "variant", "own"]
    index = [key for key in index if key == "method" or rows[key].nunique() > 1]
    print(rows.pivot_table(index=index, columns="recall", values="accuracy_pct", sort=False).to_string())
    plot.show(figures.by_recall(rows, runs, OUT / f"recall_{name}"), "the recall budget was not swept here")

# %% [markdown]
# ## What the paper has
# Table 7, one seed of 1,000 needle tasks.

# %%
table = Reference().table("arc_table07")
print(table.pivot_table(index="method", columns="recall_budget_kchars", values="accuracy_pct", sort=False))
