"""The same on every machine: a terminal of 100 columns, and Hypothesis by profile.

`ci` draws the same examples on every run; `dev` is quick and keeps looking.
"""

from __future__ import annotations

import os

from hypothesis import settings

# The commands measure the terminal once, when imported, and a process that has none differs:
# readline, where something loads it, writes COLUMNS=80 into the environment.
os.environ["COLUMNS"] = "100"

settings.register_profile("ci", derandomize=True, deadline=None, database=None, max_examples=100)
settings.register_profile("dev", deadline=None, max_examples=25)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
