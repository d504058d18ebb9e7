"""The page in a real browser, with its content policy in force."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from oracles import Audit
from oracles.report import render_report
from oracles.report.encounters import choose_encounters

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=2000",
)
pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no chromium here; on Debian: apt-get install chromium"
)


def opened(html: str, folder: Path, fragment: str = "") -> tuple[str, str]:
    """The encounter's element and the whole document, as the browser has them after loading."""
    path = folder / "report.html"
    path.write_text(html, encoding="utf-8")
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, f"{path.as_uri()}{fragment}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert not re.search(r"CONSOLE.*(Uncaught|Refused|violates)", done.stderr), done.stderr
    pane = re.search(r"<article.*?</article>", done.stdout, flags=re.DOTALL)
    assert pane is not None
    return pane[0], done.stdout


@pytest.fixture(scope="module")
def html(tour: Audit) -> str:
    return render_report(tour)


def test_a_link_opens_its_encounter_beside_the_oracle(
    html: str, tour: Audit, tmp_path: Path
) -> None:
    records = choose_encounters(tour).records
    number = next(i for i, r in enumerate(records) if r["policy"] == "1_ask" and r["flags"])
    pane, _ = opened(html, tmp_path, f"#encounter-{number}")
    assert f'data-number="{number}"' in pane
    assert records[number]["case"] in pane
    assert pane.count('class="turn"') == len(records[number]["turns"])
    assert "the oracle, knowing the same" in pane
    assert "What was still unknown" in pane


def test_choosing_a_policy_and_stepping_change_the_encounter(
    html: str, tour: Audit, tmp_path: Path
) -> None:
    records = choose_encounters(tour).records
    first = next(i for i, r in enumerate(records) if r["policy"] == "random")
    steps = (
        "const policy = document.getElementById('choose-policy');"
        "policy.value = [...policy.options].find((o) => o.text.startsWith('random')).value;"
        "policy.dispatchEvent(new Event('change'));"
        "document.getElementById('next').click();"
    )
    free = re.sub(r"<meta http-equiv=[^>]*>", "", html).replace(
        "</body>", f"<script>{steps}</script></body>"
    )
    pane, _ = opened(free, tmp_path)
    assert f'data-number="{first + 1}"' in pane
    assert records[first + 1]["case"] in pane


def test_a_link_to_folded_flags_unfolds_them(html: str, tmp_path: Path) -> None:
    _, document = opened(html, tmp_path, "#flags-1")
    assert re.search(r'<details class="flags" id="flags-1" open="">', document)
    assert re.search(r'<details class="flags" id="flags-0">', document)


def test_a_script_that_is_not_the_pages_own_does_not_run(html: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html.replace("</body>", "<script>document.title = 'ran'</script></body>"))
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run(
        [*command, path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    assert "<title>Guarded report</title>" in done.stdout
