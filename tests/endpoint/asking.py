"""A shortest question, and how it is refused."""

from __future__ import annotations

import pytest

from training.endpoint import Endpoint, EndpointError

HELLO = [{"role": "user", "content": "hello"}]


def refusal(client: Endpoint, **how: object) -> str:
    """The one line with which a request fails."""
    with pytest.raises(EndpointError) as caught:
        client.chat(HELLO, **how)
    assert "\n" not in str(caught.value)
    return str(caught.value)
