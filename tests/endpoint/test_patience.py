"""What the client waits for, how long, and how it is shared by threads and closed."""

from __future__ import annotations

import threading
import time
from email.utils import formatdate

import pytest

pytest.importorskip("httpx", reason="pip install 'clinical-envs[agents]'")

from clinical_envs.errors import ClinicalEnvsError
from tests.endpoint.asking import HELLO, refusal
from tests.endpoint.fake_server import FakeEndpoint, half, hang, reset, status, trickle
from training import transport
from training.endpoint import Endpoint, EndpointError, Usage

FAULTS = {
    "429": status(429),
    "500": status(500),
    "502 page": status(502, b"<html>nginx</html>"),
    "503": status(503),
    "408": status(408),
    "409": status(409),
    "reset": reset,
    "half a reply": half,
}


@pytest.mark.parametrize("name", FAULTS)
def test_trouble_that_may_pass_is_waited_for(server, name):
    said: list[str] = []
    with Endpoint(server.spec, patience_s=5.0, say=said.append) as client:
        server.faults.extend([FAULTS[name]] * 3)
        assert client.chat(HELLO).text == "hi"
        assert client.usage == Usage(requests=1, prompt_tokens=7, completion_tokens=3, retries=3)
    assert len(server.seen) == 1
    assert len(said) == 1, "one line for trouble within ten seconds"
    assert "trying again for up to 5 s" in said[0]


@pytest.mark.parametrize("fault", [hang, trickle])
def test_a_reply_that_does_not_come_in_time_is_asked_for_again(server, fault):
    with Endpoint(server.spec, timeout_s=0.3, patience_s=30.0) as client:
        server.faults.append(fault)
        assert client.chat(HELLO).text == "hi"
        assert client.usage.retries >= 1


def test_a_server_that_stays_hung_is_given_up_with_what_was_waited_for(server):
    with Endpoint(server.spec, timeout_s=0.1, patience_s=0.2) as client:
        server.faults.extend([hang] * 9)
        says = refusal(client)
    assert says.startswith(f"{server.url}/v1: no answer within 0.1 s; given up with a patience")


def test_a_server_that_is_not_up_yet_is_waited_for():
    with FakeEndpoint(lambda body: "hi") as first:
        port = first.port
    waited = threading.Event()
    clients: list[Endpoint] = []
    thread = threading.Thread(
        target=lambda: clients.append(
            Endpoint(first.spec, patience_s=30.0, say=lambda line: waited.set())
        )
    )
    thread.start()
    assert waited.wait(10)
    with FakeEndpoint(lambda body: "late", port=port):
        thread.join()
        with clients[0] as client:
            assert client.chat(HELLO).text == "late"
            assert client.usage.retries >= 1


def test_a_server_that_is_not_there_is_given_up():
    with FakeEndpoint(lambda body: "hi") as gone:
        pass
    with pytest.raises(EndpointError, match=r"refused; given up with a patience of 0\.05 s"):
        Endpoint(gone.spec, patience_s=0.05)


@pytest.mark.parametrize("header", ["1", lambda: formatdate(time.time() + 2, usegmt=True)])
def test_a_pause_that_the_server_asks_for_is_kept(server, endpoint, header):
    asked = header if isinstance(header, str) else header()
    server.faults.append(status(429, Retry_After=asked))
    began = time.monotonic()
    with Endpoint(server.spec, patience_s=5.0) as client:
        assert client.chat(HELLO).text == "hi"
    assert time.monotonic() - began >= 0.9


def test_a_pause_longer_than_the_patience_is_not_begun(server, endpoint):
    server.faults.append(status(429, Retry_After="3600"))
    began = time.monotonic()
    assert "asks to wait 3600 s" in refusal(endpoint)
    assert time.monotonic() - began < 1.0
    assert server.seen == []


def test_pauses_grow(server, monkeypatch):
    monkeypatch.setattr(transport, "_FIRST_PAUSE_S", 0.05)
    with Endpoint(server.spec, patience_s=1.0) as client:
        server.faults.extend([status(500)] * 99)
        assert "status 500 (status 500)" in refusal(client)
        assert client.usage.retries <= 6, "0.05 + 0.1 + 0.2 + 0.4 + the rest of a second"


def test_many_threads_share_one_endpoint(server, endpoint):
    together = threading.Barrier(24, timeout=20)

    def speak(body):
        together.wait()
        return body["messages"][0]["content"]

    server.speak = speak
    said: dict[int, str] = {}

    def ask(number):
        said[number] = endpoint.chat([{"role": "user", "content": str(number)}]).text

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: str(number) for number in range(24)}
    assert endpoint.usage.requests == 24


def test_closing_ends_the_pause_of_another_thread(server):
    waiting = threading.Event()
    client = Endpoint(server.spec, patience_s=300.0, say=lambda line: waiting.set())
    server.faults.append(status(503, Retry_After="200"))
    failed: list[ClinicalEnvsError] = []

    def ask():
        try:
            client.chat(HELLO)
        except ClinicalEnvsError as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    assert waiting.wait(10)
    client.close()
    thread.join(10)
    assert "closed while it was waited for" in str(failed[0])
    assert "is closed" in refusal(client)


def test_closing_in_the_middle_of_a_request_is_no_trouble_of_the_server(server):
    asked, said = threading.Event(), []
    client = Endpoint(server.spec, patience_s=300.0, say=said.append)
    failed: list[BaseException] = []

    def speak(body):
        asked.set()
        server.released.wait(10)
        return "late"

    def ask():
        try:
            client.chat(HELLO)
        except EndpointError as error:
            failed.append(error)

    server.speak = speak
    thread = threading.Thread(target=ask)
    thread.start()
    assert asked.wait(10)
    client.close()
    server.released.set()
    thread.join(10)
    assert not thread.is_alive()
    assert said == []
    assert client.usage.requests == 1 - len(failed)
