"""Bytes that the network counted: from flow records to bytes per hour, client and pair of racks.

Most records of a network have nothing to do with Kafka: they are left out by the addresses of the
brokers, which are broadcast, before anything is sorted. The rest is shuffled once, by connection.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rack_traffic.options import Endpoints
from rack_traffic.schemas import FLOWS_HOURLY
from rack_traffic.transforms.broker_racks import FOREVER, spans, with_rack
from rack_traffic.transforms.hours import hour_numbers, part_in_hour, whole_part

CONNECTION = ("cluster", "client", "client_port", "broker_address", "broker_port")

_ATTRIBUTES = ("group", "groups", "member_rack", "peer", "broker_rack", "peer_rack")
"""What is known of the ends of a record at its time. ``peer`` is a broker that is the client."""

_SIDES = ("source", "destination")


def measured_flows(of_brokers: DataFrame, members: DataFrame, racks: DataFrame) -> DataFrame:
    """Return (cluster, kind, client, group, groups, member_rack, peer, broker_rack, peer_rack,
    to_client, hour_number, bytes, opposite_bytes).

    ``of_brokers`` is the result of `records_of_brokers`, ``racks`` that of `broker_racks`.
    ``bytes`` went ``to_client`` (or to the broker), ``opposite_bytes``, which are fewer, the other
    way. docs/traffic-rules.md has the rules.
    """
    unique = of_brokers.repartition(*CONNECTION[1:]).dropDuplicates(
        [*CONNECTION, "to_client", "start", "end", "bytes", "reporter"]
    )
    located = with_rack(unique, racks, "broker", "at", "broker_rack")
    located = with_rack(located, racks, "peer", "at", "peer_rack")
    return _sums(_by_hour(_with_members(located, members)))


def located_flows(measured: DataFrame, networks: DataFrame) -> DataFrame:
    """Return the table FLOWS_HOURLY from the result of `measured_flows`.

    ``networks`` has the columns ``client`` and ``network_rack``, of the file of addresses.
    """
    rows = measured.join(F.broadcast(networks), "client", how="left")
    is_peer = F.col("peer").isNotNull()
    client_rack = F.when(is_peer, F.col("peer_rack")).otherwise(
        F.coalesce("member_rack", "network_rack")
    )
    source = F.when(is_peer & F.col("peer_rack").isNotNull(), "broker")
    source = source.when(~is_peer & F.col("member_rack").isNotNull(), "member")
    source = source.when(~is_peer & F.col("network_rack").isNotNull(), "mapping")
    to_client = F.col("to_client")
    rows = rows.withColumns(
        {
            "rack_source": source,
            "from_rack": F.when(to_client, F.col("broker_rack")).otherwise(client_rack),
            "to_rack": F.when(to_client, client_rack).otherwise(F.col("broker_rack")),
            "hour": F.timestamp_seconds(F.col("hour_number") * F.lit(3600)),
        }
    )
    sizes = ("bytes", "opposite_bytes")
    keys = [name for name in FLOWS_HOURLY.names if name not in sizes]
    sums = rows.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in sizes))
    return sums.select(*(F.col(each.name).cast(each.dataType) for each in FLOWS_HOURLY))


# ---- The ends of records.


def _endpoints(listeners: DataFrame, mapped: Endpoints) -> DataFrame:
    """Return (address, endpoints): an array of order, port, since, until, cluster and broker, in
    the order in which they are searched."""
    known = listeners.filter(F.col("address").isNotNull()).select(
        "address", "port", F.struct("cluster", "broker").alias("owner"), "taken_at"
    )
    of_listeners = spans(known, ("address", "port"), "owner").select(
        "address",
        F.lit(2).alias("order"),
        "port",
        "since",
        "until",
        "owner.cluster",
        "owner.broker",
    )
    rows = [
        (address, 1 if port is None else 0, port, -FOREVER, FOREVER, *owner)
        for (address, port), owner in mapped.items()
    ]
    of_file = listeners.sparkSession.createDataFrame(rows, of_listeners.schema)
    each = F.struct("order", "port", "since", "until", "cluster", "broker")
    both = of_listeners.unionByName(of_file).groupBy("address")
    return both.agg(F.sort_array(F.collect_list(each)).alias("endpoints"))


def records_of_brokers(records: DataFrame, listeners: DataFrame, mapped: Endpoints) -> DataFrame:
    """Return (cluster, client, client_port, broker_address, broker_port, broker, peer, to_client,
    start, end, at, bytes, reporter): the records with a broker at one end.

    ``records`` has the columns ``flow_formats.RECORD``; ``mapped`` are the endpoints of load
    balancers and NAT.
    """
    rows, endpoints = records, _endpoints(listeners, mapped)
    for side in _SIDES:
        named = endpoints.select(
            F.col("address").alias(f"{side}_address"), F.col("endpoints").alias(f"{side}_endpoints")
        )
        rows = rows.join(F.broadcast(named), f"{side}_address", how="left")
    is_known = [F.col(f"{side}_endpoints").isNotNull() for side in _SIDES]
    rows = rows.filter(is_known[0] | is_known[1]).withColumn(
        "at", F.col("start") + whole_part(F.col("end") - F.col("start"), 2)
    )
    rows = rows.withColumns({f"{side}_endpoint": _endpoint(side) for side in _SIDES})
    found = [F.col(f"{side}_endpoint") for side in _SIDES]
    exact = [each["port"].isNotNull() for each in found]
    source, destination = (F.struct(f"{side}_address", f"{side}_port") for side in _SIDES)
    # Of two brokers, the client connects from a port that is no listener's.
    from_broker = (
        F.when(found[0].isNull(), F.lit(False))
        .when(found[1].isNull(), F.lit(True))
        .when(exact[0] != exact[1], exact[0])
        .otherwise(source < destination)
    )
    rows = rows.filter(found[0].isNotNull() | found[1].isNotNull())
    rows = rows.withColumn("to_client", from_broker)

    def of(name: str, *, broker: bool) -> Column:
        to_client = F.col("to_client") if broker else ~F.col("to_client")
        return F.when(to_client, F.col(f"source_{name}")).otherwise(F.col(f"destination_{name}"))

    oriented = rows.select(
        of("endpoint", broker=True).alias("endpoint"),
        of("address", broker=True).alias("broker_address"),
        of("port", broker=True).alias("broker_port"),
        of("address", broker=False).alias("client"),
        of("port", broker=False).alias("client_port"),
        of("endpoints", broker=False).alias("client_endpoints"),
        *("to_client", "start", "end", "at", "bytes"),
        F.coalesce("reporter", F.lit("")).alias("reporter"),
    )
    cluster, broker = F.col("endpoint.cluster"), F.col("endpoint.broker")
    of_client = F.filter(
        "client_endpoints",
        lambda each: (
            (each["cluster"] == cluster)
            & (each["since"] <= F.col("at"))
            & (F.col("at") < each["until"])
        ),
    )
    peers = F.transform(of_client, lambda each: each["broker"])
    return oriented.filter(~F.coalesce(F.array_contains(peers, broker), F.lit(False))).select(
        cluster.alias("cluster"),
        *CONNECTION[1:],
        broker.alias("broker"),
        F.array_min(peers).alias("peer"),
        *("to_client", "start", "end", "at", "bytes", "reporter"),
    )


def _endpoint(side: str) -> Column:
    """Return the first endpoint of a broker that a side of a record matches, else null."""
    port, at = F.col(f"{side}_port"), F.col("at")
    matching = F.filter(
        f"{side}_endpoints",
        lambda each: (
            (each["port"].isNull() | (each["port"] == port))
            & (each["since"] <= at)
            & (at < each["until"])
        ),
    )
    return F.get(matching, 0)


def _with_members(rows: DataFrame, members: DataFrame) -> DataFrame:
    """Return ``rows`` with ``group``, ``groups`` and ``member_rack`` of the client's address."""
    addresses = _member_addresses(members)
    covered = members.groupBy("cluster").agg(
        *(F.unix_micros(how("taken_at")).alias(how.__name__) for how in (F.min, F.max))
    )
    joined = rows.join(F.broadcast(addresses), ["cluster", "client"], how="left").join(
        F.broadcast(covered), "cluster", how="left"
    )
    at = F.col("at")
    present = F.filter(
        F.coalesce("presences", F.array().cast(addresses.schema["presences"].dataType)),
        lambda each: (each["since"] <= at) & (at < each["until"]),
    )
    groups = F.array_distinct(F.transform(present, lambda each: each["group"]))
    racks = F.transform(present, lambda each: each["rack"])
    racks = F.array_distinct(F.filter(racks, lambda rack: rack.isNotNull()))
    is_client = F.col("peer").isNull()
    return joined.select(
        *rows.columns,
        F.when(is_client & (F.size(groups) == 1), F.get(groups, 0)).alias("group"),
        F.when(is_client & at.between(F.col("min"), F.col("max")), F.size(groups)).alias("groups"),
        F.when(is_client & (F.size(racks) == 1), F.get(racks, 0)).alias("member_rack"),
    )


