"""Arrival-aware and reproducible all-reduce for PyTorch DistributedDataParallel."""
