"""What is known of iterations: when ranks arrived, who kept the others waiting, traces."""
