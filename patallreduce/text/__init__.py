"""Tables, sizes and times as text; text and JSON of files."""
