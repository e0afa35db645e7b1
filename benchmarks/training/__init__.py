"""What does a late rank cost a training run?"""
