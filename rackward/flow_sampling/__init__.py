"""Flow records from the kernel's own counters of connections."""
