"""Rubric-graded answers: scoring, consensus of judges, criteria and verifiers with known faults.

Pure arithmetic and predicates; no language model. Formulas follow arXiv 2605.12474.
"""
