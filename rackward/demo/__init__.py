"""``rackward demo``: the same story told to several assignors on a real Kafka in three racks."""
