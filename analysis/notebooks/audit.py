# %% [markdown]
# # The published figures against each other
# Every derived number of both papers' tables, and fifty claims of their prose, computed again.

# %%
import pandas as pd

from analysis import audit
from analysis.audit_check import Facts
from analysis.reference import Reference

pd.set_option("display.width", 200, "display.max_colwidth", 80)
checks = audit.audit(Reference(), Facts.read(audit.FACTS))
print(checks["verdict"].value_counts())

# %% [markdown]
# ## What cannot be right as printed

# %%
apart = checks[checks["verdict"] == "inconsistent"]
print(apart[["table", "row", "quantity", "printed", "recomputed"]].to_string())

# %% [markdown]
# ## Counts by seed that the papers do not print

# %%
seeds = checks[checks["quantity"].str.startswith("mean and SD over seeds") & (checks["table"] == "arc_table01")]
print(seeds[["row", "printed", "recomputed"]].to_string())
