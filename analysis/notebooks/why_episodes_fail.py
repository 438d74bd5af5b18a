# %% [markdown]
# # Why episodes fail
# From all failures down to one episode: what the model saw, and what a compaction took away.

# %%
import os
from pathlib import Path

from analysis import ledger
from analysis.episode import episode

RUNS = Path(os.environ.get("ARCBENCH_RUNS", "results/runs"))
read = ledger.read(RUNS)
facts = read.facts.merge(read.runs[["run_dir", "method", "variant"]], on="run_dir")
print(facts.groupby(["method", "cause"], dropna=False).size().unstack(fill_value=0))

# %% [markdown]
# ## Where the needed fact was
# Of a method's episodes, at each agent call.

# %%
calls = read.fact_calls.merge(read.runs[["run_dir", "method"]], on="run_dir")
print(
    calls.groupby(["method", "call"])["state"].agg(lambda states: states.value_counts().index[0]).unstack().to_string()
)

# %% [markdown]
# ## One that lost it
# The first episode whose fact was lost, or else the first that failed.

# %%
lost = facts[facts["cause"] == "lost"]
failed = lost if len(lost) else facts[facts["outcome"] != "correct"]
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
    left = row["left_compaction"]
    if left == left and left is not None:
        print(f"\nThe fact left the view at compaction {int(left)}, before call {int(row['left_call'])}:")
        for place, fate, text in one.taken_out(int(left) - 1):
            print(f"  {place} {fate}: {text[:100]!r}")

# %% [markdown]
# ## What the model saw then

# %%
if one is not None:
    print(one.prompt(len(one.calls)))
    print("\n--- and wrote ---\n", one.reply(len(one.calls)))
