"""How many examples hypothesis tries: few by default, at least 500 with ``--hypothesis-profile=long`` (or
``HYPOTHESIS_PROFILE=long``)."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# on a loaded machine an example may take long; that says nothing about the code
calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", calm, max_examples=60, stateful_step_count=20)
settings.register_profile("long", calm, max_examples=500, stateful_step_count=40)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))
