"""Consumer groups of a live cluster: who reads what from where, audit, explanation, rebalance."""
