"""VISTA: blocks, dashboard, archive (its paper's Section 2)."""

from arcbench.vista.method import Vista

__all__ = ["Vista"]
