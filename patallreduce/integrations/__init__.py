"""Frameworks that wrap a model in DistributedDataParallel out of sight; each imported on demand."""
