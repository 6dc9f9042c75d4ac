"""What crosses racks, what it costs, and what would change it: a pipeline on Spark.

Snapshots of clusters go in (:mod:`rack_traffic.schemas` has every table), pure transforms of
DataFrames make bytes and cost per hour of them, and the same assignors that serve live groups say
what another assignment would cost. Needs ``pip install 'rackward[spark]'``; importing this package
alone does not.
"""
