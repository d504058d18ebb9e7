"""`clinical-envs` with validation and test sets of a dozen cases a risk group.

What is claimed of them is not looked at; how they are played is.
"""

import pytest

from tests.training_runs import few_cases
from training.cli import main

PER_GROUP = 12

if __name__ == "__main__":
    few_cases.PER_GROUP = PER_GROUP
    few_cases.use_few_cases(pytest.MonkeyPatch())
    main()