def _member_addresses(members: DataFrame) -> DataFrame:
    """Return (cluster, client, presences): an array of since, until, group and rack per address.

    Successive snapshots with the same member make one presence, so there are few.
    """
    of_group = Window.partitionBy("cluster", "group").orderBy("snapshot")
    keys = ("cluster", "group", "host", "rack")
    at = F.col("at")
    numbered = members.select(
        *keys,
        F.col("member_id").isNotNull().alias("is_member"),
        F.unix_micros("taken_at").alias("at"),
        F.dense_rank()
        .over(Window.partitionBy("cluster", "group").orderBy("taken_at"))
        .alias("snapshot"),
    )
    neighbours = numbered.withColumns(
        {
            "before": F.min("at").over(of_group.rangeBetween(-1, -1)),
            "after": F.min("at").over(of_group.rangeBetween(1, 1)),
        }
    )
    present = (
        neighbours.filter(F.col("is_member") & F.col("host").isNotNull())
        .select(
            *keys,
            "snapshot",
            F.coalesce(F.col("before") + whole_part(at - F.col("before"), 2), at).alias("since"),
            F.coalesce(at + whole_part(F.col("after") - at, 2), at + F.lit(1)).alias("until"),
        )
        .distinct()
    )
    in_order = F.row_number().over(Window.partitionBy(*keys).orderBy("snapshot"))
    runs = present.withColumn("run", F.col("snapshot") - in_order).groupBy(*keys, "run")
    presences = runs.agg(F.min("since").alias("since"), F.max("until").alias("until"))
    each = F.struct("since", "until", "group", "rack")
    return presences.groupBy("cluster", F.col("host").alias("client")).agg(
        F.sort_array(F.collect_list(each)).alias("presences")
    )


