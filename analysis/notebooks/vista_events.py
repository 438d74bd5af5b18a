# %% [markdown]
# # VISTA's events and what they cost
# What the agent archived and what the guard had to, and what the dashboard took of each prompt.

# %%
import os
from collections import Counter
from pathlib import Path

import pandas as pd

from arcbench.records import runs_below

RUNS = Path(os.environ.get("ARCBENCH_RUNS", "results/runs"))
rows = []
for run in runs_below(RUNS):
    if not run.manifest["method"].startswith("vista"):
        continue
    for record in run.episodes():
        if record["outcome"] == "error":  # it broke, and is owed again
            continue
        events = Counter(event["event"] for event in record["events"])
        boards = [event["tokens"] for event in record["events"] if event["event"] == "dashboard"]
        prompts = [call["prompt_tokens"] for call in record["calls"] if call["billed"] == "agent"]
        rows.append(
            {"method": run.manifest["method"], "outcome": record["outcome"], "calls": len(prompts)}
            | {name: events[name] for name in ("archive", "delete", "guard", "rejected")}
            | {"dashboard_tokens": sum(boards), "prompt_tokens": sum(prompts)}
        )
data = pd.DataFrame(rows)
print(data.groupby("method").mean(numeric_only=True).round(1).to_string() if len(data) else "no episode of vista here")

# %% [markdown]
# ## The dashboard's share of all prompt tokens

# %%
if len(data):
    share = data.groupby("method")[["dashboard_tokens", "prompt_tokens"]].sum()
    print((100 * share["dashboard_tokens"] / share["prompt_tokens"]).round(1).to_frame("dashboard, %").to_string())
