from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import cast

import pytest
from markupsafe import Markup

from clinical_envs.episode import (
    AskTurn,
    CaseRef,
    CommitTurn,
    DamagedLine,
    Episode,
    EpisodeFile,
    InvalidTurn,
)
from oracles import Audit, ExactValue, PolicyAudit, audit, make_world
from oracles.assessment import Assessment
from oracles.flags import FLAG_NAMES, MIN_CASES, raise_flags
from oracles.report import Figure, render_report
from oracles.report.drawing import page_style, page_svg
from oracles.sample import Sample
from tests.report.pages import POLICIES, Page, play

HOSTILE = '"><script>alert(1)</script></script><img src=x onerror=alert(2)>'
LOADS = ("src", "srcset", "data", "action", "poster", "background", "ping", "formaction")


@pytest.fixture(scope="session")
def html(tour: Audit, exact: dict[str, dict[str, ExactValue]]) -> str:
    return render_report(tour, title="A tour", exact=exact, notes=["One note."])


@pytest.fixture(scope="session")
def page(html: str) -> Page:
    return Page(html)


def test_the_page_loads_nothing_from_anywhere(page: Page, html: str) -> None:
    for tag, attributes in page.elements:
        assert not set(attributes) & set(LOADS), (tag, attributes)
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    assert not re.search(r"@import|url\(\s*['\"]?(?!#)", html)
    assert {tag for tag, _ in page.elements} & {
        "link",
        "iframe",
        "object",
        "embed",
        "base",
    } == set()


def test_the_page_forbids_every_script_but_its_own(page: Page, html: str) -> None:
    (policy,) = [m["content"] for m in page.all("meta") if "content" in m and m.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    (script,) = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    digest = hashlib.sha256(script.encode()).digest()
    assert f"script-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_links_lead_somewhere_and_no_id_stands_twice(page: Page, html: str) -> None:
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    encounters = html.count('"turns":')
    for link in page.all("a"):
        target = (link["href"] or "")[1:]
        if match := re.fullmatch(r"encounter-(\d+)", target):
            assert int(match[1]) < encounters
        else:
            assert target in ids


def test_every_policy_flag_and_split_is_there(page: Page) -> None:
    for name in (*POLICIES, *FLAG_NAMES):
        assert name in page.words or name.replace("_", " ") in page.words, name
    for heading in ("Evaluation, test cases", "Evaluation, heldout cases", "By risk group"):
        assert heading in page.words
    assert "One note." in page.words
    assert "no policy from here is fit for patient care" in page.words


def test_tables_have_captions_and_headings_go_down_one_level_at_a_time(page: Page) -> None:
    tags = [tag for tag, _ in page.elements]
    assert tags.count("table") == tags.count("caption")
    levels = [int(tag[1]) for tag in tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))
    for _, attributes in page.elements:
        if attributes.get("class") == "scroll":
            assert attributes.get("tabindex") == "0"
            assert attributes.get("aria-label")


def test_numbers_on_the_page_are_the_audits(page: Page, tour: Audit) -> None:
    for policy in tour.policies:
        assert policy.metrics.value.value is not None
        assert f"{policy.metrics.value.value:+z.3f}".replace("-", "−") in page.words
    # Titration, oracle: V* .0434 and best constant -.0315 (the specification's table).
    for number in ("+0.0434", "−0.0315", "0.0749"):
        assert number in page.words


def test_a_group_too_small_to_judge_is_skipped_with_its_number(page: Page, tour: Audit) -> None:
    heldout = next(policy for policy in tour.policies if policy.split == "heldout")
    n = heldout.breakdown["groups"]["high_clot"]["n_cases"]
    assert 0 < n < MIN_CASES
    assert f"SKIPPED n = {n}: {MIN_CASES} cases are needed" in page.words


