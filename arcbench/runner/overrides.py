"""From the words of a command line to the configs of its cells, and Hydra's complaints as one line each."""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

import hydra
import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from arcbench.records import flatten
from arcbench.types import ConfigError, Json

ROOT = Path(__file__).resolve().parents[2]

UNREADABLE = (HydraException, OmegaConfBaseException, yaml.YAMLError, ValueError)
"""What composing a config raises."""

GROUPS = ("budget", "recall", "harness", "engine", "model", "method", "experiment")
"""The folders of ``conf`` that a run chooses from; the others hold the numbers of analyses."""


def composed(overrides: Sequence[str]) -> dict[str, Json]:
    """The whole resolved config that a command line with these overrides chooses. Raises :class:`ConfigError`."""
    refuse_experiment_list(overrides)
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
            config = hydra.compose("config", overrides=list(overrides))
        return cast(dict[str, Json], OmegaConf.to_container(config, resolve=True))
    except UNREADABLE as fault:
        raise ConfigError(explain_hydra(fault, overrides)) from None


def overrides_of(words: Sequence[str]) -> list[str]:
    """The overrides of a command line, without its options; ``--config-dir``, by which Hydra finds what stands
    outside ``conf``, as the override that it comes to. Raises :class:`ConfigError` as :func:`refuse_added`."""
    found: list[str] = []
    left = iter(words)
    for word in left:
        option, sign, value = word.partition("=")
        if option in ("--config-dir", "-cd"):
            folder = Path(value if sign else next(left, ""))
            refuse_added(option, folder)
            found.append(f"hydra.searchpath=['file://{folder.absolute()}']")
        elif not word.startswith("-"):
            found.append(word)
    return found


def refuse_added(option: str, folder: Path) -> None:
    """A folder that is not there, a file in it that cannot be read, and the name or id of one of ours, which Hydra
    would take without a word. Raises :class:`ConfigError`."""
    if not folder.is_dir():
        raise ConfigError(f"{option}={folder}: no such folder")
    for group in GROUPS:
        twice = sorted({path.stem for path in (folder / group).glob("*.yaml")} & set(choices(group)))
        if twice:
            raise ConfigError(f"{option}={folder}: {group}={twice[0]} is one of ours; give yours another name")
        for path in sorted((folder / group).glob("*.yaml")):
            try:
                own = yaml.safe_load(path.read_text("utf-8"))
            except (yaml.YAMLError, ValueError) as fault:
                raise ConfigError(f"{path}: {explain(fault)}") from None
            if isinstance(own, dict) and own.get("id") in choices(group):
                raise ConfigError(f"{path}: id={own['id']} is one of ours; give yours another")


def refuse_experiment_list(words: Sequence[str]) -> None:
    """Hydra would ignore the settings of all but the last of several experiments without a word."""
    for word in words:
        if word.startswith("experiment=") and "," in word:
            raise ConfigError(f"{word}: one experiment at a time; run them one after the other")


def expanded(overrides: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """The cells of a command line, each as its overrides, and the words that are of no cell (Hydra's own). Raises
    :class:`ConfigError`."""
    words = overrides_of(overrides)
    refuse_experiment_list(words)
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
            parser = OverridesParser.create(config_loader=GlobalHydra.instance().config_loader())
            single = [o.input_line or "" for o in parser.parse_overrides(words) if not o.is_sweep_override()]
            config = hydra.compose("config", overrides=single, return_hydra_config=True)
            swept = [f"{key}={value}" for key, value in (config.hydra.sweeper.params or {}).items()]
            own = [word for word in words if word.split("=")[0].lstrip("+~").startswith("hydra.")]
            parsed = parser.parse_overrides([*swept, *(word for word in words if word not in own)])
            (batch,) = BasicSweeper.split_arguments(parsed, None)
        return batch, own
    except UNREADABLE as fault:
        raise ConfigError(explain_hydra(fault, words)) from None


def cells_of(overrides: Sequence[str]) -> Iterator[tuple[list[str], dict[str, Json] | ConfigError]]:
    """Each cell of a command line: its overrides, and its resolved config or why there is none.

    Hydra composes once for each choice of groups; a value is set in a copy of that, as Hydra itself does last of all.
    Raises :class:`ConfigError` for what Hydra cannot read.
    """
    batch, own = expanded(overrides)
    composed_of: dict[tuple[str, ...], DictConfig | ConfigError] = {}
    for words in batch:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
            loader = GlobalHydra.instance().config_loader()
            parsed = OverridesParser.create(config_loader=loader).parse_overrides(words)
            values = [o for o in parsed if is_value(o, loader)]
            groups = tuple(o.input_line or "" for o in parsed if o not in values)
            try:
                if groups not in composed_of:
                    composed_of[groups] = hydra.compose("config", overrides=[*groups, *own])
                base = composed_of[groups]
                if isinstance(base, ConfigError):
                    raise base
                config = copy.deepcopy(base)
                for override in values:
                    OmegaConf.update(config, override.key_or_group, override.value(), merge=True)
                found = cast(dict[str, Json], OmegaConf.to_container(config, resolve=True))
            except UNREADABLE as fault:
                yield words, ConfigError(explain_hydra(fault, words))
                continue
            except ConfigError as fault:
                yield words, fault
                continue
        yield words, found


def is_value(override: Override, loader: ConfigLoader) -> bool:
    """Whether it sets a value that is there, and chooses, adds or deletes nothing."""
    chooses = override.package is not None or loader.get_group_options(override.key_or_group)
    return not (chooses or override.is_delete() or override.is_add() or override.is_force_add())


def choices(group: str) -> list[str]:
    """The names that a config group can be set to."""
    return sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml"))


def known_keys(words: Sequence[str]) -> list[str]:
    """Every dotted key of the config that the group choices among these words compose."""
    groups = set(GROUPS)
    ours = {*groups, "hydra.searchpath"}
    choices = [word for word in overrides_of(words) if word.split("=")[0] in ours and "," not in word]
    GlobalHydra.instance().clear()
    try:
        with hydra.initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
            config = OmegaConf.to_container(hydra.compose("config", overrides=choices), resolve=False)
    except (HydraException, OmegaConfBaseException):
        return sorted(groups)
    return [*sorted(groups), *flatten(cast(dict[str, Json], config))]


def explain_hydra(fault: BaseException, words: Sequence[str]) -> str:
    """What Hydra rejects, as one line that names key, value and what is allowed."""
    text = explain(fault)
    if "Lexer" in text or "Lexer" in type(fault).__name__:
        return f"{' '.join(words)}: Hydra cannot read one of these; quote its value, such as 'key=\"value\"'"
    if missing := re.search(
        r"Could not find '([\w/]+)/([^/']*)' Available options in '[^']*': (.*?)( Config search path|$)", text
    ):
        return f"{missing[1]}={missing[2]}: must be one of {', '.join(missing[3].split())}"
    if "Config group override" in text:  # null, a number: no name of a choice
        for word in words:
            group, _, choice = word.partition("=")
            if group in GROUPS and choice not in choices(group):
                return f"{word}: must be one of {', '.join(choices(group))}"
    if unknown := re.search(r"Could not override '([^']+)'", text):
        key = unknown[1].lstrip("@")
        given = next((word for word in words if word.split("=")[0] == key), key)
        near = difflib.get_close_matches(key, known_keys(words), n=3)
        return f"{given}: there is no such key" + (f"; the nearest are {', '.join(near)}" if near else "")
    return text


def explain(fault: BaseException) -> str:
    """An exception's text on one line."""
    return " ".join(str(fault).split()) or type(fault).__name__
