"""Language models as judges and checkers: rubrics, pairs, claims, panels, and the self-gap.

A reply that cannot be read and a call that fails leave their verdict missing, never false.
"""
