"""All-reduce side by side: sizes, algorithms, ranks and arrival patterns."""
