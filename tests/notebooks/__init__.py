"""The committed notebooks."""
