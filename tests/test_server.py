"""The engine behind HTTP, against a small server of our own that misbehaves as servers do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from fakes import conf
from served import TEXT, Server

from arcbench.engines.server import ServerEngine
from arcbench.types import ConfigError, ContextOverflow, EngineError, Message, Reply, Request


def make(url: str, **changes: Any) -> ServerEngine:
    arguments = conf("engine/server") | {"window_tokens": 2048, "seed": 5, "url": url, "backoff_s": [0.01, 0.5]}
    arguments |= {"model": conf("model/qwen3-8b"), "timeout_s": 5}
    del arguments["_target_"], arguments["_convert_"]
    return ServerEngine(**(arguments | changes))


def request(text: str = "ls?", **fields: Any) -> Request:
    given = {"max_tokens": 8, "thinking": False, "episode": "needle/42/0", "number": 1, "seed": 7} | fields
    return Request(messages=(Message("system", "A shell."), Message("user", text)), **given)


def with_server(server: Server, use: Callable[[ServerEngine], Any], **changes: Any) -> Any:
    """What comes of using an engine that has started on this server."""

    async def play() -> Any:
        async with TestServer(server.app) as running:
            engine = make(str(running.make_url("/v1")), **changes)
            try:
                await engine.start()
                return await use(engine)
            finally:
                await engine.close()

    return asyncio.run(play())


def one_call(server: Server, **changes: Any) -> Reply:
    return with_server(server, lambda engine: engine.complete(request()), **changes)


# ---------------------------------------------------------------------------------------- exact ids


def test_a_prompt_goes_out_as_the_ids_that_were_counted() -> None:
    server = Server()

    async def use(engine: ServerEngine) -> tuple[Reply, int]:
        return await engine.complete(request()), engine.count(request().messages, thinking=False)

    reply, counted = with_server(server, use)
    (body,) = server.bodies
    assert len(body["prompt"]) == counted == reply.prompt_tokens
    assert (reply.text, reply.finish, reply.completion_tokens, reply.cached_tokens) == (TEXT, "stop", 3, None)
    assert reply.latency_s > 0
    assert (body["model"], body["max_tokens"], body["stream"], body["seed"]) == ("m", 8, False, 12)
    assert {key: body[key] for key in ("temperature", "top_p", "top_k", "min_p")} == {
        "temperature": 0.7, "top_p": 0.8, "top_k": 20, "min_p": 0.0,
    }  # fmt: skip
    # left out, a vLLM server takes these from the model's generation_config.json
    assert (body["repetition_penalty"], body["presence_penalty"], body["frequency_penalty"]) == (1, 0, 0)


def test_thinking_has_its_own_sampling_and_seeds_can_be_left_out() -> None:
    server = Server()
    with_server(server, lambda engine: engine.complete(request(thinking=True)), per_request_seed=False)
    assert server.bodies[0]["temperature"] == 0.6
    assert "seed" not in server.bodies[0]


def test_constraints_are_sent_but_not_into_thoughts() -> None:
    server = Server()

    async def use(engine: ServerEngine) -> None:
        await engine.complete(request(grammar="a+"))
        await engine.complete(request(schema={"type": "object"}))
        await engine.complete(request(grammar="a+", thinking=True))

    with_server(server, use)
    assert [body.get("structured_outputs") for body in server.bodies] == [
        {"regex": "a+"}, {"json": {"type": "object"}}, None,
    ]  # fmt: skip


def test_cached_tokens_are_as_reported() -> None:
    assert one_call(Server("cached")).cached_tokens == 5


def test_each_cell_starts_with_a_prefix_cache_that_knows_nothing_of_the_cell_before() -> None:
    server = Server()

    async def use(engine: ServerEngine) -> None:
        for _ in range(2):
            await engine.complete(request())
        await engine.start()  # as the runner does with a living engine, for the next cell
        await engine.complete(request())

    with_server(server, use)
    first, second, third = (body["cache_salt"] for body in server.bodies)
    assert first == second != third
    other = Server()
    chat(other)
    assert "cache_salt" not in other.bodies[0]  # another server may refuse a field that it does not know


def test_an_episode_has_one_session_and_another_has_another() -> None:
    server = Server()

    async def use(engine: ServerEngine) -> None:
        for episode in ("a", "a", "b"):
            await engine.complete(request(episode=episode))

    with_server(server, use)
    sessions = [headers["X-Session-ID"] for headers in server.headers]
    assert sessions[0] == sessions[1] != sessions[2]
    server = Server()
    with_server(server, lambda engine: engine.complete(request()), session_header=None)
    assert "X-Session-ID" not in server.headers[0]


def test_overflow_is_found_by_counting_and_nothing_is_sent() -> None:
    server = Server()
    with pytest.raises(ContextOverflow):
        with_server(server, lambda engine: engine.complete(request("x " * 3000)))
    assert server.bodies == []


def test_a_reply_cut_before_its_cap_is_an_overflow() -> None:
    with pytest.raises(ContextOverflow):  # 3 of 8 tokens
        one_call(Server("length"))


def test_a_reply_cut_at_its_cap_is_cut() -> None:
    reply = with_server(Server("length"), lambda engine: engine.complete(request(max_tokens=3)))
    assert reply.finish == "length"


def test_another_count_than_ours_is_an_error() -> None:
    with pytest.raises(EngineError, match="ids were sent, and the server counted"):
        one_call(Server(counts=1))


# --------------------------------------------------------------------------------------------- chat


CHAT = {"api": "chat", "model": conf("model/served"), "served_model": "m"}


def chat(server: Server, **changes: Any) -> Reply:
    return one_call(server, **CHAT, **changes)


def test_any_other_server_is_asked_with_messages() -> None:
    server = Server(window=None)
    reply = chat(server)
    (body,) = server.bodies
    assert body["messages"] == [{"role": "system", "content": "A shell."}, {"role": "user", "content": "ls?"}]
    assert "chat_template_kwargs" not in body
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == (TEXT, 7, 3)


def test_the_manifest_says_that_its_counts_are_estimates() -> None:
    async def described(engine: ServerEngine) -> Any:
        return engine.describe()

    found = with_server(Server(window=None), described, **CHAT)
    assert found["prompt_counts"].startswith("estimated")
    exact = with_server(Server(), described)
    assert (exact["prompt_counts"], exact["server_window_tokens"]) == ("exact", 2048)
    json.dumps(found)


def test_a_chat_reply_without_content_is_empty() -> None:
    assert chat(Server("silent", window=None)).text == ""


def test_a_schema_goes_as_a_response_format() -> None:
    server = Server(window=None)
    with_server(server, lambda engine: engine.complete(request(schema={"type": "object"})), **CHAT)
    assert server.bodies[0]["response_format"]["json_schema"]["schema"] == {"type": "object"}


# ------------------------------------------------------------------------------------------ trouble


@pytest.mark.parametrize("what", ["429", "500", "502", "503", "504", "408", "reset", "cut", "garbage", "wait"])
def test_what_may_go_better_is_asked_again(what: str) -> None:
    server = Server(what, what)
    undisturbed = one_call(Server())
    reply = one_call(server)
    assert (reply.text, reply.prompt_tokens) == (undisturbed.text, undisturbed.prompt_tokens)
    assert len(server.bodies) == 3
    assert server.bodies[0] == server.bodies[1] == server.bodies[2]


@pytest.mark.parametrize("status", ["400", "401", "403", "404", "413", "422", "501"])
def test_what_will_not_go_better_is_asked_once(status: str) -> None:
    server = Server(status)
    with pytest.raises(EngineError, match=f"engine=server: status {status}: trouble"):
        one_call(server)
    assert len(server.bodies) == 1


def test_it_is_asked_again_a_bounded_number_of_times() -> None:
    server = Server(*["503"] * 9)
    with pytest.raises(EngineError, match=r"status 503: trouble.*\(3 tries\)"):
        one_call(server, retries=2)
    assert len(server.bodies) == 3


def test_a_server_s_wait_is_kept_to() -> None:
    server = Server("wait")

    async def use(engine: ServerEngine) -> float:
        started = asyncio.get_running_loop().time()
        await engine.complete(request())
        return asyncio.get_running_loop().time() - started

    assert with_server(server, use) >= 0.2


def test_a_call_that_hangs_ends_at_its_timeout() -> None:
    with pytest.raises(EngineError, match=r"no reply within engine.timeout_s=0.3"):
        one_call(Server("hang"), timeout_s=0.3)


def test_waiting_counts_in_the_timeout() -> None:
    with pytest.raises(EngineError, match="no reply within engine.timeout_s=0.3; last: status 503"):
        one_call(Server(*["503"] * 50), timeout_s=0.3, retries=49, backoff_s=[0.1, 0.2])


@pytest.mark.parametrize("what", ["empty", "filter"])
def test_an_answer_without_a_reply_is_an_error(what: str) -> None:
    with pytest.raises(EngineError, match="without text and usage|ended as content_filter"):
        one_call(Server(what))


def test_no_more_calls_at_once_than_allowed() -> None:
    server = Server()
    at_once, most = 0, 0
    answer = server.answer

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.02)
        at_once -= 1
        return await answer(request)

    server.app = web.Application()
    server.app.router.add_get("/v1/models", server.list_models)
    server.app.router.add_post("/v1/completions", counted)

    async def use(engine: ServerEngine) -> list[Reply]:
        return await asyncio.gather(*(engine.complete(request(number=i)) for i in range(20)))

    assert len(with_server(server, use, concurrency=4)) == 20
    assert most == 4


# ----------------------------------------------------------------------------------------- the key


def test_the_key_is_sent_and_stands_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    server = Server("400")

    async def use(engine: ServerEngine) -> tuple[str, str]:
        with pytest.raises(EngineError) as raised:
            await engine.complete(request())
        return str(raised.value), json.dumps(engine.describe())

    error, described = with_server(server, use, key_env="SOME_KEY")
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"
    assert "trouble Bearer <key>" in error
    assert "sk-secret" not in error + described


@pytest.mark.parametrize("value", [" sk-secret\n", "sk-secret"])
def test_blanks_around_a_key_are_no_part_of_it(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("SOME_KEY", value)
    server = Server()
    one_call(server, key_env="SOME_KEY")
    assert server.headers[0]["Authorization"] == "Bearer sk-secret"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "engine.key_env=SOME_KEY: this environment variable is not set"),
        ("  ", "engine.key_env=SOME_KEY: this environment variable is not set"),
        ("sk-sec\nret", "engine.key_env=SOME_KEY: this environment variable holds no key"),
        ("sk-sécret", "engine.key_env=SOME_KEY: this environment variable holds no key"),
    ],
)
def test_a_variable_without_a_key_gets_one_line(monkeypatch: pytest.MonkeyPatch, value: str | None, said: str) -> None:
    monkeypatch.delenv("SOME_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(ConfigError, match=said) as raised:
        make("http://localhost:1/v1", key_env="SOME_KEY")
    assert "sk" not in str(raised.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"key_env": "sk-secret"},
        {"key_env": "hf_secret"},
        {"url": "http://me:sk-secret@localhost:1/v1"},
        {"url": "http://sk-secret@localhost:99999/v1"},
        {"url": "http://localhost:1/v1?key=sk-secret"},
        {"url": "http://localhost:1/v1#sk-secret"},
    ],
)
def test_a_key_where_it_would_be_recorded_is_refused_and_not_repeated(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"engine.{next(iter(changes))}.*: must ") as raised:
        make(**({"url": "http://localhost:1/v1"} | changes))
    assert "secret" not in str(raised.value)


# --------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("server", "changes", "said"),
    [
        (Server(models=("a", "b")), {}, "engine.served_model=None: .* serves a, b"),
        (Server(), {"served_model": "x"}, "engine.served_model=x: .* serves m"),
        (Server(window=1024), {}, "budget.window_tokens=2048: m at .* takes at most 1024"),
        (Server(window=None), {}, "engine.api=ids: .* use engine.api=chat"),
        (Server(window="2048"), {}, "engine.api=ids: .* use engine.api=chat"),
        (Server("html"), {}, "engine.url=.*: an answer that is no JSON: <html>.*; must be the address"),
    ],
)
def test_a_server_that_does_not_fit_is_refused_in_one_line(server: Server, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as raised:
        one_call(server, **changes)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"api": "grpc"}, "engine.api=grpc: must be one of ids, chat"),
        ({"url": "localhost:8000"}, "engine.url=localhost:8000: must be an address"),
        ({"url": "http://localhost:99999/v1"}, "engine.url=http://localhost:99999/v1: must be an address"),
        ({"url": "http://"}, "engine.url=http://: must be an address"),
        ({"url": None}, "engine.url=None: must be an address"),
        ({"api": "chat", "model": conf("model/served")}, "engine.served_model=null: engine.api=chat needs the name"),
        ({"connect_s": 0}, "engine.connect_s=0: must be a number above 0"),
        ({"retries": -1}, "engine.retries=-1"),
        ({"backoff_s": [1]}, "engine.backoff_s="),
        ({"backoff_s": [0, 1]}, "engine.backoff_s=0: must be a number above 0"),
        ({"timeout_s": 0}, "engine.timeout_s=0"),
        ({"per_request_seed": None}, "engine.per_request_seed=None: must be true or false"),
        ({"summary_bound": "head_tail"}, "engine.summary_bound=head_tail"),
        ({"session_header": 5}, "engine.session_header=5: must be a name, or null"),
        ({"model": conf("model/scripted")}, "engine=server model=scripted: not a language model"),
        ({"model": conf("model/served")}, "engine.api=ids model=served"),
        (
            {"model": conf("model/smollm2-135m"), "api": "chat", "served_model": "m"},
            "model.constrain_replies=true needs engine.api=ids",
        ),
    ],
)
def test_bad_arguments_get_one_line(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make(**({"url": "http://localhost:1/v1"} | changes))


async def started(url: str, **changes: Any) -> None:
    engine = make(url, **changes)
    try:
        await engine.start()
    finally:
        await engine.close()


def test_a_server_that_is_not_there_gets_one_line() -> None:
    with pytest.raises(ConfigError, match=r"engine.url=http://127.0.0.1:9/v1: ClientConnectorError.*must be") as raised:
        asyncio.run(started("http://127.0.0.1:9/v1"))
    assert "\n" not in str(raised.value)


def test_an_address_without_its_path_gets_one_line() -> None:
    async def play() -> None:
        async with TestServer(Server().app) as running:
            await started(str(running.make_url("/")))

    with pytest.raises(ConfigError, match=r"engine.url=.*: status 404: .*such as http://localhost:8000/v1, its key"):
        asyncio.run(play())


def test_a_server_that_never_answers_is_not_waited_for_as_long_as_for_a_reply() -> None:
    async def play() -> None:
        silent = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        async with silent:
            await started(f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1", connect_s=0.2, timeout_s=60)

    with pytest.raises(ConfigError, match=r"engine.url=.*: no answer within engine.connect_s=0.2; must be the address"):
        asyncio.run(play())


def test_it_is_a_choice_of_the_command_line(tmp_path: Path) -> None:
    from arcbench.runner.building import build
    from arcbench.runner.overrides import composed

    config = composed(["engine=server", "model=qwen3-8b", "engine.url=http://localhost:1/v1"])
    assert isinstance(build(config["engine"]), ServerEngine)
