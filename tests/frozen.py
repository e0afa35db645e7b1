"""Imported last by what forks processes: their garbage collectors leave alone what it imported."""

import gc

gc.collect()
gc.freeze()
