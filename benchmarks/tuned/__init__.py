"""What decisions that were measured cost where nobody measured."""
