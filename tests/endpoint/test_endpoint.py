"""What the client sends, takes for a completion, refuses, and keeps quiet about."""

from __future__ import annotations

import json
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("httpx", reason="pip install 'clinical-envs[agents]'")

from clinical_envs.errors import InvalidArgument
from tests.endpoint.asking import HELLO, refusal
from tests.endpoint.fake_server import FakeEndpoint, completion, status
from training import transport
from training.endpoint import Completion, ContextExceededError, Endpoint, EndpointError, Usage

SECRET = "sk-very-secret-0123456789"


def test_a_reply_is_a_completion_and_is_counted(endpoint):
    said = endpoint.chat(HELLO)
    assert said == Completion(text="hi", finish_reason="stop", prompt_tokens=7, completion_tokens=3)
    endpoint.chat(HELLO)
    assert endpoint.usage == Usage(requests=2, prompt_tokens=14, completion_tokens=6)


def test_a_request_says_what_was_asked_for_and_nothing_else(server, endpoint):
    schema = {"type": "object"}
    endpoint.chat(HELLO, temperature=1.0, max_tokens=9, seed=2**63 + 5, schema=schema)
    endpoint.chat(HELLO)
    full, plain = server.seen
    assert full == {
        "model": "m",
        "messages": HELLO,
        "temperature": 1.0,
        "max_tokens": 9,
        "seed": 5,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "turn", "strict": True, "schema": schema},
        },
    }
    assert plain == {"model": "m", "messages": HELLO, "temperature": 0.0, "max_tokens": 512}


def test_log_probabilities_are_returned_best_first(server, endpoint):
    tops = [{"token": "B", "logprob": -1.5}, {"token": "A", "logprob": -0.25}]
    server.speak = lambda body: {
        "message": {"content": "A"},
        "logprobs": {"content": [{"token": "A", "logprob": -0.25, "top_logprobs": tops}]},
    }
    said = endpoint.chat(HELLO, top_logprobs=2)
    assert said.top_logprobs == ((("A", -0.25), ("B", -1.5)),)
    assert (server.seen[0]["logprobs"], server.seen[0]["top_logprobs"]) == (True, 2)
    server.speak = lambda body: "A"
    assert "no log probabilities" in refusal(endpoint, top_logprobs=2)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_what_is_missing_of_the_url_is_added(server, path):
    with Endpoint(f"openai:{server.url}{path}#m") as client:
        assert client.chat(HELLO).text == "hi"
        assert client.name == f"openai:{server.url}{path}#m"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("http://127.0.0.1:1#m", "write openai:http://HOST:PORT#MODEL"),
        ("openai:127.0.0.1:8000#m", "is no endpoint"),
        ("openai:file:///etc/passwd#m", "is no endpoint"),
        ("openai:ftp://127.0.0.1#m", "is no endpoint"),
        ("openai:http://#m", "is no endpoint"),
        ("openai:http://host:99999#m", "is no endpoint"),
        ("openai:http://a..b#m", "is no endpoint"),
        ("openai:http://a b#m", "is no endpoint"),
        ("openai:http://user:pw@host#m", "give the key in OPENAI_API_KEY"),
        ("openai:http://host?key=pw#m", "give the key in OPENAI_API_KEY"),
        ("openai:http://host", "names no model"),
        ("openai:https://user:pw@host:80a#m", "is no endpoint"),
        ("openai:https://host:99999/v1?api_key=pw#m", "is no endpoint"),
        ("openai:htps://user:pw@host#m", "is no endpoint"),
        ("https://user:pw@host/v1#m", "is no endpoint"),
        ("openai:http://host?key=pw", "OPENAI_API_KEY"),
    ],
)
def test_a_malformed_specification_is_refused_before_anything_is_sent(spec, says):
    with pytest.raises(InvalidArgument, match=r"openai|OPENAI") as caught:
        Endpoint(spec)
    assert says in str(caught.value)
    assert "pw" not in str(caught.value)


@given(st.text())
def test_any_other_text_is_no_endpoint(text):
    with pytest.raises(InvalidArgument):
        Endpoint(text)


