"""What the roofline must know of a model and of a device: YAML in ``conf``, or a model's own ``config.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from analysis import settings
from analysis.settings import CONF
from arcbench.checks import above, whole
from arcbench.types import ConfigError, Json

MODELS, HARDWARE = CONF / "model", CONF / "hardware"
BYTES: Mapping[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
"""Of a parameter, and of an element of the cache, by a model's ``dtype``."""

# Kinds of model that have the shapes counted here; another may have any layer under the same keys.
_COUNTED = ("granite", "llama", "mistral", "phi3", "qwen2", "qwen3", "smollm3")
# Keys of a config.json under which the formula does not hold, with what they stand for.
_OTHERWISE = {
    "kv_lora_rank": "latent attention (MLA) keeps no keys and values per head",
    "num_experts": "a mixture of experts reads a part of its weights for a token",
    "num_local_experts": "a mixture of experts reads a part of its weights for a token",
    "n_routed_experts": "a mixture of experts reads a part of its weights for a token",
    "ssm_state_size": "a state-space layer has no cache that grows",
    "mamba_d_state": "a state-space layer has no cache that grows",
    "linear_num_value_heads": "a linear-attention layer has no cache that grows",
    "full_attention_interval": "hybrid attention caches a part of its layers only",
    "attn_layer_period": "hybrid attention caches a part of its layers only",
    "cross_attention_layers": "cross-attention has a cache of another length",
    "quantization_config": "the bytes of a quantised weight are not one number",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One device. ``device`` is a part of the name by which engines report it."""

    id: str
    device: str
    hbm_bytes: float
    bandwidth_bytes_per_s: float
    peak_flop_per_s: float
    source: str

    def __post_init__(self) -> None:
        """Raises :class:`ConfigError` for a number that is not above 0."""
        for key in ("hbm_bytes", "bandwidth_bytes_per_s", "peak_flop_per_s"):
            above(key, getattr(self, key), 0)

    @classmethod
    def read(cls, name: str, folder: Path = HARDWARE) -> Hardware:
        """By its id. Raises :class:`ConfigError` that names what there is."""
        path = folder / f"{name}.yaml"
        if not path.is_file():
            raise ConfigError(f"hardware={name}: must be one of {_there(folder)}")
        given = settings.read(path, [field.name for field in fields(cls)])
        try:
            return cls(**given)
        except ConfigError as fault:
            raise ConfigError(f"{path}: {fault}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """Architecture of a dense decoder with full attention in each layer: ``heads`` query heads that share ``kv_heads``
    key and value heads of ``head_dim`` elements."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    parameters: int
    parameters_without_embeddings: int
    source: str

    def __post_init__(self) -> None:
        """Raises :class:`ConfigError` for a number that is no count."""
        for key in ("layers", "heads", "kv_heads", "head_dim", "parameters", "parameters_without_embeddings"):
            whole(key, getattr(self, key), 1)

    @classmethod
    def read(cls, name: str, folder: Path = MODELS) -> ModelFacts:
        """By its id in ``conf/model``, or from a ``config.json`` or a folder that has one. Raises
        :class:`ConfigError`."""
        path = Path(name)
        if path.suffix == ".json" or path.is_dir():
            return from_config(path / "config.json" if path.is_dir() else path)
        path = folder / f"{name}.yaml"
        facts = (yaml.safe_load(path.read_text("utf-8")) or {}).get("facts") if path.is_file() else None
        if facts is None:
            raise ConfigError(f"model={name}: must be one of {_with_facts(folder)}, or a model's config.json")
        try:
            return cls(**settings.exactly("facts", facts, [field.name for field in fields(cls)]))
        except ConfigError as fault:
            raise ConfigError(f"{path}: {fault}") from None


def _there(folder: Path) -> str:
    return ", ".join(sorted(path.stem for path in folder.glob("*.yaml"))) or f"the files of {folder}, which has none"


def _with_facts(folder: Path) -> str:
    return ", ".join(
        path.stem
        for path in sorted(folder.glob("*.yaml"))
        if (yaml.safe_load(path.read_text("utf-8")) or {}).get("facts")
    )


def from_config(path: Path) -> ModelFacts:
    """Facts of a model of Llama's kind (gated feed-forward, grouped queries) from its ``config.json``, the parameters
    counted from its shapes. Raises :class:`ConfigError` for a model that the formula does not hold for, by name."""
    try:
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"model={path}: no such file") from None
    except (ValueError, OSError) as fault:
        raise ConfigError(f"model={path}: not a config.json ({' '.join(str(fault).split())})") from None
    if not isinstance(config, dict):
        raise ConfigError(f"model={path}: not a config.json (no mapping)")
    _refuse_others(path, config)
    layers, hidden = _count(path, config, "num_hidden_layers"), _count(path, config, "hidden_size")
    heads = _count(path, config, "num_attention_heads")
    kv_heads = _count(path, config, "num_key_value_heads", heads)
    head_dim = _count(path, config, "head_dim", hidden // heads)
    attention = 2 * hidden * heads * head_dim + 2 * hidden * kv_heads * head_dim
    if config.get("attention_bias") or config.get("model_type") == "qwen2":  # which has them on q, k and v, always
        attention += (heads + 2 * kv_heads) * head_dim + (hidden if config.get("attention_bias") else 0)
    if config.get("model_type") == "qwen3":  # norms of queries and keys
        attention += 2 * head_dim
    feed_forward = 3 * hidden * _count(path, config, "intermediate_size")
    inner = layers * (attention + feed_forward + 2 * hidden) + hidden
    embedding = _count(path, config, "vocab_size") * hidden
    return ModelFacts(
        layers=layers, heads=heads, kv_heads=kv_heads, head_dim=head_dim, source=str(path),
        parameters=inner + embedding * (1 if config.get("tie_word_embeddings") else 2),
        parameters_without_embeddings=inner,
    )  # fmt: skip


def _refuse_others(path: Path, config: Mapping[str, Json]) -> None:
    found = {key: why for key, why in _OTHERWISE.items() if config.get(key)}
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        found["sliding_window"] = "a layer with a window has a cache that stops growing"
    kinds = set(config.get("layer_types") or ()) - {"full_attention"}
    if kinds and "sliding_window" not in found:
        found["layer_types"] = f"has {', '.join(map(str, sorted(kinds)))}"
    if "hidden_act" in config and config["hidden_act"] not in ("silu", "swish"):
        found["hidden_act"] = f"{config['hidden_act']}: parameters are counted for a gated feed-forward (silu) only"
    kind = config.get("model_type")
    if kind not in _COUNTED:
        found["model_type"] = f"{kind}: parameters and cache are known for {', '.join(_COUNTED)}"
    for key, why in found.items():
        raise ConfigError(f"model={path}: {key}: the roofline does not hold: {why}")


def _count(path: Path, config: Mapping[str, Any], key: str, otherwise: int | None = None) -> int:
    value = config.get(key)
    return whole(f"model={path}: {key}", otherwise if value is None else value, 1)
