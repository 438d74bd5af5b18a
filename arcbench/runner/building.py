"""From a resolved config to what it describes: the keys checked, the objects built; nothing is started."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args

import hydra
from hydra.errors import HydraException

from arcbench.checks import template, whole
from arcbench.parsing import Fault
from arcbench.runner.overrides import choices, composed, explain
from arcbench.types import Budget, ConfigError, Engine, Json, MethodFactory, Rules

ROOT_KEYS = frozenset(("budget", "harness", "engine", "model", "method", "rules", "seed", "retriever", "results_dir",
                       "run_dir", "episode_timeout_s", "digest_ignores"))  # fmt: skip


def check_root(config: Mapping[str, Json]) -> None:
    """The keys at the root of a config. Raises :class:`ConfigError`."""
    for key in config:
        if key not in ROOT_KEYS:
            raise ConfigError(f"{key}={config[key]}: there is no such key")
    if not isinstance(config.get("rules"), Mapping):
        raise ConfigError(f"rules={config.get('rules')}: must be the texts and limits of the agent loop")
    for group in ("budget", "harness", "engine", "model", "method"):
        if not isinstance(config.get(group), Mapping):
            raise ConfigError(f"{group}={config.get(group)}: must be one of {', '.join(choices(group))}")
    if whole("seed", config["seed"], 0) >= 2**63:  # the most that JSON readers agree on
        raise ConfigError(f"seed={config['seed']}: must be below 2**63")
    if not isinstance(config["results_dir"], str) or not config["results_dir"]:
        raise ConfigError(f"results_dir={config['results_dir']}: must be a folder; quote one that is a number")
    if config["run_dir"] is not None and (not isinstance(config["run_dir"], str) or not config["run_dir"]):
        raise ConfigError(f"run_dir={config['run_dir']}: must be null or a folder; quote one that is a number")
    ignored = config["digest_ignores"]
    if not isinstance(ignored, list) or not all(isinstance(name, str) for name in ignored):
        raise ConfigError(f"digest_ignores={ignored}: must be a list of keys")
    for key in ("thinking", "constrain_replies"):
        if not isinstance(config["model"].get(key), bool):
            raise ConfigError(f"model.{key}={config['model'].get(key)}: must be true or false")
    for group in ("harness", "engine", "model", "method"):
        name = config[group].get("id")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):  # a folder is named by it
            raise ConfigError(f"{group}.id={name}: must be a name of letters, digits, '_', '.' and '-'")
    variant = config["method"].get("variant", "")
    if variant is not None and (not isinstance(variant, str) or not variant):
        raise ConfigError(f"method.variant={variant}: must be null, or a text that tells methods of one id apart")


def check_budget(limits: Mapping[str, Json]) -> Budget:
    """The shared budget. What is nested in it belongs to one harness or method. Raises :class:`ConfigError`."""
    names = [field.name for field in fields(Budget)]
    for key, value in limits.items():
        if key not in (*names, "recall") and not isinstance(value, Mapping):
            raise ConfigError(f"budget.{key}={value}: there is no such key")
    calls = limits["force_at_calls"]
    if not isinstance(calls, list):
        raise ConfigError(f"budget.force_at_calls={calls}: must be a list of call numbers, such as [5,10,15] or []")
    return Budget(**{name: limits[name] for name in names} | {"force_at_calls": tuple(calls)})


def check_rules(texts: Mapping[str, Json]) -> Rules:
    """The agent loop's texts and limits. Raises :class:`ConfigError`."""
    if not isinstance(texts.get("corrections"), Mapping):
        raise ConfigError(f"rules.corrections={texts.get('corrections')}: must have a text for each fault")
    rules = Rules(**texts)
    template("rules.system", rules.system, "manual", "actions", "promise")
    template("rules.omitted", rules.omitted, "chars")
    for key in ("protocol", "grammar", "no_output"):
        if not isinstance(getattr(rules, key), str):
            raise ConfigError(f"rules.{key}={getattr(rules, key)}: must be a text")
    for fault in get_args(Fault):
        template(f"rules.corrections.{fault}", rules.corrections.get(fault))
    whole("rules.malformed_limit", rules.malformed_limit, 1)
    whole("rules.compaction_passes", rules.compaction_passes, 1)
    return rules


def build(config: Mapping[str, Json]) -> Any:
    """Instantiate a config's ``_target_``. Raises :class:`ConfigError` in one line, whatever went wrong."""
    name = str(config.get("id", config.get("_target_")))
    if not isinstance(config.get("_target_"), str):
        raise ConfigError(f"{name}: _target_={config.get('_target_')}: must be the class, such as my_module.MyClass")
    with one_line(f"{name}: _target_={config['_target_']}"):
        return hydra.utils.instantiate(dict(config), _convert_="all")


def factory(config: Mapping[str, Json]) -> MethodFactory:
    """What makes the method of each episode. Raises :class:`ConfigError`."""
    if config.get("_partial_") is not True:
        raise ConfigError(
            f"method={config['id']}: _partial_={config.get('_partial_')}: must be true; each episode makes its own"
        )
    made: MethodFactory = build(config)
    return made


def make_engine(overrides: Sequence[str]) -> tuple[Engine, Mapping[str, Json]]:
    """The engine of that config, not started, and the config: for commands that ask a model something of their own.
    Raises :class:`ConfigError`."""
    config = composed(overrides)
    with one_line("config"):
        check_root(config)
        check_budget(config["budget"])
        return build(config["engine"]), config


@contextlib.contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turn what a constructor raises into one :class:`ConfigError`."""
    try:
        yield
    except ConfigError:
        raise
    except (HydraException, TypeError, LookupError, ImportError, AttributeError, ValueError, ArithmeticError) as fault:
        cause: BaseException | None = fault
        while cause is not None and not isinstance(cause, ConfigError):
            cause = cause.__cause__
        if cause is not None:
            raise cause from None
        raise ConfigError(f"{what}: {explain(deepest(fault))}") from fault


def deepest(fault: BaseException) -> BaseException:
    """What an exception was first raised for: Hydra's own say little of why a class could not be had."""
    while fault.__cause__ is not None:
        fault = fault.__cause__
    return fault
