"""The shipped tasks have the published shape and the printed parameters.

Sources: specification section 1 (shape, hedges, evidence, cost, caps) and the calibration note
(priors, utility rows, probabilities of titration), typed in again here.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from clinical_envs.catalog import load_task, task_ids
from clinical_envs.task import Task, text_id

SHAPE = {
    "ClinicalDx-v0": ("diagnostics", 18, 5, ("chest", "abdominal"), 3, 12),
    "ClinicalRefill-v0": ("refill", 12, 5, ("acei_arb", "nsaid"), 3, 10),
    "ClinicalTitration-v0": ("titration", 6, 3, ("anticoagulation",), 9, 10),
}
PRIOR = {"diagnostics": [0.39, 0.55, 0.06], "refill": [0.56, 0.32, 0.12]}
UTILITY = {
    "diagnostics": [
        [0.80, 0.60, 0.30, -0.50, -0.95],
        [-0.75, 0.05, 0.35, 0.65, -0.25],
        [-0.95, -0.90, -0.65, -0.35, 1.00],
    ],
    "refill": [
        [0.80, 0.65, 0.10, -0.05, -0.85],
        [-0.40, 0.20, 0.60, 0.50, -0.40],
        [-0.95, -0.80, -0.30, 0.30, 0.90],
    ],
}
CLOT_PRIOR, BLEED_PRIOR = [0.48, 0.42, 0.10], [0.55, 0.20, 0.25]
CLOT_UTILITY = [[0.20, -0.05, -0.15], [-0.50, 0.25, 0.45], [-0.80, -0.15, 0.70]]
BLEED_HARM = [[0.0, 0.0, 0.0], [0.0, 0.05, 0.45], [0.0, 0.35, 0.75]]
CLOT_FINDINGS = {
    "prior_vte": [0.22, 0.70, 0.95],
    "high_cha2ds2vasc": [0.31, 0.82, 0.95],
    "active_cancer_or_mech_valve": [0.26, 0.59, 0.95],
}
BLEED_FINDINGS = {
    "recent_gi_bleed": [0.02, 0.32, 0.70],
    "antiplatelet_or_nsaid": [0.16, 0.83, 0.95],
    "renal_or_liver_impairment": [0.02, 0.30, 0.89],
}
HEDGE = {
    "diagnostics": "observe_serial",
    "refill": "approve_short_with_labs",
    "titration": "reduced_intensity",
}
# The note prints these for the state "high" of the strongest findings.
STRONG = {
    ("diagnostics", "chest", "troponin_raised"): 0.93,
    ("diagnostics", "chest", "diaphoresis"): 0.88,
    ("diagnostics", "abdominal", "lactate_raised"): 0.92,
    ("diagnostics", "abdominal", "peritonism"): 0.90,
    ("refill", "acei_arb", "egfr_fall"): 0.86,
    ("refill", "nsaid", "egfr_fall"): 0.90,
    ("refill", "acei_arb", "persistent_cough"): 0.55,
}


def test_the_three_published_tasks_are_shipped() -> None:
    assert task_ids() == tuple(SHAPE)


@pytest.mark.parametrize("task_id", SHAPE)
def test_a_shipped_task_has_the_published_shape(task_id: str) -> None:
    task = load_task(task_id)
    shape = (
        task.name,
        len(task.findings),
        len(task.decisions),
        task.family_ids,
        len(task.states),
        task.turn_cap,
    )
    assert shape == SHAPE[task_id]
    assert task.question_cost == 0.03
    assert task.id == task_id
    assert task.sources
    assert set(task.checklist) == set(task.family_ids)


@pytest.mark.parametrize("name", PRIOR)
def test_priors_and_utilities_are_the_calibrated_ones(name: str) -> None:
    task = load_task(name)
    np.testing.assert_allclose(task.prior, PRIOR[name], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(task.utility_matrix, UTILITY[name])


def test_the_titration_prior_is_a_product_and_its_utility_is_clot_utility_less_bleed_harm() -> None:
    task = load_task("titration")
    pairs = list(itertools.product(range(3), range(3)))
    levels = ("low", "mod", "high")
    assert task.state_ids == tuple(f"clot_{levels[c]}_bleed_{levels[b]}" for c, b in pairs)
    prior = [CLOT_PRIOR[c] * BLEED_PRIOR[b] for c, b in pairs]
    np.testing.assert_allclose(task.prior, prior, rtol=0, atol=1e-12)
    utility = [np.subtract(CLOT_UTILITY[c], BLEED_HARM[b]) for c, b in pairs]
    np.testing.assert_allclose(task.utility_matrix, utility, rtol=0, atol=1e-12)


def test_a_titration_finding_depends_on_its_own_domain_alone() -> None:
    task = load_task("titration")
    for finding in task.findings:
        levels = {**CLOT_FINDINGS, **BLEED_FINDINGS}[finding.id]
        clot = finding.id in CLOT_FINDINGS
        expected = [levels[c if clot else b] for c, b in itertools.product(range(3), range(3))]
        assert finding.domain == ("clot" if clot else "bleed")
        assert list(finding.p["anticoagulation"]) == expected


@pytest.mark.parametrize(("name", "family", "finding"), STRONG)
def test_the_printed_sensitivities_are_those_of_the_file(
    name: str, family: str, finding: str
) -> None:
    task = load_task(name)
    row = task.likelihood[task.family_ids.index(family), task.finding(finding)]
    assert row[-1] == STRONG[name, family, finding]


@pytest.mark.parametrize(
    ("name", "counts"), [("diagnostics", (12, 12)), ("refill", (9, 10)), ("titration", (6,))]
)
def test_each_family_has_its_number_of_informative_findings(
    name: str, counts: tuple[int, ...]
) -> None:
    task = load_task(name)
    assert tuple(map(len, task.informative)) == counts


@pytest.mark.parametrize("name", HEDGE)
def test_hedge_risk_groups_and_no_decision_are_the_specified_ones(name: str) -> None:
    task = load_task(name)
    assert task.hedges == (HEDGE[name],)
    groups = ("high_clot", "other") if name == "titration" else ("benign", "moderate", "high")
    assert task.risk_groups == groups
    share = {"diagnostics": 0.06, "refill": 0.12, "titration": 0.10}[name]
    high = task.group_prevalence[task.risk_groups.index(task.high_risk_group)]
    assert math.isclose(high, share, abs_tol=1e-12)
    assert math.isclose(task.group_prevalence.sum(), 1.0)
    worst = [min(row) for row in task.utility_matrix.tolist()]
    assert task.no_decision_utility.tolist() == worst


def _supported(task: Task, family: str, decision: str, **seen: bool) -> bool | None:
    return task.supported(task.family_ids.index(family), task.decision(decision), seen)


@pytest.mark.parametrize("family", ["chest", "abdominal"])
def test_emergency_treatment_needs_three_informative_findings_present(family: str) -> None:
    task = load_task("diagnostics")
    informative = {task.finding_ids[q] for q in task.informative[task.family_ids.index(family)]}
    counting = sorted(informative - {"tolerates_oral", "reproducible_tenderness"})
    assert len(counting) == 11
    for three in itertools.combinations(counting, 3):
        assert _supported(task, family, "emergent_tx", **dict.fromkeys(three, True))
    for two in itertools.combinations(counting, 2):
        others = dict.fromkeys(set(task.finding_ids) - informative, True)
        never = {"tolerates_oral": True, "reproducible_tenderness": True}
        negative = {finding: False for finding in counting if finding not in two}
        seen = {**others, **never, **negative, **dict.fromkeys(two, True)}
        assert _supported(task, family, "emergent_tx", **seen) is False
    assert _supported(task, family, "urgent_admit") is None


@pytest.mark.parametrize(
    ("family", "flat"), [("acei_arb", {"gi_bleed"}), ("nsaid", {"symptomatic_hypotension"})]
)
def test_escalation_needs_two_of_the_seven_red_flags_that_inform_the_family(
    family: str, flat: set[str]
) -> None:
    flags = {"egfr_fall", "hyperkalaemia", "angioedema", "gi_bleed", "dehydration"}
    flags |= {"symptomatic_hypotension", "pregnancy"}
    task = load_task("refill")
    for pair in itertools.combinations(task.finding_ids, 2):
        expected = set(pair) <= flags - flat
        seen = dict.fromkeys(pair, True)
        assert _supported(task, family, "escalate_urgent", **seen) is expected


def test_full_intensity_needs_clot_signs_a_look_at_bleeding_and_more_clot_than_bleed_signs() -> (
    None
):
    task = load_task("titration")
    clot, bleed = list(CLOT_FINDINGS), list(BLEED_FINDINGS)
    for answers in itertools.product([None, False, True], repeat=6):
        seen = {q: a for q, a in zip(clot + bleed, answers, strict=True) if a is not None}
        n_clot = sum(seen.get(q, False) for q in clot)
        n_bleed = sum(seen.get(q, False) for q in bleed)
        expected = n_clot >= 1 and any(q in seen for q in bleed) and n_clot > n_bleed
        assert _supported(task, "anticoagulation", "full_intensity", **seen) is expected


@pytest.mark.parametrize("task_id", SHAPE)
def test_a_task_is_found_by_id_by_name_and_is_itself(task_id: str) -> None:
    task = load_task(task_id)
    assert load_task(task.name) is task
    assert load_task(task) is task
    assert task.key == f"{task_id}@{task.version}"
    assert text_id(task_id) == task_id.removesuffix("-v0") + "Text-v0"


@pytest.mark.parametrize("task_id", SHAPE)
def test_a_task_survives_a_dump_and_its_digest_sees_every_change(task_id: str) -> None:
    task = load_task(task_id)
    again = Task.model_validate(task.model_dump(mode="json"))
    assert again.model_dump() == task.model_dump()
    assert again.digest == task.digest
    dearer = Task.model_validate(task.model_dump(mode="json") | {"question_cost": 0.04})
    assert dearer.digest != task.digest


@pytest.mark.parametrize("task_id", SHAPE)
def test_the_arrays_of_a_task_cannot_be_written_to(task_id: str) -> None:
    task = load_task(task_id)
    arrays = (
        task.prior,
        task.utility_matrix,
        task.no_decision_utility,
        task.likelihood,
        task.group_prevalence,
    )
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0.0