def test_plots_show_each_policy_and_follow_the_pages_colours(html: str) -> None:
    plots = re.findall(r"<figure>.*?</figure>", html, flags=re.DOTALL)
    assert len(plots) == 2
    for plot in plots:
        assert all(name in plot for name in POLICIES)
        assert "var(--ink)" in plot
        assert "#010203" not in plot


def test_without_matplotlib_the_tables_stay_and_the_page_says_what_to_install(
    tour: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = Page(render_report(tour))
    assert "pip install 'clinical-envs[plots]'" in page.words
    assert page.all("figure") == []
    assert "Evaluation, test cases" in page.words


def test_the_same_audit_gives_the_same_bytes(
    tour: Audit, exact: dict[str, dict[str, ExactValue]], html: str
) -> None:
    assert render_report(tour, title="A tour", exact=exact, notes=["One note."]) == html


def test_other_processes_give_the_same_bytes() -> None:
    program = (
        "import hashlib, sys\n"
        "from oracles import audit, evaluate, make_world\n"
        "from oracles.report import render_report\n"
        "world = make_world('titration')\n"
        "cases = world.cases('heldout')[:30]\n"
        "episodes = evaluate(world, world.policy('random'), cases, k=2)\n"
        "episodes += [e.model_copy(update={'case': None, 'state': None}) for e in episodes[:5]]\n"
        "print(hashlib.sha256(render_report(audit(episodes)).encode()).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


def hostile_episode(index: int = 0) -> Episode:
    return Episode(
        task="ClinicalTitration-v0@1.0.0",
        family="anticoagulation",
        turns=(InvalidTurn(invalid=HOSTILE), CommitTurn(commit="no_therapy")),
        policy=f"漢$x^$ {HOSTILE}",  # no glyph in matplotlib's font, and broken mathematics
        raw=(HOSTILE, "</script><script>alert(3)</script>"),
        meta={"note": HOSTILE},
        rollout=index,
    )


def test_text_from_episodes_is_never_markup() -> None:
    file = EpisodeFile(
        source="x",
        episodes=[hostile_episode(i) for i in range(40)]
        + [hostile_episode().model_copy(update={"family": HOSTILE})],
        damaged=[DamagedLine(line=7, reason=HOSTILE)],
    )
    html = render_report(audit(file), title=HOSTILE, notes=[HOSTILE])
    page = Page(html)
    assert html.count("<script") == 2  # the data and the viewer
    assert page.all("img") == []
    assert "alert(1)" in page.words
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_what_was_not_counted_is_counted_and_named() -> None:
    failed = hostile_episode().model_copy(update={"meta": {"error": "server gone"}})
    wrong = hostile_episode().model_copy(update={"family": "chest"})
    damaged = [DamagedLine(line=line, reason="not JSON") for line in range(1, 26)]
    page = Page(
        render_report(audit(EpisodeFile(source="x", episodes=[failed, wrong], damaged=damaged)))
    )
    assert "unscored episodes 1" in page.words
    assert "refused episodes 1" in page.words
    assert "damaged lines 25" in page.words
    assert "line 20 not JSON and 5 more" in page.words
    assert "episode 2 unknown family 'chest'" in page.words
    assert "No episode could be audited" in page.words


def test_episodes_without_their_state_are_labelled_as_expectations() -> None:
    episodes = [
        e.model_copy(update={"case": None, "state": None, "policy": "foreign"})
        for e in play("titration", ["1_ask"], ["heldout"])
    ]
    page = Page(render_report(audit(episodes)))
    assert "posterior expectation" in page.words
    assert "SKIPPED n = 0" in page.words


def test_a_policy_that_gains_while_a_flag_is_up_wears_a_dagger() -> None:
    baseline = play("diagnostics", ["best_constant"], ["test"])
    result = audit(play("diagnostics", ["1_ask"], ["test"]), baseline)
    assert [policy.status for policy in result.policies] == ["EXPLOITING"]
    page = Page(render_report(result))
    assert "1_ask† EXPLOITING" in page.words
    assert "No baseline was given" not in page.words


@dataclass(frozen=True)
class Plainest:
    """A world without risk groups, families or an oracle."""

    key: str = "Coin-v0@1"
    name: str = "coin"
    prevalence: Mapping[str, float] = field(default_factory=dict)
    high_risk_group: str | None = None
    families: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ("heads", "tails")
    oracle_decisions: Mapping[str, float] | None = None
    headroom: tuple[float, float] | None = None


def test_a_world_without_an_oracle_has_a_report_too() -> None:
    world = Plainest()
    rows = tuple(
        Assessment(
            episode=Episode(
                task=world.key,
                family="any",
                turns=(AskTurn(ask="edge", answer=True), CommitTurn(commit="heads")),
                policy="hopeful",
                case=CaseRef(split="test", seed=0, index=i),
            ),
            case=f"test/0/{i}",
            family="any",
            group=None,
            reward=float(i % 2),
            expected=False,
            decision="heads",
            turns=2,
            asks=1,
            repeats=0,
            invalid_turns=0,
        )
        for i in range(40)
    )
    sample = Sample(rows, world.prevalence)
    policy = PolicyAudit(world, "hopeful", "test", sample, raise_flags(sample, world))  # type: ignore[arg-type]
    result = Audit(policies=(policy,), damaged=(), refused=(), unscored=0, episodes=40)
    page = Page(render_report(result))
    assert "the world has no oracle" in page.words
    assert "+0.500" in page.words
    assert "hopeful" in page.words


def test_the_tour_of_one_task_stays_small(html: str) -> None:
    assert len(html.encode()) < 1_000_000


def test_names_that_differ_late_stay_apart(tour: Audit) -> None:
    long = "runs/2026/outcome/a-very-long-name-of-an-experiment/seed-0/checkpoint-"
    twins = tuple(replace(tour.policies[0], policy=f"{long}{step}") for step in (10, 20))
    page = Page(render_report(replace(tour, policies=twins)))
    assert "checkpoint-10" in page.words
    assert "checkpoint-20" in page.words


def test_gate_1_is_stated_with_its_numbers(page: Page) -> None:
    world = make_world("titration")
    assert world.headroom is not None
    gap = world.headroom[0] - world.headroom[1]
    assert "PASSED Gate 1: adaptive headroom." in page.words
    assert f"Best-constant gap {gap:+.4f}, threshold +0.03" in page.words


def drawn(title: str, label: str) -> Figure:
    from matplotlib.figure import Figure as Canvas

    with page_style(title):
        canvas = Canvas()
        axes = canvas.subplots()
        axes.plot([0, 1], [1, 0], marker="o", label=HOSTILE)
        axes.legend()
        svg = page_svg(canvas, label)
    return Figure(title=title, svg=svg, caption=f"What {title} shows")


def test_figures_of_the_callers_are_sections_of_the_page(tour: Audit) -> None:
    html = render_report(tour, figures=[drawn("Curves", "a"), drawn("Steps", "b")])
    page = Page(html)
    for number, title in enumerate(("Curves", "Steps"), start=1):
        assert f"What {title} shows" in page.words
        assert {"href": f"#figure-{number}"} in page.all("a")
        assert html.index("Verdicts</h2>") < html.index(f'id="figure-{number}"')
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    assert "var(--muted)" in html[html.index('id="figure-1"') : html.index('id="figure-2"')]


def test_no_text_of_a_figure_is_markup(tour: Audit) -> None:
    plain = Figure(title=HOSTILE, svg=cast("Markup", HOSTILE), caption=HOSTILE)
    html = render_report(tour, figures=[drawn(HOSTILE, HOSTILE), plain])
    page = Page(html)
    assert page.all("img") == []
    assert html.count("<script") == 2  # the data and the viewer
    assert page.words.count("alert(1)") == 2 * 3 + 2  # title, caption and link; legend and svg


def test_the_same_drawing_gives_the_same_bytes() -> None:
    assert drawn("Curves", "a") == drawn("Curves", "a")
