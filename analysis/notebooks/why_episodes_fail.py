# %% [markdown]
# # Why episodes fail
# From all failures down to one episode: what the model saw, and what a compaction took away.

# %%
import os
from pathlib import Path

import pandas as pd

from analysis import ledger
from analysis.episode import episode

RUNS = Path(os.environ.get("ARCBENCH_RUNS", "results/runs"))
read = ledger.read(RUNS)
named = read.runs[["run_dir", "harness", "method", "variant"]].fillna("")
ends = pd.concat([read.facts, read.pages]).merge(named, on="run_dir")  # tasks that ask for a fact, and for a document
print(ends.groupby(["harness", "method", "variant", "cause"], dropna=False).size().unstack(fill_value=0).to_string())

# %% [markdown]
# ## Where the needed fact was
# Of a method's episodes, at each agent call; of a long document, where its pages were when the agent answered.

# %%
if len(read.facts):
    calls = read.fact_calls.merge(named, on="run_dir")
    most = calls.groupby(["method", "variant", "call"])["state"].agg(lambda states: states.value_counts().index[0])
    print(most.unstack().to_string())
if len(read.pages):
    pages = read.pages.merge(named, on="run_dir")
    states = [name for name in pages if name.startswith("last_")]
    print(pages.groupby(["harness", "method", "variant"])[states].mean().to_string())

# %% [markdown]
# ## One that lost it
# The first episode whose fact was lost, or else the first that failed.

# %%
lost = ends[ends["cause"] == "lost"]
failed = lost if len(lost) else ends[ends["outcome"] != "correct"]
one = None
if len(failed):
    row = failed.iloc[0]
    one = episode(row["run_dir"], row["task"])
    print(one)
    print(one.turns[["call", "action", "answered_by", "returncode"]].to_string())

# %% [markdown]
# ## What the compactions did

# %%
if one is not None:
    print(one.compactions.to_string())
    left = row.get("left_compaction")
    if pd.notna(left):
        print(f"\nThe fact left the view at compaction {int(left)}, before call {int(row['left_call'])}:")
        for place, fate, text in one.taken_out(int(left) - 1):
            print(f"  {place} {fate}: {text[:100]!r}")

# %% [markdown]
# ## What the model saw then
# The prompt of the first call after that compaction, or else of the last one, and the last reply.

# %%
if one is not None:
    last = int((one.calls["billed"] == "agent").sum())
    print(one.prompt(int(row["left_call"]) if pd.notna(left) else last))
    print("\n--- the last reply ---\n", one.reply(last))
