"""ARC: Addressable Recall Compaction (arXiv 2607.25066)."""

from arcbench.arc.library import ArcContext
from arcbench.arc.method import Arc
from arcbench.arc.paged import ArcPaged
from arcbench.arc.select import ArcSelect
from arcbench.arc.sqlite_store import SqliteStore

__all__ = ["Arc", "ArcContext", "ArcPaged", "ArcSelect", "SqliteStore"]