def test_a_model_that_is_not_there_is_refused_with_what_is():
    with FakeEndpoint(lambda body: "hi", models=["llama3:latest", "qwen"]) as server:
        with pytest.raises(EndpointError) as caught:
            Endpoint(f"openai:{server.url}#llama3")
        assert str(caught.value) == (
            f"{server.url}/v1 has no model 'llama3'; it has 'llama3:latest', 'qwen'"
        )


def test_a_long_list_of_models_is_cut_to_the_nearest():
    names = [f"other-{i}" for i in range(90)] + ["gpt-tiny-0125"]
    with (
        FakeEndpoint(lambda body: "hi", models=names) as server,
        pytest.raises(EndpointError) as caught,
    ):
        Endpoint(f"openai:{server.url}#gpt-tiny")
    assert "it has 'gpt-tiny-0125', " in str(caught.value)
    assert str(caught.value).endswith(" and 79 more")


@pytest.mark.parametrize("found", [404, 405, 403, 501])
def test_an_endpoint_without_a_list_of_models_is_taken_at_its_word(server, found):
    server.model_faults.append(status(found))
    with Endpoint(server.spec, patience_s=0.0) as client:
        assert client.chat(HELLO).text == "hi"


def test_a_list_without_models_is_taken_as_none(server):
    server.model_faults.append(status(200, {"object": "list", "data": None}))
    with Endpoint(server.spec, patience_s=0.0) as client:
        assert client.chat(HELLO).text == "hi"


def test_a_page_instead_of_a_list_of_models_is_refused(server):
    server.model_faults.append(status(200, b"<html><body>Welcome</body></html>"))
    with pytest.raises(EndpointError, match=r"something else than JSON .*Welcome"):
        Endpoint(server.spec)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"<html>Bad gateway</html>", "something else than JSON (<html>Bad gateway</html>)"),
        (b"", "something else than JSON (an empty reply)"),
        (b"[" * 100_000, "something else than JSON"),
        (
            {"error": {"message": "upstream is gone"}},
            "no choices with a message (upstream is gone)",
        ),
        ({"choices": []}, "no choices with a message"),
        ({"choices": [{"text": "hi"}]}, "no choices with a message"),
        (completion({"message": {"content": [{"text": "hi"}]}}), "content is not text"),
    ],
)
def test_what_is_no_completion_is_refused_at_once_with_where_and_what(
    server, endpoint, content, says
):
    server.faults.append(status(200, content))
    said = refusal(endpoint)
    assert server.url in said
    assert says in said
    assert endpoint.usage == Usage()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "error", "finish_reason"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(said=JSON | st.builds(lambda inner: {"choices": [{"message": inner}]}, JSON))
def test_any_json_is_a_completion_or_a_named_error(shared, said):
    server, client = shared
    server.faults.append(status(200, json.dumps(said).encode()))
    try:
        message = said["choices"][0]["message"]
        content = ({} | message).get("content")  # of an object
        wanted = "" if content is None else content + ""  # text or nothing
    except (TypeError, KeyError, IndexError):
        assert server.url in refusal(client)
    else:
        assert client.chat(HELLO).text == wanted.encode("utf-8", "backslashreplace").decode()


@pytest.fixture(scope="module")
def shared():
    with FakeEndpoint(lambda body: "hi") as server, Endpoint(server.spec) as client:
        yield server, client


def test_a_model_that_says_nothing_has_an_empty_text(server, endpoint):
    server.speak = lambda body: {"message": {"content": None}, "finish_reason": "length"}
    assert endpoint.chat(HELLO).text == ""
    assert endpoint.chat(HELLO).finish_reason == "length"


def test_a_lone_surrogate_is_read_as_its_escape_and_can_be_sent_back(server, endpoint):
    server.speak = lambda body: "\ud83d"
    said = endpoint.chat(HELLO).text
    assert said == "\\ud83d"
    endpoint.chat([*HELLO, {"role": "assistant", "content": "\ud83d"}])


