"""The jobs of the study: warmups, GRPO runs from them, and evaluations of warmups.

Every job is one public command, so that any of them can be repeated by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from training.config import load_config

UPDATES = 60
MORE_SEEDS = 2  # of outcome against credit: three could not tell whether they differ in asks
LAMBDAS = ("0", "0.03", "0.1", "0.15", "0.2", "0.3")
TASKS = ("diagnostics", "refill", "titration")
BIASED = ("full-severe", "full-mild")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command of the study.

    name: of its folder or file, `LABEL-SEED`. module, arguments: what is run. needs: jobs that
    must be done first. config_hash: of the configuration that it names, if it names one.
    """

    name: str
    module: str
    arguments: tuple[str, ...]
    needs: tuple[str, ...] = ()
    config_hash: str = ""


def small_study(seeds: Sequence[int], folder: str) -> list[Job]:
    """Every job, in an order in which each needs only earlier ones.

    Args:
        seeds: of model, data and sampling; each arm is run once with each. Outcome and credit on
            diagnostics are run with `compared(seeds)`.
        folder: where run folders lie.
    """
    jobs: dict[str, Job] = {}
    for job in _all(seeds, folder):
        jobs.setdefault(job.name, job)
    return list(jobs.values())


def compared(seeds: Sequence[int]) -> tuple[int, ...]:
    """The seeds of outcome against credit: those given, and `MORE_SEEDS` after the largest.

    >>> compared((0, 1, 2))
    (0, 1, 2, 3, 4)
    """
    return (*seeds, *(max(seeds) + more for more in range(1, MORE_SEEDS + 1)))


def _all(seeds: Sequence[int], folder: str) -> Iterator[Job]:
    for seed in compared(seeds):
        yield _warmup("diagnostics", "light", seed, folder)
        for variant in ("outcome", "credit"):
            yield _grpo("diagnostics", variant, "light", seed, folder)
    for seed in seeds:
        yield _warmup("titration", "light", seed, folder)
        for weight in LAMBDAS:
            yield _grpo("titration", f"lambda-{weight}", "light", seed, folder)
    for task in TASKS:
        for seed in seeds:
            yield _warmup(task, "recommended", seed, folder)
            yield _grpo(task, "recommended", "recommended", seed, folder)
    for seed in seeds:
        yield _warmup("diagnostics", "decoupled", seed, folder)
        yield _grpo("diagnostics", "decoupled", "decoupled", seed, folder)
    for seed in seeds:
        for kind in BIASED:
            yield _warmup("diagnostics", kind, seed, folder)
            yield _evaluation("diagnostics", kind, "validation", seed, folder)
        for task in TASKS:
            yield _warmup(task, "full", seed, folder)
            yield _evaluation(task, "full", "test", seed, folder)


def _warmup(task: str, kind: str, seed: int, folder: str) -> Job:
    name = f"{task}-{kind}-warmup-{seed}"
    return _trained(name, "training.sft", f"{task}-{kind}-embedded", seed, f"{folder}/{name}")


def _grpo(task: str, variant: str, warmup: str, seed: int, folder: str) -> Job:
    name, start = f"{task}-{variant}-{seed}", f"{task}-{warmup}-warmup-{seed}"
    config = f"{task}-{variant}-embedded"
    steps = () if variant == "recommended" else (f"optim.steps={UPDATES}",)  # it sets its own
    job = _trained(name, "training.grpo", config, seed, f"{folder}/{name}", *steps)
    return replace(job, arguments=(*job.arguments, "--start", f"{folder}/{start}"), needs=(start,))


def _trained(name: str, module: str, config: str, seed: int, out: str, *settings: str) -> Job:
    overrides = (f"seed={seed}", *settings)
    chosen = (part for override in overrides for part in ("--set", override))
    return Job(
        name=name,
        module=module,
        arguments=("--config", config, *chosen, "--out", out),
        config_hash=load_config(config, overrides).hash,
    )


def _evaluation(task: str, kind: str, set_name: str, seed: int, folder: str) -> Job:
    name, start = f"{task}-{kind}-{set_name}-{seed}", f"{task}-{kind}-warmup-{seed}"
    played = ("--policy", f"hf:{folder}/{start}", "--set", set_name, "--greedy")
    return Job(
        name=name,
        module="training.cli",
        arguments=("evaluate", task, *played, "--out", f"{folder}/{name}.jsonl"),
        needs=(start,),
    )
