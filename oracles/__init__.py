"""How good play can be: exact oracle, reference policies, metrics, gates, audit, report."""
