"""Collectives among ranks: the communicator, its calls, and what it needs to run them."""
