"""Cross-rack traffic of Kafka clusters: bytes, cost and savings, computed on Spark.

The input is snapshots of clusters (:mod:`rack_traffic.tables` describes their columns).
Pure transforms of DataFrames turn them into bytes and cost per hour
(:mod:`rack_traffic.tables`), and a what-if runs the same assignors that serve live groups.
The pipeline needs ``pip install 'rackward[spark]'``; importing this package does not.
"""
