"""Producers that write records without a key to leaders in their own rack.

A file per client library: `partitioners.kafka_python`, `partitioners.aiokafka` and
`partitioners.confluent`. All choose partitions as `partitioners.choice` does. Records with a key,
and records with an explicit partition, go where the client library itself sends them.
"""
