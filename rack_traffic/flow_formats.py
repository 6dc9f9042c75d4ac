"""Records of network flows: the formats that they are read from, and their validation.

A format is data: where the columns of a record are in the fields of a file. Files are Parquet, text
with a header line, or JSON, compressed or not, at any depth below a folder; the names of folders
(``day=27``) mean nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    IntegralType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from rack_traffic.errors import InputError
from rack_traffic.schemas import spark_schema
from rack_traffic.session import summarize_error
from rack_traffic.tables import INT, LONG, TEXT
from rack_traffic.validation import REASON, ValidatedTable, divide, first_reason

RECORD = spark_schema(
    {
        **{"start": LONG, "end": LONG, "source_address": TEXT, "source_port": INT},
        **{"destination_address": TEXT, "destination_port": INT, "bytes": LONG, "reporter": TEXT},
    }
)
"""The columns of a record: ``bytes`` were sent from the source to the destination in [start, end),
which are microseconds since 1970. ``reporter`` is the interface, or the side, that counted them;
null if the format has none. A port is null if the records are not divided by ports."""


@dataclass(frozen=True, slots=True)
class FlowFormat:
    """A format of flow records.

    columns
        Column of RECORD to its expression of SQL over the fields. Times are epoch seconds or
        ISO 8601 in UTC.
    needs
        The fields of text and Parquet files by which the format is recognised.
    optional
        Fields that files may lack, and that are null then.
    json
        The schema of JSON files; None if the format has none. The first name in it is the mark by
        which the format is recognised.
    options
        Options with which Spark reads JSON.
    generators
        Expressions that are added as columns, in order, before ``columns``; they may give several
        rows.
    ignored
        The condition of rows that are no delivered bytes.
    rejected
        Condition of rows to reject by reason.
    kept
        The columns that `rejected_rows` has of a rejected row; none means all.
    series
        None, or the expression that tells cumulative counters apart: rows are samples of them at
        ``end``, with the bytes since an unknown time. A record is what a counter has grown by
        since its sample before, and all it has if that is less: it began at 0 again.
    """

    columns: Mapping[str, str]
    needs: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    json: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    generators: tuple[str, ...] = ()
    ignored: str = "false"
    rejected: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    series: str | None = None


_CORRUPT = "_corrupt_record"

_ENDPOINTS = ("source_address", "source_port", "destination_address", "destination_port")

# Counters of OpenTelemetry eBPF instrumentation (OBI) and of Grafana Beyla: ``name`` is that of the
# metric and ``labels`` are its attributes, with underscores for dots.
_FLOW_METRICS = "('obi_network_flow_bytes', 'beyla_network_flow_bytes')"
_ZONE_METRICS = "('obi_network_inter_zone_bytes', 'beyla_network_inter_zone_bytes')"
_NAME = "regexp_replace(replace({}, '.', '_'), '_total$', '')"
_SWITCH_ON = "attributes.select.obi_network_flow_bytes.include (Beyla: beyla_network_flow_bytes)"
_LABELLED = {
    "source_address": "labels['src_address']",
    "source_port": "coalesce(labels['src_port'], CASE labels['direction'] "
    "WHEN 'request' THEN labels['client_port'] WHEN 'response' THEN labels['server_port'] END)",
    "destination_address": "labels['dst_address']",
    "destination_port": "coalesce(labels['dst_port'], CASE labels['direction'] "
    "WHEN 'request' THEN labels['server_port'] WHEN 'response' THEN labels['client_port'] END)",
}
_NOT_LABELLED = {
    "inter-zone counters have zones only, which do not tell Kafka's traffic from other traffic: "
    "export network flow bytes": f"name IN {_ZONE_METRICS}",
    "the counter has no addresses: add src.address and dst.address to "
    f"{_SWITCH_ON}": "labels['src_address'] IS NULL OR labels['dst_address'] IS NULL",
    "the counter has no port of a server: add server.port and direction, or src.port and "
    f"dst.port, to {_SWITCH_ON}": f"coalesce({_LABELLED['source_port']}, "
    f"{_LABELLED['destination_port']}) IS NULL",
}
# Nodes count a flow at both of its ends, and without a deduplicator at each interface.
_AGENT = (
    "coalesce(labels['obi_ip'], labels['beyla_ip']), labels['iface'], labels['iface_direction']"
)
_BY_LABELS = "array_sort(map_entries(labels))"

FORMATS: Mapping[str, FlowFormat] = {
    "aws": FlowFormat(
        columns={
            "start": "start",
            "end": "`end`",
            # Those of the packet: of a pod, or of what is behind a NAT gateway.
            "source_address": "coalesce(nullif(pkt_srcaddr, '-'), nullif(srcaddr, '-'))",
            "source_port": "srcport",
            "destination_address": "coalesce(nullif(pkt_dstaddr, '-'), nullif(dstaddr, '-'))",
            "destination_port": "dstport",
            "bytes": "bytes",
            "reporter": "interface_id",
        },
        needs=("srcport", "dstport", "bytes", "start", "end"),
        optional=(
            *("srcaddr", "dstaddr", "pkt_srcaddr", "pkt_dstaddr"),
            *("interface_id", "action", "log_status"),
        ),
        ignored="log_status = 'NODATA' or action = 'REJECT'",
        rejected={"the log skipped records (SKIPDATA)": "log_status = 'SKIPDATA'"},
    ),
    "gcp": FlowFormat(
        columns={
            "start": "jsonPayload.start_time",
            "end": "jsonPayload.end_time",
            "source_address": "jsonPayload.connection.src_ip",
            "source_port": "jsonPayload.connection.src_port",
            "destination_address": "jsonPayload.connection.dest_ip",
            "destination_port": "jsonPayload.connection.dest_port",
            "bytes": "jsonPayload.bytes_sent",
            "reporter": "jsonPayload.reporter",
        },
        json="jsonPayload STRUCT<connection: STRUCT<src_ip: STRING, src_port: STRING, "
        "dest_ip: STRING, dest_port: STRING>, reporter: STRING, start_time: STRING, "
        "end_time: STRING, bytes_sent: STRING>",
    ),
    "azure": FlowFormat(
        # A tuple: time, addresses, ports, protocol, direction, state, encryption, packets and
        # bytes sent, packets and bytes received, since the tuple before: at most five minutes.
        columns={
            "start": "try_cast(get(fields, 0) AS decimal(20, 3)) / 1000 - 300",
            "end": "try_cast(get(fields, 0) AS decimal(20, 3)) / 1000",
            "source_address": "get(fields, if(sent, 1, 2))",
            "source_port": "get(fields, if(sent, 3, 4))",
            "destination_address": "get(fields, if(sent, 2, 1))",
            "destination_port": "get(fields, if(sent, 4, 3))",
            "bytes": "get(fields, if(sent, 10, 12))",
            "reporter": "record.macAddress",
        },
        json="records ARRAY<STRUCT<macAddress: STRING, flowRecords: STRUCT<flows: ARRAY<STRUCT<"
        "flowGroups: ARRAY<STRUCT<flowTuples: ARRAY<STRING>>>>>>>>",
        options={"multiLine": "true"},
        generators=(
            "explode_outer(records) AS record",
            "explode_outer(flatten(transform(record.flowRecords.flows, flow -> flatten("
            "transform(flow.flowGroups, each -> each.flowTuples))))) AS tuple",
            "split(tuple, ',') AS fields",
            "explode(array(true, false)) AS sent",
        ),
        # Flows that begin have no bytes yet, denied ones never.
        ignored="get(fields, 7) IN ('B', 'D') OR (tuple IS NULL AND _corrupt_record IS NULL)",
    ),
    "generic": FlowFormat(
        columns={name: f"`{name}`" for name in RECORD.names},
        needs=("start", "end", *_ENDPOINTS, "bytes"),
        optional=("reporter",),
        json=", ".join(
            f"`{name}` STRING" for name in (*_ENDPOINTS, "start", "end", "bytes", "reporter")
        ),
    ),
    # OTLP as JSON lines, of the OpenTelemetry Collector's file exporter.
    "otlp": FlowFormat(
        columns={
            "start": "NULL",
            "end": "try_cast(point.timeUnixNano AS decimal(20)) / 1000000000",
            **_LABELLED,
            "bytes": "coalesce(point.asInt, point.asDouble)",
            "reporter": f"concat_ws('/', {_AGENT}, agent)",
        },
        json="resourceMetrics ARRAY<STRUCT<resource: STRUCT<attributes: ARRAY<STRUCT<key: STRING, "
        "value: STRUCT<stringValue: STRING, intValue: STRING>>>>, scopeMetrics: ARRAY<STRUCT<"
        "metrics: ARRAY<STRUCT<name: STRING, sum: STRUCT<aggregationTemporality: STRING, "
        "dataPoints: ARRAY<STRUCT<attributes: ARRAY<STRUCT<key: STRING, value: STRUCT<"
        "stringValue: STRING, intValue: STRING>>>, timeUnixNano: STRING, asInt: STRING, "
        "asDouble: STRING>>>>>>>>>",
        generators=(
            "explode_outer(resourceMetrics) AS of_resource",
            "to_json(of_resource.resource) AS agent",
            "explode_outer(flatten(transform(of_resource.scopeMetrics, each -> each.metrics))) "
            "AS metric",
            f"{_NAME.format('metric.name')} AS name",
            "metric.sum.aggregationTemporality AS temporality",
            "explode_outer(metric.sum.dataPoints) AS point",
            "map_from_entries(transform(point.attributes, each -> struct(replace(each.key, '.', "
            "'_'), coalesce(each.value.stringValue, each.value.intValue)))) AS labels",
        ),
        ignored=f"_corrupt_record IS NULL AND coalesce(name NOT IN {_FLOW_METRICS} AND name NOT IN "
        f"{_ZONE_METRICS}, true)",
        rejected={
            "the counter has delta temporality: export it as cumulative": "temporality IN ('1', "
            "'AGGREGATION_TEMPORALITY_DELTA')",
            **_NOT_LABELLED,
        },
        kept=("name", "labels", "point"),
        series=f"to_json(struct(agent, name, {_BY_LABELS}))",
    ),
    # A response of Prometheus's HTTP API with samples over time.
    "prometheus": FlowFormat(
        columns={
            "start": "NULL",
            "end": "get(sample, 0)",
            **_LABELLED,
            "bytes": "get(sample, 1)",
            "reporter": f"concat_ws('/', {_AGENT}, labels['job'], labels['instance'])",
        },
        json="data STRUCT<resultType: STRING, result: ARRAY<STRUCT<metric: MAP<STRING, STRING>, "
        "values: ARRAY<ARRAY<STRING>>>>>",
        options={"multiLine": "true"},
        generators=(
            "explode_outer(data.result) AS of_series",
            "transform_keys(of_series.metric, (key, value) -> replace(key, '.', '_')) AS labels",
            f"{_NAME.format('labels[' + repr('__name__') + ']')} AS name",
            "explode_outer(of_series.values) AS sample",
        ),
        ignored=f"(data.result IS NOT NULL AND of_series IS NULL) OR (name NOT IN {_FLOW_METRICS} "
        f"AND name NOT IN {_ZONE_METRICS})",
        rejected={
            "the response has no samples over time: query METRIC[1h]": "_corrupt_record IS NULL "
            "AND sample IS NULL",
            "the series has no name: query the counter without functions": "labels IS NOT NULL AND "
            "name IS NULL",
            **_NOT_LABELLED,
        },
        kept=("labels", "sample", _CORRUPT),
        series=f"to_json({_BY_LABELS})",
    ),
}
"""Format name to format."""

_KINDS = {"parquet": "parquet", "json": "json", "jsonl": "json", "ndjson": "json"}
"""Extension of a file to its kind; any other is text."""

_REJECTED = {
    "start is missing or unreadable": "start is null",
    "end is missing or unreadable": "`end` is null",
    "source_address is missing": "source_address is null",
    "destination_address is missing": "destination_address is null",
    "bytes is missing or unreadable": "bytes is null",
    "bytes is negative": "bytes < 0",
    "source_port is not in 0 to 65535": "source_port not between 0 and 65535",
    "destination_port is not in 0 to 65535": "destination_port not between 0 and 65535",
    "start is out of range": "start < 1577836800000000 or start >= 7258118400000000",
    "end is before start": "`end` < start",
    "the window is longer than a day": "`end` - start > 86400000000",
}
"""Condition of rejected records by reason, after those of the format; the first that holds is
reported."""


def read_flows(
    spark: SparkSession, path: str | list[str], name: str | None = None
) -> ValidatedTable:
    """Return the flow records below ``path`` (several: files), valid ones with the columns RECORD.

    ``name`` is the format, None: the one that the first file has. Raise InputError if the files
    cannot be read, are of several kinds, or lack the fields of the format.
    """
    try:
        kind = _kind(spark, path)
        if kind == "json":
            form, rows = _read_json(spark, path, name)
        else:
            form, rows = _read_columns(spark, path, name, kind)
    except AnalysisException as error:
        raise InputError(
            f"cannot read the flow records in {path}: {summarize_error(str(error))}"
        ) from error
    return validate_flows(rows, form)


def validate_flows(rows: DataFrame, form: FlowFormat) -> ValidatedTable:
    """Divide the rows of files of a format into records and rejected ones."""
    for generator in form.generators:
        rows = rows.selectExpr("*", generator)
    rows = rows.filter(~F.coalesce(F.expr(form.ignored), F.lit(False)))
    types = {
        each.name: each.dataType
        for each in rows.selectExpr(
            *(f"{sql} AS `{name}`" for name, sql in form.columns.items())
        ).schema
    }
    of_format: dict[str, str] = {}
    if _CORRUPT in rows.columns:
        of_format["the line is not valid JSON"] = f"{_CORRUPT} is not null"
    kept = form.kept or rows.columns
    typed = rows.select(
        F.struct(*(F.col(f"`{name}`") for name in kept)).alias("_raw"),
        first_reason({**of_format, **form.rejected}).alias("_of_format"),
        *(_typed(name, F.expr(sql), types[name]) for name, sql in form.columns.items()),
        *(() if form.series is None else (F.expr(form.series).alias("_series"),)),
    )
    if form.series is not None:
        typed = _increases(typed)
    reason = F.coalesce("_of_format", first_reason(_REJECTED)).alias(REASON)
    return divide(typed.select(*RECORD.names, "_raw", reason), "flows", RECORD.names, "_raw")


def _increases(samples: DataFrame) -> DataFrame:
    """Return what the counters of ``samples`` have grown by between two samples.

    A sample that two files have counts once. Samples that will be rejected stay as they are.
    """
    is_sample = F.col("_of_format").isNull() & F.col("end").isNotNull() & F.col("bytes").isNotNull()
    unusable = samples.filter(~is_sample).withColumn("start", F.col("end"))
    by_time = Window.partitionBy("_series").orderBy("end")
    before, size = F.lag("bytes").over(by_time), F.col("bytes")
    grown = (
        samples.filter(is_sample)
        .dropDuplicates(["_series", "end"])
        .withColumns(
            {
                "start": F.lag("end").over(by_time),
                "bytes": F.when(size >= before, size - before).otherwise(size),
            }
        )
        .filter(F.col("start").isNotNull() & (F.col("bytes") != 0))
    )
    return grown.unionByName(unusable)


def _typed(name: str, column: Column, kind: DataType) -> Column:
    """Return a column of RECORD from a field of any type; null if it is unreadable."""
    if name in ("start", "end"):
        return _micros(column, kind).alias(name)
    return column.try_cast(RECORD[name].dataType).alias(name)


def _micros(column: Column, kind: DataType) -> Column:
    """Return a time in microseconds; numbers are seconds."""
    if isinstance(kind, TimestampType | TimestampNTZType):
        return F.unix_micros(column.cast("timestamp"))
    if isinstance(kind, IntegralType):
        return column.cast("bigint") * F.lit(1_000_000)
    micros = (column.try_cast("decimal(20, 6)") * F.lit(1_000_000)).try_cast("bigint")
    if isinstance(kind, StringType):
        return F.coalesce(micros, F.unix_micros(column.try_cast("timestamp")))
    return micros


# ---- Files.


def _kind(spark: SparkSession, path: str | list[str]) -> str:
    """Return the kind of the files below a path: parquet, json or text."""
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(path)
    extension = F.regexp_extract("path", r"\.([A-Za-z0-9]+)(\.(gz|bz2|zst))?$", 1)
    found = files.select(extension.alias("extension")).distinct().collect()
    kinds = sorted({_KINDS.get(row["extension"].lower(), "text") for row in found})
    if len(kinds) != 1:
        raise InputError(
            f"there are files of several kinds in {path} ({', '.join(kinds)}): give a folder of one"
            if kinds
            else f"there are no flow records in {path}"
        )
    return kinds[0]


def _read_json(
    spark: SparkSession, path: str | list[str], name: str | None
) -> tuple[FlowFormat, DataFrame]:
    """Return the format and the rows of JSON files."""
    reader = spark.read.option("recursiveFileLookup", "true")
    schemas = {known: form.json for known, form in FORMATS.items() if form.json}
    if name is None:
        # A line may be a whole file.
        lines = reader.text(path).select(F.substring("value", 1, 10_000)).limit(20).collect()
        first = "".join(row[0] for row in lines)
        marks = {known: schema.split()[0].strip("`") for known, schema in schemas.items()}
        name = next((known for known, mark in marks.items() if f'"{mark}"' in first), None)
    if name not in schemas:
        raise _unknown_format(path, sorted(schemas))
    form = FORMATS[name]
    rows = reader.options(**form.options).schema(f"{form.json}, {_CORRUPT} STRING").json(path)
    return form, rows


def _read_columns(
    spark: SparkSession, path: str | list[str], name: str | None, kind: str
) -> tuple[FlowFormat, DataFrame]:
    """Return the format and the rows of Parquet or text files; ``a-b`` is the field ``a_b``."""
    reader = spark.read.option("recursiveFileLookup", "true")
    if kind == "parquet":
        rows = reader.format("parquet").load(path)
    else:
        header = reader.text(path).head()
        line = "" if header is None else str(header["value"])
        separator = "," if "," in line else " "
        names = line.split(separator)
        schema = StructType([StructField(each, StringType()) for each in names])
        # Spark fails if another file has another header.
        reader = reader.option("header", "true").option("enforceSchema", "false")
        rows = reader.option("sep", separator).schema(schema).csv(path)
    rows = rows.toDF(*(each.lower().replace("-", "_") for each in rows.columns))
    columns = set(rows.columns)
    known = {key: form for key, form in FORMATS.items() if form.needs}
    if name is None:
        name = next((key for key, form in known.items() if columns.issuperset(form.needs)), None)
    if name not in known or not columns.issuperset(known[name].needs):
        raise _unknown_format(
            path, [f"{key} ({', '.join(form.needs)})" for key, form in known.items()]
        )
    missing = [each for each in known[name].optional if each not in columns]
    return known[name], rows.withColumns({each: F.lit(None).cast("string") for each in missing})


def _unknown_format(path: str | list[str], known: list[str]) -> InputError:
    return InputError(
        f"the files in {path} have none of the formats {', '.join(known)}: see --flow-format"
    )
