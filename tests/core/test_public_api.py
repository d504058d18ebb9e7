"""What `import clinical_envs` offers, and what it leaves unloaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

import clinical_envs

HEAVY = ("pydantic", "yaml", "scipy", "torch", "matplotlib", "jinja2", "typer")


def _run(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_the_public_names_are_those_that_can_be_imported() -> None:
    names: dict[str, object] = {}
    exec("from clinical_envs import *", names)
    names.pop("__builtins__")
    assert sorted(names) == clinical_envs.__all__ == dir(clinical_envs)
    assert len(set(clinical_envs.__all__)) == len(clinical_envs.__all__)


@pytest.mark.parametrize("name", clinical_envs.__all__)
def test_a_public_name_is_documented_and_at_home_in_this_package(name: str) -> None:
    found = getattr(clinical_envs, name)
    assert found.__name__ == name
    assert found.__module__.startswith("clinical_envs.")
    assert found.__doc__


def test_every_lazy_name_is_public() -> None:
    assert sorted(clinical_envs._MODULE_OF) == sorted(clinical_envs.__all__)


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'clinical_envs' has no attribute 'Epizode'"):
        clinical_envs.Epizode  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    loaded = _run(f"import clinical_envs, sys; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded == "[]"


def test_the_names_arrive_on_first_use() -> None:
    code = "import clinical_envs, sys; clinical_envs.Task; print('pydantic' in sys.modules)"
    assert _run(code) == "True"


def test_the_core_never_imports_an_extra() -> None:
    homes = sorted({*clinical_envs._MODULE_OF.values()})
    imports = "; ".join(f"import clinical_envs.{module}" for module in homes)
    extras = ("torch", "matplotlib", "transformers", "trl", "vllm")
    assert _run(f"{imports}; import sys; print([m for m in {extras} if m in sys.modules])") == "[]"
