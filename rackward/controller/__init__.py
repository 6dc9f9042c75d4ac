"""The controller: what KIP-409 and KIP-879 have brokers do, done beside unmodified ones."""
