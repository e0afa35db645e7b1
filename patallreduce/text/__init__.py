"""Tables, sizes and times as text."""