# ---- Hours and sums.


def _by_hour(rows: DataFrame) -> DataFrame:
    """Return ``rows`` per hour: ``hour_number``, and the part of ``bytes`` in it."""
    until = F.greatest(F.col("end"), F.col("start") + F.lit(1))
    hours = rows.select(
        *CONNECTION,
        *("to_client", "reporter", *_ATTRIBUTES, "bytes"),
        F.col("start").alias("from_at"),
        until.alias("to_at"),
        (until - F.col("start")).alias("length"),
        F.explode(hour_numbers(F.col("start"), until)).alias("hour_number"),
    )
    return hours.select(
        *(*CONNECTION, "hour_number", "to_client", "reporter", *_ATTRIBUTES),
        part_in_hour("from_at", "to_at", "bytes"),
    )


def _sums(parts: DataFrame) -> DataFrame:
    """Return the result of `measured_flows`: of each connection, direction and hour the bytes of
    one reporter."""
    connection = (*CONNECTION, "hour_number")
    keys = (*connection, "to_client", "reporter", *_ATTRIBUTES)
    sums = parts.groupBy(*keys).agg(F.sum("bytes").alias("bytes"))
    total = F.sum("bytes").over(Window.partitionBy(*connection, "to_client", "reporter"))
    best = Window.partitionBy(*connection, "to_client").orderBy(F.desc("total"), "reporter")
    chosen = (
        sums.withColumn("total", total)
        .withColumn("rank", F.rank().over(best))
        .filter((F.col("rank") == 1) & (F.col("bytes") > 0))
    )
    both = Window.partitionBy(*connection)
    to_client = F.col("to_client")
    signed = F.when(to_client, F.col("bytes")).otherwise(-F.col("bytes"))
    main = chosen.withColumn("main", F.sum(signed).over(both) >= 0)
    kind = F.when(F.col("peer").isNotNull(), "replicate").when(F.col("main"), "consume")
    is_main = to_client == F.col("main")
    grouped = main.groupBy(
        "cluster",
        kind.otherwise("produce").alias("kind"),
        "client",
        *_ATTRIBUTES,
        F.col("main").alias("to_client"),
        "hour_number",
    )
    return grouped.agg(
        F.sum(F.when(is_main, F.col("bytes")).otherwise(0)).alias("bytes"),
        F.sum(F.when(is_main, 0).otherwise(F.col("bytes"))).alias("opposite_bytes"),
    )
