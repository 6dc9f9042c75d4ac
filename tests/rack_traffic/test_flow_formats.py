"""Flow records are read from hand-made files of each format."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rack_traffic.errors import InputError
from rack_traffic.flow_formats import RECORD, read_flows

BEGIN = datetime(2026, 3, 2, 10, tzinfo=UTC)
SECONDS = int(BEGIN.timestamp())
CLIENT, BROKER = "10.0.1.7", "10.0.0.1"

Record = dict[str, Any]

FETCHED: Record = {
    "start": SECONDS * 10**6,
    "end": (SECONDS + 60) * 10**6,
    "source_address": BROKER,
    "source_port": 9092,
    "destination_address": CLIENT,
    "destination_port": 40_000,
    "bytes": 5_000,
    "reporter": "eni-1",
}


def text(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write = gzip.open if path.suffix == ".gz" else open
    with write(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


def aws_text(root: Path) -> list[Record]:
    """Hive partitions; a pod behind an interface; rows that are no delivered bytes."""
    fields = (
        "version interface-id srcaddr dstaddr srcport dstport bytes start end action log-status "
        "pkt-srcaddr pkt-dstaddr"
    )
    ends = f"{SECONDS} {SECONDS + 60}"
    text(
        root / "aws-account-id=1/year=2026/month=03/day=02/a.log.gz",
        [
            fields,
            f"5 eni-1 {BROKER} 10.0.1.99 9092 40000 5000 {ends} ACCEPT OK {BROKER} {CLIENT}",
            f"5 eni-1 {CLIENT} {BROKER} 40001 9092 52 {ends} REJECT OK - -",
            f"5 eni-1 - - - - - {ends} - NODATA - -",
        ],
    )
    text(
        root / "aws-account-id=1/year=2026/month=03/day=02/b.log.gz",
        [fields, f"5 eni-2 - - - - - {ends} - SKIPDATA - -"],
    )
    return [FETCHED]


def aws_parquet(root: Path) -> list[Record]:
    row = {
        "version": 2,
        "interface_id": "eni-1",
        "srcaddr": BROKER,
        "dstaddr": CLIENT,
        "srcport": 9092,
        "dstport": 40_000,
        "bytes": 5_000,
        "start": SECONDS,
        "end": SECONDS + 60,
        "action": "ACCEPT",
        "log_status": "OK",
    }
    path = root / "year=2026" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([row]), path)
    return [FETCHED]


def gcp(root: Path) -> list[Record]:
    payload = {
        "connection": {
            **{"src_ip": BROKER, "src_port": 9092, "dest_ip": CLIENT, "dest_port": 40_000},
            "protocol": 6,
        },
        **{"reporter": "SRC", "bytes_sent": "5000", "packets_sent": "4", "rtt_msec": "1"},
        "start_time": "2026-03-02T10:00:00.123456789Z",
        "end_time": "2026-03-02T10:01:00Z",
    }
    lines = [json.dumps({"insertId": "x", "jsonPayload": payload}), '{"jsonPayload": {"conn']
    text(root / "compute.googleapis.com/vpc_flows/2026/03/02/10_00_00_S0.json", lines)
    return [FETCHED | {"start": SECONDS * 10**6 + 123_456, "reporter": "SRC"}]


def azure(root: Path) -> list[Record]:
    """A tuple has the bytes of both directions."""
    milliseconds = (SECONDS + 60) * 1000
    tuples = [
        f"{milliseconds},{CLIENT},{BROKER},40000,9092,6,O,B,NX,0,0,0,0",
        f"{milliseconds},{CLIENT},{BROKER},40000,9092,6,O,C,NX,3,700,4,5000",
    ]
    group = {"rule": "allow", "flowTuples": tuples}
    flows = [{"aclID": "1", "flowGroups": [group]}]
    record = {"time": "t", "macAddress": "00", "flowRecords": {"flows": flows}}
    text(root / "y=2026/PT1H.json", json.dumps({"records": [record]}, indent=1).split("\n"))
    fetched = FETCHED | {"reporter": "00", "start": (SECONDS - 240) * 10**6}
    return [fetched, reverse(fetched) | {"bytes": 700}]


def generic_csv(root: Path) -> list[Record]:
    """Columns in any order, times as numbers or text, and no reporter; a row that is no record."""
    text(
        root / "a.csv.gz",
        [
            "bytes,start,end,source_address,source_port,destination_address,destination_port",
            f"5000,{SECONDS},{SECONDS + 60},{BROKER},9092,{CLIENT},40000",
            f"7,2026-03-02T10:00:00Z,2026-03-02 10:01:00,{CLIENT},40000,{BROKER},9092",
            f"7,2026-03-02T10:00:00Z,2026-03-02T09:59:00Z,{CLIENT},40000,{BROKER},9092",
        ],
    )
    fetched = FETCHED | {"reporter": None}
    return [fetched, reverse(fetched) | {"bytes": 7}]


def generic_json(root: Path) -> list[Record]:
    row = FETCHED | {"start": SECONDS + 0.5, "end": "2026-03-02T10:01:00+00:00"}
    text(root / "a.jsonl.gz", [json.dumps(row), json.dumps(row | {"bytes": "many"})])
    return [FETCHED | {"start": SECONDS * 10**6 + 500_000}]


def generic_parquet(root: Path) -> list[Record]:
    row = FETCHED | {"start": BEGIN, "end": BEGIN.replace(minute=1)}
    pq.write_table(pa.Table.from_pylist([row]), root / "a.parquet")
    return [FETCHED]


FROM_BROKER = {"src.address": BROKER, "dst.address": CLIENT, "direction": "response"}
TO_BROKER = {"src.address": CLIENT, "dst.address": BROKER, "direction": "request"}


def series(name: str, labels: dict[str, str], *samples: tuple[int, object]) -> dict[str, Any]:
    """Return a series of a response of Prometheus; times are seconds after BEGIN."""
    given = {key.replace(".", "_"): value for key, value in labels.items()}
    metric = {"__name__": name, "instance": "node:9400", "job": "obi"} | given
    return {"metric": metric, "values": [[SECONDS + at, str(size)] for at, size in samples]}


def response(path: Path, *several: dict[str, Any]) -> None:
    data = {"resultType": "matrix", "result": list(several)}
    text(path, [json.dumps({"status": "success", "data": data})])


def prometheus(root: Path) -> list[Record]:
    """A reset, a sample in two files, ports of all sorts, a single sample, other metrics."""
    flows, port = "obi_network_flow_bytes_total", {"server.port": "9092", "obi.ip": "10.0.0.9"}
    ports = {"src.port": "40000", "dst.port": "9092", "iface": "eth0", "iface.direction": "egress"}
    response(
        root / "10.json",
        series(flows, FROM_BROKER | port, (0, 1_000), (60, 6_000), (120, 7), (180, 7)),
        series("beyla_network_flow_bytes_total", TO_BROKER | ports, (0, 10), (60, 710)),
        series(flows, TO_BROKER | port | {"client.port": "5"}, (30, 10**9)),
        series("up", {}, (0, 1), (60, 1)),
    )
    response(root / "11.json", series(flows, FROM_BROKER | port, (180, 7), (240, 10)))
    response(
        root / "12.json",
        series("obi_network_inter_zone_bytes_total", {"src.zone": "a", "dst.zone": "b"}, (0, 1)),
    )
    response(root / "13.json")
    fetched = FETCHED | {"destination_port": None, "reporter": "10.0.0.9/obi/node:9400"}
    times = [
        {"start": (SECONDS + at) * 10**6, "end": (SECONDS + at + 60) * 10**6} for at in (60, 180)
    ]
    sent = reverse(FETCHED) | {"bytes": 700, "reporter": "eth0/egress/obi/node:9400"}
    return [fetched, fetched | times[0] | {"bytes": 7}, fetched | times[1] | {"bytes": 3}, sent]


def otlp(root: Path) -> list[Record]:
    """Two agents count the same flow; a histogram beside it."""

    def line(host: str, second: int, size: int, labels: dict[str, Any], temporality: int) -> str:
        attributes = [
            {"key": key, "value": {"intValue" if isinstance(value, int) else "stringValue": value}}
            for key, value in labels.items()
        ]
        time = str((SECONDS + second) * 10**9)
        point = {"attributes": attributes, "startTimeUnixNano": "1", "timeUnixNano": time}
        total = {"dataPoints": [point | {"asInt": str(size)}], "isMonotonic": True}
        metrics = [
            {"name": "http.server.request.duration", "histogram": {"dataPoints": [{"count": "1"}]}},
            {"name": "obi.network.flow.bytes", "unit": "{bytes}"}
            | {"sum": total | {"aggregationTemporality": temporality}},
        ]
        resource = {"attributes": [{"key": "host.id", "value": {"stringValue": host}}]}
        scope = {"scope": {"name": "network_ebpf_events"}, "metrics": metrics}
        return json.dumps({"resourceMetrics": [{"resource": resource, "scopeMetrics": [scope]}]})

    ports = FROM_BROKER | {"src.port": 9092, "dst.port": 40_000}
    text(
        root / "metrics.jsonl.gz",
        [
            line("h2", 60, 5_000, ports, 2),
            line("h1", 0, 0, ports, 2),
            line("h1", 60, 5_000, ports, 2),
            line("h2", 0, 100, ports, 2),
            line("h2", 0, 100, ports, 1),
        ],
    )
    agent = '{"attributes":[{"key":"host.id","value":{"stringValue":"%s"}}]}'
    second = FETCHED | {"reporter": agent % "h2", "bytes": 4_900}
    return [FETCHED | {"reporter": agent % "h1"}, second]


def reverse(record: Record) -> Record:
    return record | {
        "source_address": record["destination_address"],
        "source_port": record["destination_port"],
        "destination_address": record["source_address"],
        "destination_port": record["source_port"],
    }


@pytest.mark.parametrize(
    ("write", "reason"),
    [
        (aws_text, "the log skipped records (SKIPDATA)"),
        (aws_parquet, None),
        (gcp, "the line is not valid JSON"),
        (azure, None),
        (generic_csv, "end is before start"),
        (generic_json, "bytes is missing or unreadable"),
        (generic_parquet, None),
        (
            prometheus,
            "inter-zone counters have zones only, which do not tell Kafka's traffic from "
            "other traffic: export network flow bytes",
        ),
        (otlp, "the counter has delta temporality: export it as cumulative"),
    ],
)
def test_records_of_a_format(
    spark: SparkSession, tmp_path: Path, write: Callable[[Path], list[Record]], reason: str | None
) -> None:
    expected = write(tmp_path)
    flows = read_flows(spark, str(tmp_path))
    found = [row.asDict() for row in flows.valid.collect()]
    assert sorted(found, key=str) == sorted(
        ({name: record[name] for name in RECORD.names} for record in expected), key=str
    )
    assert [row["reason"] for row in flows.rejected.collect()] == ([reason] if reason else [])


def test_unusable_counters_say_which_attributes_to_switch_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    name = "obi_network_flow_bytes_total"
    by_owner = series(name, {"k8s.src.owner.name": "kafka"}, (0, 1))
    no_ports = series(name, TO_BROKER, (0, 1))
    response(tmp_path / "a.json", by_owner)
    response(tmp_path / "b.json", no_ports)
    rate = {"metric": TO_BROKER, "values": [[SECONDS, "0.5"]]}
    response(tmp_path / "c.json", rate)
    latest = {"metric": no_ports["metric"], "value": [SECONDS, "1"]}
    response(tmp_path / "d.json", latest)
    text(tmp_path / "e.json", ['{"status": "error", "error": "x"}'])
    flows = read_flows(spark, str(tmp_path), "prometheus")
    assert flows.valid.count() == 0
    include = "attributes.select.obi_network_flow_bytes.include (Beyla: beyla_network_flow_bytes)"
    assert sorted(row["reason"] for row in flows.rejected.collect()) == [
        f"the counter has no addresses: add src.address and dst.address to {include}",
        "the counter has no port of a server: add server.port and direction, or src.port and "
        f"dst.port, to {include}",
        "the response has no samples over time: query METRIC[1h]",
        "the response has no samples over time: query METRIC[1h]",
        "the series has no name: query the counter without functions",
    ]


def test_files_without_a_known_format_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    text(tmp_path / "a.csv", ["when,bytes", "1,2"])
    with pytest.raises(InputError, match=r"have none of the formats aws \(srcport"):
        read_flows(spark, str(tmp_path))
    text(tmp_path / "b.json", ["{}"])
    with pytest.raises(InputError, match=r"files of several kinds .* \(json, text\)"):
        read_flows(spark, str(tmp_path))
    with pytest.raises(InputError, match="cannot read the flow records"):
        read_flows(spark, str(tmp_path / "none"))
