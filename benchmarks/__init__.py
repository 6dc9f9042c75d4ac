"""Benchmarks: of the assignors (make benchmarks), placers, clients and the traffic pipeline."""
