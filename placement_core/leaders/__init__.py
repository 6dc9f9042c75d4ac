"""Which replica leads, given where the consumers are."""
