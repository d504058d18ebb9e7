"""Configurations of the evidence worlds; those of the clinical tasks stay what they were."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from clinical_envs.catalog import load_task
from clinical_envs.errors import InvalidArgument
from training.config import Config, config_from, config_names, load_config
from training.proxies import proxies
from training.signals import check_reward

VARIANTS = {
    "factcheck": ("light", "full", "outcome", "eg"),
    "checkedqa": ("light", "full", "outcome", "collapsed", "moderate", "strong", "gpt-like"),
    "rubric": ("light", "full", "outcome", "weak", "strong"),
}
EVIDENCE = [name for name in config_names() if name.partition("-")[0] in VARIANTS]
# of runs that were made before fields were added; a run refuses to go on under another hash
OLDER = {
    "diagnostics-outcome-embedded": "0c4b28f2b88b",
    "titration-credit-embedded": "445b954afea6",
    "refill-recommended-medgemma-4b": "68f8ce3554b9",
    "diagnostics-decoupled-embedded": "9843ff9c44a0",
}


def test_a_world_comes_in_the_variants_it_lists() -> None:
    expected = {
        f"{task}-{variant}-{model}"
        for task, variants in VARIANTS.items()
        for variant in variants
        for model in ("embedded", "medgemma-4b")
    }
    assert set(EVIDENCE) == expected


@pytest.mark.parametrize("name", EVIDENCE)
def test_a_configuration_is_one_that_its_world_can_pay(name: str) -> None:
    config = load_config(name)
    assert config.task == name.partition("-")[0]
    check_reward(load_task(config.task), config)


def test_every_proxy_has_its_configuration() -> None:
    for task in VARIANTS:
        for proxy in proxies(load_task(task)):
            assert load_config(f"{task}-{proxy}-embedded").reward.proxy == proxy


def test_eg_grpo_has_the_published_numbers() -> None:
    """Table 3 of arXiv 2608.23811."""
    config = load_config("factcheck-eg-medgemma-4b")
    optim = config.optim
    assert (optim.steps, optim.groups, optim.rollouts, optim.learning_rate) == (70, 64, 8, 1e-6)
    assert (optim.mean, optim.kl, optim.clip_low, optim.clip_high) == ("turns", 0.03, 0.2, 0.28)
    assert config.limits.context_tokens == 16_000
    assert (config.validation.every, config.reward.scale) == (5, "group")


def test_rubric_training_has_the_published_numbers() -> None:
    """Appendix of arXiv 2605.12474."""
    optim = load_config("rubric-weak-medgemma-4b").optim
    assert (optim.rollouts, optim.learning_rate, optim.kl) == (16, 4.2e-6, 0.01)
    assert load_config("rubric-weak-medgemma-4b").validation.every == 25


@pytest.mark.parametrize("model", ["embedded", "medgemma-4b"])
@pytest.mark.parametrize(
    ("one", "other"),
    [("factcheck-eg", "factcheck-outcome"), ("rubric-weak", "rubric-strong")],
)
def test_two_arms_differ_in_their_reward_alone(one: str, other: str, model: str) -> None:
    first, second = (load_config(f"{name}-{model}") for name in (one, other))
    assert first != second
    assert replace(first, reward=second.reward) == second


@pytest.mark.parametrize("name", OLDER)
def test_older_configurations_keep_their_hash(name: str) -> None:
    assert load_config(name).hash == OLDER[name]


@pytest.mark.parametrize(
    "override", ["optim.kl=0.1", "optim.mean=turns", "optim.clip_high=0.3", "optim.clip_low=0.1"]
)
def test_a_field_that_was_added_counts_where_it_is_set(override: str) -> None:
    name = "titration-credit-embedded"
    assert load_config(name, [override]).hash != load_config(name).hash


@pytest.mark.parametrize(
    "reward", [{"variant": "proxy"}, {"proxy": "weak"}, {"variant": "credit", "proxy": "weak"}]
)
def test_variant_proxy_and_a_proxy_go_together(reward: dict[str, str]) -> None:
    data = {"task": "rubric", "warmup": {"kind": "full"}, "reward": reward}
    with pytest.raises(InvalidArgument, match=r"reward\.variant"):
        config_from(data)


def test_a_configuration_of_a_world_survives_plain_data() -> None:
    config: Config = load_config("checkedqa-gpt-like-embedded")
    assert config_from(asdict(config)) == config
