"""Runs that several files read; and how many examples hypothesis tries: few by default, at least 500 with
``--hypothesis-profile=long`` (or ``HYPOTHESIS_PROFILE=long``)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from fakes import compose
from hypothesis import HealthCheck, settings
from probes import SMALL

from arcbench.records import RunFolder
from arcbench.runner.cell import Cell, run_episodes

# on a loaded machine an example may take long; that says nothing about the code
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", calm, max_examples=60, stateful_step_count=20)
settings.register_profile("long", calm, max_examples=500, stateful_step_count=40)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))


@pytest.fixture(scope="session")
def transcripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks of the needle harness, played by the scripted reader with three methods."""
    folder = tmp_path_factory.mktemp("perception") / "runs"
    for method in ("full_context", "arc", "vista"):
        cell = Cell.compose(compose(f"method={method}", *SMALL, f"results_dir={folder}"))
        with RunFolder(cell.run_dir, cell.config, cell.config["digest_ignores"]) as run_folder:
            tasks = cell.harness.tasks()
            run_folder.write_manifest(cell.manifest({}, cell.engine, len(tasks)))
            asyncio.run(run_episodes(cell.setup(cell.engine), tasks, run_folder, cell.timeout_s, len(tasks)))
    return folder
