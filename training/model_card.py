"""The model card that lies beside a trained policy, made from the run's own record."""

from __future__ import annotations

from typing import Any

from oracles.sample import Estimate
from training.config import Config, Warmup

_COLUMNS = {
    "value": "value",
    "mean_asks": "asks",
    "one_ask_rate": "one-ask rate",
    "parse_failure_rate": "parse failures",
}
_NOT_FOR_CARE = """\
## What it is not

Not a medical device and not fit for patient care. The task is synthetic and stylised, its patients
are drawn from a table, and its utilities are set by hand: a high value says that the policy plays
this game well, and nothing about medicine.
"""


def grpo_card(data: dict[str, Any], config: Config) -> str:
    """The card of a finished GRPO run.

    data: what its `run.json` holds. config: its configuration.
    """
    task = data["task"]
    played = "explore, then exploit, as two dialogues" if _decoupled(config) else "one dialogue"
    parts = [
        _front_matter("peft", config),
        f"# {config.reward.variant} policy for {task}\n",
        f"A LoRA adapter on a language model that plays the clinical ask-to-commit task {task} "
        f"as text: it asks for findings, then commits to a decision ({played}).\n",
        _NOT_FOR_CARE,
        _eligibility(data),
        _training(data, config),
        _results(data),
        _use(data),
        _versions(data),
    ]
    return "\n".join(parts)


def sft_card(data: dict[str, Any], config: Config) -> str:
    """The card of a supervised warmup; it is measured by `clinical-envs evaluate`, not here."""
    warmup, task = config.warmup, data["task"]
    teacher = "the exact oracle" if warmup.kind == "full" else "an imperfect teacher"
    modes = " Both modes of the decoupled variant are taught as well." if warmup.modes else ""
    parts = [
        _front_matter("transformers", config),
        f"# {warmup.kind} warmup for {task}\n",
        f"A language model ({config.model.source}) that imitates {teacher} on the clinical "
        f"ask-to-commit task {task}. It is a start for reinforcement learning.\n",
        _NOT_FOR_CARE,
        "## Training\n",
        f"{warmup.steps} steps of batch {warmup.batch_size} on one episode for each of the 800 "
        f"cases of the `sft` set (seed {config.seed}), with loss on the policy's turns only."
        f"{_kept(warmup)}{modes}\n",
        "## Results\n",
        f"None are claimed here. Measure it:\n\n    clinical-envs evaluate {config.task} "
        "--policy hf:FOLDER --set validation\n",
        _versions(data),
    ]
    return "\n".join(parts)


def _front_matter(library: str, config: Config) -> str:
    lines = ["library_name: " + library, "tags: [clinical-envs, synthetic, not-for-patient-care]"]
    if config.model.source != "embedded":
        lines.append(f"base_model: {config.model.source}")
    return "\n".join(["---", *lines, "---", ""])


def _kept(warmup: Warmup) -> str:
    if warmup.keep_high_risk == 1.0:
        return ""
    share = f"{100 * warmup.keep_high_risk:g} %"
    return f" Biased on purpose: {share} of the high-risk episodes were kept."


def _eligibility(data: dict[str, Any]) -> str:
    verdicts = {True: "pass", False: "FAIL", None: "not judged"}
    lines = [f"- {gate['name']}: {verdicts[gate['passed']]}" for gate in data["gates"]]
    head = "## Gates before the first step\n\n" + "\n".join(lines) + "\n"
    if data["eligible"]:
        return head
    return (
        f"{head}\n**NOT ELIGIBLE.** The numbers below are a record; no claim is made from them.\n"
    )


def _training(data: dict[str, Any], config: Config) -> str:
    optim, lora = config.optim, config.lora
    return f"""\
## Training

- Data: the 300 cases of the `train` set, drawn by the simulator; checkpoints were chosen on
  `validation` and are reported on `test`, three disjoint streams of cases.
- {_sentence(data["reward"]["words"])}. It is used in training only; every number below comes from
  the terminal verifier.
- GRPO, fully on-policy: {optim.steps} updates of {optim.groups} cases x {optim.rollouts} rollouts,
  learning rate {optim.learning_rate:g}, LoRA rank {lora.rank} and alpha {lora.alpha},
  seed {config.seed}, configuration {data["config_hash"]}.
"""


def _results(data: dict[str, Any]) -> str:
    """Every policy on `test`, overall and by risk group, with 95 % intervals."""
    tests = data["test"]
    groups = list(next(iter(tests.values()))["groups"])
    head = ["policy", "cases", *_COLUMNS.values(), "flags up"]
    rows = [head, ["---"] * len(head)]
    for policy, found in tests.items():
        up = [flag for flag, verdict in found["flags"].items() if verdict == "FLAG"]
        rows.append([policy, "all", *_cells(found), ", ".join(up).replace("_", " ") or "none"])
        rows += [["", group, *_cells(found["groups"][group]), ""] for group in groups]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    best = data["best"]["policy"] if data["best"] else "none (every update regressed)"
    return (
        f"## Results on `test`\n\nBest on validation: {best}; last: {data['last']['policy']}. "
        "95 % intervals resample cases; overall values are re-weighted to prevalence. One seed "
        f"makes no claim about a method.\n\n{table}\n"
    )


def _cells(found: dict[str, Any]) -> list[str]:
    return [_estimate(Estimate(**found[name])) for name in _COLUMNS]


def _estimate(estimate: Estimate) -> str:
    if estimate.value is None:
        return f"not scored ({estimate.missing})"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def _use(data: dict[str, Any]) -> str:
    return (
        f"## Use\n\n    clinical-envs evaluate {data['task'].partition('@')[0]} "
        "--policy hf:START#FOLDER --set test\n\nSTART is the checkpoint the run began from "
        "(`start` in run.json); the terms of its base model hold.\n"
    )


def _versions(data: dict[str, Any]) -> str:
    found = ", ".join(f"{name} {number}" for name, number in data["versions"].items())
    return f"## Made with\n\n{found}.\n"


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _decoupled(config: Config) -> bool:
    return config.reward.variant == "decoupled"
