from __future__ import annotations

import pytest

from tests.endpoint.fake_server import FakeEndpoint
from training import transport
from training.endpoint import Endpoint


@pytest.fixture
def server():
    with FakeEndpoint(lambda body: "hi") as fake:
        yield fake


@pytest.fixture
def endpoint(server):
    with Endpoint(server.spec, timeout_s=5.0, patience_s=2.0) as client:
        yield client


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """No key from outside, and pauses that a test can wait for."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(transport, "_FIRST_PAUSE_S", 0.01)
