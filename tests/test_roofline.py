"""The roofline: constants and closed form against numbers worked out by hand, and what it refuses."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import roofline
from analysis.printed import Range
from analysis.reference import Reference
from analysis.roofline import Roofline, Switches
from analysis.roofline_facts import Hardware, ModelFacts
from arcbench.types import ConfigError

ROOT = Path(__file__).resolve().parent.parent
SMOLLM2 = {
    "model_type": "llama", "num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9,
    "num_key_value_heads": 3, "intermediate_size": 1536, "vocab_size": 49152, "tie_word_embeddings": True,
    "hidden_act": "silu",
}  # fmt: skip
QWEN3_8B = {
    "model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 12288, "vocab_size": 151936,
    "tie_word_embeddings": False, "hidden_act": "silu", "sliding_window": None, "use_sliding_window": False,
}  # fmt: skip


def of(model: str, hardware: str = "h200", **switches: object) -> Roofline:
    return Roofline(model=ModelFacts.read(model), hardware=Hardware.read(hardware), switches=Switches.read(**switches))


def small(**switches: object) -> Roofline:
    """100 bytes of weights, 20 bytes a cached token, 2,000 bytes for them."""
    facts = ModelFacts(
        layers=1, heads=2, kv_heads=1, head_dim=5, parameters=50, parameters_without_embeddings=40, source="made up"
    )
    device = Hardware(
        id="d", device="D", hbm_bytes=2100, bandwidth_bytes_per_s=434, peak_flop_per_s=1000, source="made up"
    )
    return Roofline(model=facts, hardware=device, switches=Switches.read(**switches))


def calls(*played: tuple[int, int, str, int | None]) -> pd.DataFrame:
    columns = ["prompt_tokens", "completion_tokens", "billed", "cached_tokens"]
    return pd.DataFrame(played, columns=columns).assign(run_dir="run", task="t")


# --------------------------------------------------------------------------------------- constants


@pytest.mark.parametrize(
    ("model", "weight_gb", "kv_bytes", "batch"), [("qwen3-8b", 16.38, 147456, 51), ("qwen3-32b", 65.52, 262144, 17)]
)
def test_constants_of_the_paper_s_models(model: str, weight_gb: float, kv_bytes: int, batch: int) -> None:
    made = of(model)
    assert made.weight_bytes / 1e9 == pytest.approx(weight_gb)
    assert made.kv_bytes_per_token == kv_bytes
    assert made.batch(16384) == batch  # (141 - M_w) GB over 16,384 kv_b: 51.6 and 17.6


def test_the_batch_is_at_least_one() -> None:
    assert of("qwen3-32b").batch(10**7) == 1


def test_an_episode_by_hand() -> None:
    # 11 tokens at 10 + 5 = 15, one at 40: Q = 205 over 12 tokens, mean 17.08; 2000 / (17.08 * 20) = 5.9: batch 5
    # 12 * 100 / 5 + 205 * 20 = 4,340 bytes in 10 s; 50 prompt tokens * 2 * 40 = 4,000 FLOP in 4 s
    row = small().episodes(calls((10, 11, "agent", None), (40, 1, "agent", None))).iloc[0]
    assert (row["n_calls"], row["prompt_tokens"], row["decode_tokens"]) == (2, 50, 12)
    assert (row["decode_context_tokens"], row["batch"]) == (205, 5)
    assert (row["decode_bytes"], row["decode_s"]) == (4340, 10)
    assert (row["prefill_flop"], row["prefill_s"], row["total_s"]) == (4000, 4, 14)


def test_each_switch_by_hand() -> None:
    played = calls((10, 11, "agent", 0), (40, 1, "method", 16))

    def changed(**switches: object) -> pd.Series:
        return small(**switches).episodes(played).iloc[0]

    # only the agent's call: 11 tokens at 15: 2000 / 300 = 6: 11 * 100 / 6 + 165 * 20
    assert changed(method_calls=False)["decode_bytes"] == pytest.approx(11 * 100 / 6 + 3300)
    assert changed(method_calls=False)["prompt_tokens"] == 10
    assert changed(prefill="cached")["prefill_flop"] == 34 * 80
    assert changed(prefill_parameters="all")["prefill_flop"] == 50 * 100
    # 80 bytes read a step
    assert changed(decode_parameters="without_embeddings")["decode_bytes"] == 12 * 80 / 5 + 4100
    # 1,000 bytes less: batch 2
    assert changed(scratch_bytes=1000)["decode_bytes"] == 12 * 100 / 2 + 4100
    # products of attention: 4 * 2 heads * 5 elements * (10^2 + 40^2) / 2
    assert changed(attention_flop=True)["prefill_flop"] == 4000 + 40 * 850
    assert changed(attention_flop=True, prefill="cached")["prefill_flop"] == 34 * 80 + 40 * (100 + 1600 - 256) / 2
    # two devices: 4,100 bytes for the cache, batch 12, twice the bandwidth and the peak
    two = changed(n_gpu=2)
    assert (two["batch"], two["decode_bytes"], two["decode_s"]) == pytest.approx((12, 4200, 4200 / 868))
    assert two["prefill_s"] == 2
    # one byte an element: 10 a token, 50 of weights: batch 2,050 / 170.8 = 12
    eight_bit = changed(weight_bytes_per_parameter=1, kv_bytes_per_element=1)
    assert (eight_bit["batch"], eight_bit["decode_bytes"]) == pytest.approx((12, 12 * 50 / 12 + 2050))


def test_an_episode_that_decoded_nothing_reads_nothing() -> None:
    row = small().episodes(calls((10, 0, "agent", None))).iloc[0]
    assert (row["decode_bytes"], row["decode_s"], row["prefill_s"]) == (0, 0, 0.8)
    assert math.isnan(row["mean_context_tokens"])


@given(st.lists(st.tuples(st.integers(1, 30000), st.integers(1, 4096)), min_size=1, max_size=8))
def test_it_is_a_constant_times_q_but_for_the_whole_batch(played: list[tuple[int, int]]) -> None:
    made = of("qwen3-8b")
    row = made.episodes(calls(*((p, m, "agent", None) for p, m in played))).iloc[0]
    constant = made.kv_bytes_per_token * (1 + made.read_bytes / made.kv_bytes)
    least = constant * row["decode_context_tokens"]
    # rounding the batch down costs at most one sequence's share of the weights
    assert least * (1 - 1e-9) <= row["decode_bytes"] <= least * (1 + 1 / row["batch"]) + 1


def test_decode_time_is_traffic_over_bandwidth_in_the_paper_s_rows() -> None:
    speed = Hardware.read("h200").bandwidth_bytes_per_s / 1e12
    deviating = []
    for table in ("arc_table03", "arc_table04", "arc_table09", "arc_table10", "arc_table11"):
        for row in Reference().printed(table).to_dict("records"):
            if not Range.of(row["t_decode_s"]).meets(Range.of(row["bandwidth_tb"]).times(1 / speed)):
                deviating.append((table, row["model"], row["method"]))
    # the audit names both: 347.73 TB are 72.44 s, printed is 72.45; 4.87 TB are 1.01 s, printed is 0.01
    assert deviating == [("arc_table03", "qwen3-32b", "llm_summary"), ("arc_table04", "qwen3-8b", "arc")]


# ----------------------------------------------------------------------------------- other models


def write(folder: Path, config: dict[str, object]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(config), "utf-8")
    return str(path)


def test_facts_from_a_config_are_those_of_the_weights(tmp_path: Path) -> None:
    shipped = ModelFacts.read("smollm2-135m")
    counted = ModelFacts.read(write(tmp_path, SMOLLM2))
    assert counted.parameters == shipped.parameters == 134515008
    assert counted.parameters_without_embeddings == shipped.parameters_without_embeddings
    assert (counted.layers, counted.heads, counted.kv_heads, counted.head_dim) == (30, 9, 3, 64)


def test_facts_of_qwen3_from_its_config(tmp_path: Path) -> None:
    write(tmp_path, QWEN3_8B)
    counted = ModelFacts.read(str(tmp_path))
    assert counted.parameters == 8190735360
    assert counted.parameters_without_embeddings == 6946075648
    assert of(str(tmp_path)).kv_bytes_per_token == 147456


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kv_lora_rank", 512),
        ("num_experts", 128),
        ("n_routed_experts", 64),
        ("ssm_state_size", 16),
        ("linear_num_value_heads", 32),
        ("sliding_window", 4096),
        ("layer_types", ["full_attention", "linear_attention"]),
        ("quantization_config", {"quant_method": "fp8"}),
        ("hidden_act", "gelu"),
        ("model_type", "nemotron_h"),  # some of its layers are Mamba's, which another key says
        ("model_type", None),
    ],
)
def test_a_model_for_which_it_does_not_hold_is_refused_by_name(tmp_path: Path, key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"{key}: the roofline does not hold") as raised:
        ModelFacts.read(write(tmp_path, SMOLLM2 | {key: value}))
    assert "\n" not in str(raised.value)


# --------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("model=qwen3-8b hardware=h100 context=16384", "hardware=h100: must be one of h200, mi300x"),
        ("model=qwen4 hardware=h200 context=16384", "model=qwen4: must be one of"),
        ("model=nowhere/config.json hardware=h200 context=1", "model=nowhere/config.json: no such file"),
        ("model=qwen3-8b hardware=h200", "context=: must be given"),
        ("model=qwen3-8b hardware=h200 context=0", "context=0: must be a whole number of at least 1"),
        ("model=qwen3-8b hardware=h200 context=16384.5", "context=16384.5: must be a whole number"),
        ("model=qwen3-8b hardware=h200 context", "context: must be key=value"),
        ("model=qwen3-8b hardware=h200 context=1 context=2", "context=2: given twice"),
        ("model=qwen3-8b hardware=h200 context=1 colour=red", "colour=red: unknown"),
        ("model=qwen3-32b hardware=h200 context=1 scratch_bytes=75.48e9", "must be below the 75.48 GB"),
        ("model=qwen3-32b hardware=h200 context=1 scratch_bytes=-1", "must be a number of at least 0"),
        ("model=qwen3-32b hardware=h200 context=1 weight_bytes_per_parameter=8", "do not fit on 1 x h200"),
        ("model=qwen3-8b hardware=h200 context=1 n_gpu=0", "n_gpu=0: must be a whole number"),
        ("model=qwen3-8b hardware=h200 context=1 prefill=half", "prefill=half: must be one of"),
        ("model=qwen3-8b hardware=h200 context=1 method_calls=7", "method_calls=7: must be true or false"),
    ],
)
def test_bad_input_gets_one_line(args: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert roofline.main(args.split()) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_device_without_bandwidth_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "conf/hardware/h200.yaml").read_text("utf-8")
    (tmp_path / "slow.yaml").write_text(text.replace("bandwidth_bytes_per_s: 4.8e+12", "bandwidth_bytes_per_s: 0"))
    with pytest.raises(ConfigError, match="bandwidth_bytes_per_s=0: must be a number above 0"):
        Hardware.read("slow", tmp_path)


def test_a_call_without_token_counts_is_refused_by_name() -> None:
    for column in ("prompt_tokens", "completion_tokens"):
        with pytest.raises(ConfigError, match=f"run: {column} of a call of t is not recorded"):
            small().episodes(calls((10, 11, "agent", None)).assign(**{column: None}))
    with pytest.raises(ConfigError, match="cached_tokens of a call of t is not recorded"):
        small(prefill="cached").episodes(calls((10, 11, "agent", None)))


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert roofline.main(["model=qwen3-8b", "hardware=h200", "context=16384", "scratch_bytes=10e9"]) == 0
    printed = json.loads(capsys.readouterr().out)
    # (141 - 16.38 - 10) GB / (16,384 * 147,456 B) = 47.4
    assert (printed["batch"], printed["scratch_bytes"], printed["kv_bytes_per_token"]) == (47, 10e9, 147456)
    assert printed["decode_bytes_per_token"] == pytest.approx(16.38e9 / 47 + 16384 * 147456)
