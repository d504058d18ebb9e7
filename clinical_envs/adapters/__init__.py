"""The environments: Gymnasium, vector, text and tools, over one simulator."""
