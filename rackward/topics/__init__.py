"""Topics: planning their layout, creating them, and the health of their partitions."""
