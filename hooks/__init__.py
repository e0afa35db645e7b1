"""What PyTorch calls: the DistributedDataParallel communication hook."""
