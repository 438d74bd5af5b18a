"""The plain YAML files below ``conf/`` that hold the numbers of an analysis: read whole, and checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from arcbench.types import ConfigError

CONF = Path(__file__).resolve().parent.parent / "conf"
"""The project's own, wherever a command is started."""


def read(path: Path, keys: Collection[str]) -> dict[str, Any]:
    """The file's mapping, which must have exactly these keys. Raises :class:`ConfigError`, ``OSError``."""
    try:
        given = yaml.safe_load(path.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as fault:
        raise ConfigError(f"{path}: must be a YAML file: {' '.join(str(fault).split())}") from None
    return exactly(str(path), given, keys)


def exactly(where: str, given: object, keys: Collection[str]) -> dict[str, Any]:
    """A mapping with exactly these keys. Raises :class:`ConfigError` that says where, and which keys are wrong."""
    if not isinstance(given, Mapping):
        raise ConfigError(f"{where}: {given}: must have exactly these keys: {', '.join(keys)}")
    wrong = [f"{key} is unknown" for key in given if key not in keys]
    wrong += [f"{key} is missing" for key in keys if key not in given]
    if wrong:
        raise ConfigError(f"{where}: {', '.join(wrong)}; must have exactly these keys: {', '.join(keys)}")
    return dict(given)
