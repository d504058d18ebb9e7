from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from clinical_envs.factcheck.examples import EXAMPLE_ARTICLES
from clinical_envs.factcheck.search import LocalSearch
from training.agents.desk import Desk
from training.endpoint import ChatModel

MakeDesk = Callable[..., Desk]


@pytest.fixture
def library() -> Iterator[LocalSearch]:
    """The articles written by hand."""
    local = LocalSearch.build(EXAMPLE_ARTICLES)
    yield local
    local.close()


@pytest.fixture
def desk(library: LocalSearch) -> MakeDesk:
    """A desk over those articles."""

    def make(model: ChatModel, **limits: object) -> Desk:
        return Desk(model, library, **limits)  # type: ignore[arg-type]

    return make
