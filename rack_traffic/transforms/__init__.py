"""The steps from snapshots to bytes and cost: DataFrames in, a DataFrame out, one idea a file."""