@pytest.mark.parametrize("code", [301, 400, 404, 410, 422, 501])
def test_what_no_waiting_mends_is_refused_at_once(server, endpoint, code):
    server.faults.append(status(code, {"error": {"message": "no\nsuch  thing"}}))
    says = refusal(endpoint)
    assert f"status {code} (no such thing)" in says
    assert endpoint.usage == Usage()


def test_a_schema_that_is_refused_says_how_to_go_without(server, endpoint):
    server.faults.append(status(400, {"error": "response_format is not supported"}))
    says = refusal(endpoint, schema={"type": "object"})
    assert "response_format is not supported" in says
    assert "ask without one" in says


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 1024 tokens. However, you requested 1100 tokens",
        "the request exceeds the available context size, try increasing it",
    ],
)
def test_a_prompt_beyond_the_context_is_an_error_of_its_own(server, endpoint, message):
    server.faults.append(status(400, {"error": {"message": message}}))
    with pytest.raises(ContextExceededError, match="longer context"):
        endpoint.chat(HELLO)


def test_a_server_that_names_the_limit_otherwise_is_asked_in_its_words(server, endpoint):
    renamed = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead."
    )
    server.faults.append(status(400, {"error": {"message": renamed}}))
    for _ in range(2):
        endpoint.chat(HELLO, max_tokens=9)
    assert [body.get("max_completion_tokens") for body in server.seen] == [9, 9]
    assert not any("max_tokens" in body for body in server.seen)


def test_settings_of_sampling_that_a_server_refuses_are_left_out_and_that_is_said(server):
    said: list[str] = []
    server.faults.append(status(422, {"detail": [{"loc": ["body", "seed"], "msg": "extra"}]}))
    unknown = "Unrecognized request arguments supplied: min_p, top_k"
    server.faults.append(status(400, {"error": {"message": unknown}}))
    with Endpoint(server.spec, say=said.append) as client:
        for _ in range(2):
            client.chat(HELLO, temperature=1.0, seed=3)
        assert client.left_out == {"seed", "min_p", "top_k"}
    sent = {"model", "messages", "temperature", "max_tokens", "top_p"}
    assert [body.keys() for body in server.seen] == [sent, sent]
    assert [line.partition(": takes no ")[2] for line in said] == [
        "seed; its own defaults decide there",
        "min_p, top_k; its own defaults decide there",
    ]


def test_a_flood_is_not_taken_in(server, endpoint, monkeypatch):
    monkeypatch.setattr(transport, "MAX_REPLY_BYTES", 10_000)
    server.speak = lambda body: "x" * 20_000
    assert "larger than 10000 bytes" in refusal(endpoint)


def test_the_key_is_sent_and_stands_nowhere_else(server, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", f" {SECRET}\n")
    caplog.set_level(0)
    said: list[str] = []
    with Endpoint(server.spec, patience_s=0.05, say=said.append) as client:
        client.chat(HELLO)
        assert set(server.keys) == {f"Bearer {SECRET}"}
        echo = {"error": {"message": f"Incorrect API key provided: {SECRET}"}}
        server.faults.extend([status(401, echo), *[status(500, echo)] * 99])
        texts = [repr(client), str(client.usage), *said, caplog.text]
        for _ in range(2):
            with pytest.raises(EndpointError) as caught:
                client.chat(HELLO)
            texts += [str(caught.value), "".join(traceback.format_exception(caught.value))]
        texts += said
    assert "set OPENAI_API_KEY to another key" in texts[4]
    assert "***" in texts[4]
    assert not [text for text in texts if SECRET in text]


def test_an_endpoint_that_needs_a_key_says_where_to_put_it(server):
    server.model_faults.append(status(401, {"error": {"message": "no key"}}))
    with pytest.raises(EndpointError, match="set OPENAI_API_KEY to the key of this endpoint"):
        Endpoint(server.spec)
    assert server.keys == [None]


def test_a_key_that_no_header_carries_is_refused_without_telling_it(server, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-sécret\x01")
    with pytest.raises(InvalidArgument, match="holds a character that no key has") as caught:
        Endpoint(server.spec)
    assert "cret" not in str(caught.value)
