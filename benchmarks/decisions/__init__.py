"""Decision maps measured, and what functions that encode or predict them cost."""
