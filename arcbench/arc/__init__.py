"""ARC: Addressable Recall Compaction (arXiv 2607.25066)."""

from arcbench.arc.method import Arc
from arcbench.arc.paged import ArcPaged

__all__ = ["Arc", "ArcPaged"]
