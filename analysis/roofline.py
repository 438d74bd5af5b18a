"""The ARC paper's roofline: what an episode's decoding reads from memory and what its prompts compute.

``python -m analysis.roofline model=qwen3-8b hardware=h200 context=16384 [switch=value ...]`` prints the constants, the
batch and the cost of a token at that context as JSON. ``model`` is an id of ``conf/model`` or a model's
``config.json``; the switches are those of ``conf/roofline/paper.yaml``. Exit status 2, with one line on standard
error, for bad input.

A decoded token reads its share of the weights and its own cache (Eqs. 1 and 80)::

    bytes_k = M_w / B + L_k * kv_b          L_k = p_k + (m_k - 1) / 2        (Eq. 81)
    B = max(1, floor((n_gpu * HBM - M_w - S) / (Lbar * kv_b)))               (Eqs. 2 and 83)

for call k with a prompt of ``p_k`` and a reply of ``m_k`` tokens; ``Lbar`` is the mean of ``L_k`` over decoded tokens.
Time is bytes over bandwidth (Eq. 84) and prompt FLOP over peak (Eq. 85). Were B no whole number, bytes would be
``kv_b * Q`` times a constant, with ``Q = sum m_k L_k``; so Q and the prompt tokens P stand beside every cost.

What it leaves out: that decode waits for compute in large batches, and prefill for memory in small ones; the kernels'
efficiency, communication between devices, scheduling and the time of tools; and, uncached, that a prefix cache serves
most of each prompt until a compaction rewrites it (``analysis.serving``).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from analysis import settings
from analysis.roofline_facts import Hardware, ModelFacts
from analysis.settings import CONF
from arcbench.checks import above, one_of, whole
from arcbench.types import ConfigError

SWITCHES = CONF / "roofline/paper.yaml"
ALL, WITHOUT_EMBEDDINGS = PARAMETERS = ("all", "without_embeddings")
UNCACHED, CACHED = PREFILLS = ("uncached", "cached")
COSTS = (
    "n_calls", "prompt_tokens", "prefilled_tokens", "decode_tokens", "decode_context_tokens", "mean_context_tokens",
    "batch", "decode_bytes", "prefill_flop", "decode_s", "prefill_s", "total_s",
)  # fmt: skip
"""The columns of :meth:`Roofline.episodes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What the paper leaves open: ``conf/roofline/paper.yaml`` says what each field is."""

    n_gpu: int
    weight_bytes_per_parameter: float
    kv_bytes_per_element: float
    scratch_bytes: float
    decode_parameters: str
    prefill_parameters: str
    attention_flop: bool
    prefill: str
    method_calls: bool

    def __post_init__(self) -> None:
        """Raises :class:`ConfigError` for a value that is none of those allowed."""
        whole("n_gpu", self.n_gpu, 1)
        above("weight_bytes_per_parameter", self.weight_bytes_per_parameter, 0)
        above("kv_bytes_per_element", self.kv_bytes_per_element, 0)
        if isinstance(self.scratch_bytes, bool) or not isinstance(self.scratch_bytes, int | float):
            raise ConfigError(f"scratch_bytes={self.scratch_bytes}: must be a number of at least 0")
        if not 0 <= self.scratch_bytes < math.inf:
            raise ConfigError(f"scratch_bytes={self.scratch_bytes}: must be a number of at least 0")
        one_of("decode_parameters", self.decode_parameters, PARAMETERS)
        one_of("prefill_parameters", self.prefill_parameters, PARAMETERS)
        one_of("prefill", self.prefill, PREFILLS)
        for key in ("attention_flop", "method_calls"):
            if not isinstance(getattr(self, key), bool):
                raise ConfigError(f"{key}={getattr(self, key)}: must be true or false")

    @classmethod
    def read(cls, path: Path = SWITCHES, **given: Any) -> Switches:
        """From a YAML file; ``given`` replaces single ones. Raises :class:`ConfigError`, ``OSError``."""
        names = [field.name for field in fields(cls)]
        wrong = [key for key in given if key not in names]
        if wrong:
            raise ConfigError(f"{wrong[0]}={given[wrong[0]]}: unknown; there are {', '.join(names)}")
        return cls(**settings.read(path, names) | given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A model on a device. Raises :class:`ConfigError` when it does not fit."""

    model: ModelFacts
    hardware: Hardware
    switches: Switches

    def __post_init__(self) -> None:
        hbm, weights, scratch = self.hbm_bytes, self.weight_bytes, self.switches.scratch_bytes
        on = f"{self.switches.n_gpu} x {self.hardware.id} ({hbm / 1e9:g} GB)"
        if weights >= hbm:
            raise ConfigError(f"model: {weights / 1e9:.2f} GB of weights do not fit on {on}; n_gpu must be larger")
        if scratch >= hbm - weights:
            raise ConfigError(
                f"scratch_bytes={scratch:g}: must be below the {(hbm - weights) / 1e9:.2f} GB that {weights / 1e9:.2f} "
                f"GB of weights leave on {on}"
            )

    @property
    def hbm_bytes(self) -> float:
        """Memory of all devices."""
        return self.switches.n_gpu * self.hardware.hbm_bytes

    @property
    def weight_bytes(self) -> float:
        """M_w: bytes of the weights, which stay in memory whole."""
        return self.switches.weight_bytes_per_parameter * self.model.parameters

    @property
    def read_bytes(self) -> float:
        """Bytes of the weights that a decode step reads."""
        return self.switches.weight_bytes_per_parameter * self._parameters(self.switches.decode_parameters)

    @property
    def kv_bytes_per_token(self) -> float:
        """kv_b: keys and values of all layers for one token, in bytes."""
        model = self.model
        return 2 * model.layers * model.kv_heads * model.head_dim * self.switches.kv_bytes_per_element

    @property
    def kv_bytes(self) -> float:
        """Bytes that are left for keys and values."""
        return self.hbm_bytes - self.weight_bytes - self.switches.scratch_bytes

    @property
    def flop_per_prompt_token(self) -> float:
        """A multiplication and an addition for each parameter, without attention."""
        return 2.0 * self._parameters(self.switches.prefill_parameters)

    def _parameters(self, which: str) -> int:
        return self.model.parameters if which == ALL else self.model.parameters_without_embeddings

    def batch(self, context_tokens: Any) -> Any:
        """B (Eqs. 2 and 83): sequences of so many tokens that are decoded together, at least 1. Takes arrays."""
        return np.maximum(1, np.floor(self.kv_bytes / (np.asarray(context_tokens) * self.kv_bytes_per_token)))

    def decode_bytes(self, *, decode_tokens: Any, context_tokens: Any, batch: Any) -> Any:
        """Bytes read for so many tokens at a mean context (Eqs. 1 and 80)."""
        return decode_tokens * (self.read_bytes / batch + context_tokens * self.kv_bytes_per_token)

    def attention_flop(self, *, prompt_tokens: Any, cached_tokens: Any) -> Any:
        """FLOP of attention's two products over a prompt of which so many tokens are cached, causally."""
        pairs = (prompt_tokens**2 - cached_tokens**2) / 2
        return 4.0 * self.model.layers * self.model.heads * self.model.head_dim * pairs

    def episodes(self, calls: pd.DataFrame, *, most_sequences: int | None = None) -> pd.DataFrame:
        """One row an episode (``run_dir``, ``task``; columns :data:`COSTS`) from one row a call: ``prompt_tokens``,
        ``completion_tokens``, ``billed``, and, where prefill is cached, ``cached_tokens``. ``most_sequences`` is the
        most that an engine decodes together, however many had room. Raises :class:`ConfigError` for a call without
        token counts."""
        calls = calls if self.switches.method_calls else calls[calls["billed"] == "agent"]
        cached = self.switches.prefill == CACHED
        for column in ("prompt_tokens", "completion_tokens", *(("cached_tokens",) if cached else ())):
            silent = calls[calls[column].isna()]
            if len(silent):
                first = silent.iloc[0]
                raise ConfigError(
                    f"{first['run_dir']}: {column} of a call of {first['task']} is not recorded; must be a count"
                )
        prompt, reply = calls["prompt_tokens"].astype(float), calls["completion_tokens"].astype(float)
        served = calls["cached_tokens"].astype(float) if cached else pd.Series(0.0, index=calls.index)
        flop = (prompt - served) * self.flop_per_prompt_token
        if self.switches.attention_flop:
            flop = flop + self.attention_flop(prompt_tokens=prompt, cached_tokens=served)
        parts = pd.DataFrame(
            {
                "run_dir": calls["run_dir"],
                "task": calls["task"],
                "n_calls": 1,
                "prompt_tokens": prompt,
                "prefilled_tokens": prompt - served,
                "decode_tokens": reply,
                "decode_context_tokens": reply * (prompt + (reply - 1) / 2),
                "prefill_flop": flop,
            }
        )
        made = parts.groupby(["run_dir", "task"], sort=False).sum().reset_index()
        # an episode whose every call failed to decode has no context, and reads nothing
        decoded = made["decode_tokens"].where(made["decode_tokens"] > 0)
        made["mean_context_tokens"] = made["decode_context_tokens"] / decoded
        made["batch"] = self.batch(made["mean_context_tokens"])
        if most_sequences is not None:
            made["batch"] = made["batch"].clip(upper=most_sequences)
        made["decode_bytes"] = self.decode_bytes(
            decode_tokens=decoded, context_tokens=made["mean_context_tokens"], batch=made["batch"]
        )
        made["decode_bytes"] = made["decode_bytes"].fillna(0.0)
        made["decode_s"] = made["decode_bytes"] / (self.switches.n_gpu * self.hardware.bandwidth_bytes_per_s)
        made["prefill_s"] = made["prefill_flop"] / (self.switches.n_gpu * self.hardware.peak_flop_per_s)
        made["total_s"] = made["decode_s"] + made["prefill_s"]
        return made[["run_dir", "task", *COSTS]]

    def constants(self, context_tokens: int) -> dict[str, Any]:
        """Constants, batch and the cost of a decoded token at a context, as plain numbers."""
        batch = float(self.batch(context_tokens))
        token = float(self.decode_bytes(decode_tokens=1, context_tokens=context_tokens, batch=batch))
        bandwidth = self.switches.n_gpu * self.hardware.bandwidth_bytes_per_s
        peak = self.switches.n_gpu * self.hardware.peak_flop_per_s
        return {
            "weight_bytes": self.weight_bytes,
            "kv_bytes_per_token": self.kv_bytes_per_token,
            "hbm_bytes": self.hbm_bytes,
            "kv_cache_bytes": self.kv_bytes,
            "context_tokens": context_tokens,
            "batch": int(batch),
            "decode_bytes_per_token": token,
            "decode_s_per_token": token / bandwidth,
            "device_decode_tokens_per_s": bandwidth / token,
            "flop_per_prompt_token": self.flop_per_prompt_token,
            "device_prefill_tokens_per_s": peak / self.flop_per_prompt_token,
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    words = sys.argv[1:] if argv is None else argv
    if "--help" in words:
        print(__doc__)
        return 0
    try:
        given = pairs_of(words)
        named = {key: given.pop(key, None) for key in ("model", "hardware", "context")}
        for key, value in named.items():
            if value is None:
                raise ConfigError(f"{key}=: must be given, as in model=qwen3-8b hardware=h200 context=16384")
        roofline = Roofline(
            model=ModelFacts.read(str(named["model"])),
            hardware=Hardware.read(str(named["hardware"])),
            switches=Switches.read(**given),
        )
        context = whole("context", named["context"], 1)
        print(json.dumps(named | asdict(roofline.switches) | roofline.constants(context), indent=2))
    except (ConfigError, OSError) as fault:
        print(" ".join(str(fault).split("\n")), file=sys.stderr)
        return 2
    return 0


def pairs_of(args: Sequence[str]) -> dict[str, Any]:
    """``key=value`` arguments with YAML's values. Raises :class:`ConfigError`."""
    given: dict[str, Any] = {}
    for arg in args:
        key, sign, value = arg.partition("=")
        if not sign or not key:
            raise ConfigError(f"{arg}: must be key=value")
        if key in given:
            raise ConfigError(f"{key}={value}: given twice")
        given[key] = number_of(value)
    return given


def number_of(text: str) -> Any:
    """A value as YAML reads it, and 1e9 as the number that it is."""
    value = yaml.safe_load(text)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def means(episodes: pd.DataFrame) -> Mapping[str, float]:
    """Means of the columns :data:`COSTS` over episodes; NaN for none."""
    return {column: float(episodes[column].mean()) for column in COSTS}


if __name__ == "__main__":
    sys.exit(main())
