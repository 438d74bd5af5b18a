"""ARC: Addressable Recall Compaction (arXiv 2607.25066)."""

from arcbench.arc.method import Arc

__all__ = ["Arc"]
