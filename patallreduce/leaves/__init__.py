"""Gradients of leaves, summed with the same bits on any number of ranks."""
