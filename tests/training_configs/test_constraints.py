"""The pins: exact, without a machine's own builds or hosts, and one consistent set."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FILES = ("core", "train", "dev")
PIN = re.compile(r"[A-Za-z0-9._-]+==[0-9][0-9a-z.]*")


def lines(name: str) -> list[str]:
    text = (ROOT / "training" / "constraints" / f"{name}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if not line.startswith("#")]


def pins(name: str) -> dict[str, str]:
    pairs = (line.split("==") for line in lines(name))
    return {canonicalize_name(package): version for package, version in pairs}


def requirements(extra: str) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = []
    for text in project["optional-dependencies"][extra]:
        requirement = Requirement(text)
        if requirement.name == project["name"]:
            found += [r for inner in requirement.extras for r in requirements(inner)]
        else:
            found.append(requirement)
    return found + [Requirement(text) for text in project["dependencies"]]


@pytest.mark.parametrize("name", FILES)
def test_every_line_is_an_exact_pin_without_a_local_build_or_a_host(name: str) -> None:
    assert lines(name)
    assert [line for line in lines(name) if not PIN.fullmatch(line)] == []
    assert len(pins(name)) == len(lines(name))


def test_the_sets_contain_each_other_with_the_same_versions() -> None:
    assert pins("core").items() <= pins("train").items() <= pins("dev").items()


@pytest.mark.parametrize("extra", ["train", "dev"])
def test_every_requirement_of_an_extra_is_pinned_to_a_version_that_it_admits(extra: str) -> None:
    pinned = pins(extra)
    for requirement in requirements(extra):
        version = pinned[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), requirement
