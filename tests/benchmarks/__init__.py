"""Ratios and sizes, measured side by side in one run: `python -m tests.benchmarks`."""
