"""Helpers that need the training stack hold no tests; without the stack they cannot be imported."""

collect_ignore = ["scripted.py", "trl_run.py"]
