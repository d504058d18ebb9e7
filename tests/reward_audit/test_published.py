"""Published figures recomputed from published tables: which follow, and which do not."""

from oracles.reward_audit.published import (
    ACCURACY,
    HEALTHBENCH_STEPS,
    HEALTHBENCH_STRONG,
    HEALTHBENCH_WEAK,
    NOT_RECOMPUTED,
    PAIRWISE,
    disagreements,
    judges_prefer_base,
    recomputations,
    rubric_prefers_last,
    set_sizes,
)
from oracles.reward_audit.stopping import back_slide, stopping_regret


def test_the_figures_that_do_not_follow_from_their_tables_are_these():
    found = [
        (one.what, one.source.removeprefix("[1] "), one.printed, round(one.recomputed, 1))
        for one in disagreements()
    ]
    assert found == [
        ("rubric prefers last, %", "text against table 10, majority", 85.8, 86.3),
        ("judges prefer base, %", "text against table 10, majority", 78.4, 82.2),
        ("rubric prefers last, %", "text against table 10, consensus", 85.8, 91.4),
        ("judges prefer base, %", "text against table 10, consensus", 78.4, 84.7),
        ("weak verifier: share of the gain lost again, %", "text against table 7", 25.0, 19.4),
        (
            "medical: step of the largest reference reward",
            "appendix C against table 8",
            250,
            350,
        ),
    ]


def test_all_other_figures_follow():
    assert sum(one.agrees for one in recomputations()) == len(recomputations()) - 6
    assert len(recomputations()) == 40


def test_the_decimals_of_the_accuracies_give_the_sizes_of_the_test_sets():
    assert set_sizes(ACCURACY["SciFact"], 300) == (191,)
    assert set_sizes(ACCURACY["HealthFC"], 600) == (327,)


def test_two_differences_of_table_1_are_8_9_so_the_printed_one_is_not_listed():
    grpo, evidence_grpo = ACCURACY["SciFact"][-2:]
    untrained = ACCURACY["SciFact"][5:-2]
    gains = grpo - untrained[-1], evidence_grpo - max(untrained)
    assert [round(gain, 2) for gain in gains] == [8.91, 8.90]
    assert any("8.9 points" in what for what in NOT_RECOMPUTED)


def test_golden_back_slide_and_best_step_of_section_g():
    assert round(100 * back_slide(HEALTHBENCH_WEAK), 1) == 19.4
    best = HEALTHBENCH_STRONG.index(max(HEALTHBENCH_STRONG))
    assert (HEALTHBENCH_STEPS[best], HEALTHBENCH_STRONG[best]) == (350, 0.3190)


def test_stopping_the_weak_run_at_its_last_step_costs_a_twentieth_of_its_best_score():
    regret = stopping_regret(HEALTHBENCH_WEAK, range(10))
    assert round(regret, 4) == round((0.2925 - 0.2773) / 0.2925, 4)


def test_healthbench_pairs_favour_the_last_checkpoint_less():
    assert round(rubric_prefers_last(PAIRWISE["HealthBench, majority"]), 1) == 67.8
    assert round(judges_prefer_base(PAIRWISE["HealthBench, majority"]), 1) == 56.7
