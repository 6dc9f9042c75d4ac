"""Tables, JSON and progress lines that the commands print."""
