"""A strict reader of the page's HTML, and episodes to make pages of."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser

from clinical_envs.episode import Episode
from oracles import evaluate, make_world

POLICIES = ("oracle", "best_constant", "random", "1_ask")
VOID = frozenset({"meta", "link", "br", "img", "input", "hr"})


class Page(HTMLParser):
    """Elements of a page with their attributes and text; refuses what does not nest."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == [], f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag, f"</{tag}> out of place at {self.getpos()}"

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self._open[-1:]):
            self.text.append(data)

    @property
    def words(self) -> str:
        """All text, spaces squeezed."""
        return " ".join("".join(self.text).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


def play(task: str, policies: Sequence[str], sets: Sequence[str], k: int = 1) -> list[Episode]:
    """Episodes of reference policies."""
    world = make_world(task)
    return [
        episode
        for policy in policies
        for name in sets
        for episode in evaluate(
            world, world.policy(policy), world.cases(name), k=k, greedy=name == "heldout"
        )
    ]
