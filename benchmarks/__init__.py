"""How long assignments take, beside kafka-python's own on the same input. Run: make benchmarks."""
