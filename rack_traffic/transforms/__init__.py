"""Transforms from snapshots to bytes and cost: each takes DataFrames and returns one."""
