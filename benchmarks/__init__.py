"""Measurements, one question per file."""
