"""What is committed in notebooks/; `pytest --nbmake notebooks` executes them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MAX_BYTES = 300_000
MIN_ASSERTS = 3
# A rooted path of two parts or more, or a drive; not the slashes of URLs, units and word pairs.
MACHINE_PATH = re.compile(r"(?<![\w./:~<>*)-])/[A-Za-z][\w.-]*/[\w.-]+|\b[A-Za-z]:\\\w+")

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def code_cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]


def outputs(path: Path) -> list[dict[str, Any]]:
    return [output for cell in code_cells(path) for output in cell["outputs"]]


def texts(path: Path) -> list[str]:
    """All that a reader sees as text: cells, and their outputs without pictures."""
    parts = [cell["source"] for cell in read(path)["cells"]]
    for output in outputs(path):
        parts.append(output.get("text", ""))
        data = output.get("data", {})
        parts += [content for kind, content in data.items() if not kind.startswith("image/")]
    return ["".join(part) for part in parts]


def test_every_notebook_is_numbered_and_named_in_the_readme() -> None:
    readme = (NOTEBOOKS[0].parents[1] / "README.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) >= 4
    for path in NOTEBOOKS:
        number, _, title = path.stem.partition("_")
        assert number.isdecimal()
        assert f"{number} {title.replace('_', ' ')}" in readme


@every_notebook
def test_a_notebook_was_run_once_from_top_to_bottom(path: Path) -> None:
    counts = [cell["execution_count"] for cell in code_cells(path)]
    assert counts == list(range(1, len(counts) + 1))


@every_notebook
def test_no_cell_ended_in_an_error_or_printed_a_warning(path: Path) -> None:
    assert [output for output in outputs(path) if output["output_type"] == "error"] == []
    assert [output for output in outputs(path) if output.get("name") == "stderr"] == []


@every_notebook
def test_a_notebook_is_small(path: Path) -> None:
    assert path.stat().st_size < MAX_BYTES


@every_notebook
def test_a_notebook_names_no_path_of_a_machine(path: Path) -> None:
    assert [found for text in texts(path) for found in MACHINE_PATH.findall(text)] == []


@pytest.mark.parametrize(
    "text", ["/home/ada/x.py", "see /tmp/a1.yaml", '"/Users/ada/envs"', r"C:\Users\ada"]
)
def test_a_path_of_a_machine_is_recognised(text: str) -> None:
    assert MACHINE_PATH.search(text)


@pytest.mark.parametrize("text", ["and/or", "https://arxiv.org/abs/1", "image/png", "ask/commit"])
def test_other_slashes_are_no_path_of_a_machine(text: str) -> None:
    assert not MACHINE_PATH.search(text)


@every_notebook
def test_the_key_numbers_of_a_notebook_are_asserted(path: Path) -> None:
    trees = [ast.parse("".join(cell["source"])) for cell in code_cells(path)]
    asserts = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Assert)]
    assert len(asserts) >= MIN_ASSERTS


@every_notebook
def test_a_notebook_runs_on_the_kernel_that_every_jupyter_has(path: Path) -> None:
    notebook = read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
