"""Where a GPU's libraries are, and what its streams are given to do."""
