"""An audit with a group of every kind: all clients, untrusted names, groups without figures."""

from __future__ import annotations

from dataclasses import replace

from rack_traffic.prices import PriceTable
from rackward.groups.audit import audit_reading
from rackward.groups.audit_report import AuditReport
from rackward.groups.host_racks import HostRacks
from rackward.groups.reading import ClusterReading, GroupReading, ReadRates
from rackward.kafka.groups import Group, ListedGroup
from tests.support.described_groups import group, member
from tests.support.simulated_cluster import cluster_state

UNTRUSTED_NAME = "<img src=x onerror=alert(1)>\x1b[31m'&\"-" + "long-" * 20
TOPIC = "orders"
REFUSED = "describing group secret: not authorized: grant this user Describe on group secret"

STATE = cluster_state({TOPIC: [(0, 2, 4)] * 6 + [(2, 4, 0)] * 4 + [(4, 0, 2)] * 2}, tuple("aabbcc"))


def far_group(name: str, client_id: str, protocol: str, type: str = "classic") -> Group:
    """Return a group that reads nothing from its own rack: a member in each of a, b and c."""
    shares = ((6, 7, 8, 9), (0, 1, 10, 11), (2, 3, 4, 5))
    members = (
        member(f"{client_id}-{rack}", rack, {TOPIC: share}, client_id=client_id, can_send_rack=True)
        for rack, share in zip("abc", shares, strict=True)
    )
    return group(*members, id=name, protocol=protocol, type=type)


def audited_cluster() -> ClusterReading:
    """Return six groups of one topic, one of a topic that is gone, and others."""
    groups = [
        far_group("billing", "consumer-billing-1", "range"),
        far_group("fraud", "rdkafka", "cooperative-sticky"),
        far_group("ledger", "kafka-python-3.0.12", "range"),
        far_group("search", "rdkafka", "uniform", "consumer"),
        far_group(UNTRUSTED_NAME, "\x1b[2J<b>", "stream"),
        far_group("rackward", "x", "leader-rack-aware-range"),
    ]
    rackless = far_group("rackless", "consumer-rackless-1", "range")
    rackless = replace(
        rackless, members=tuple(replace(each, rack=None) for each in rackless.members)
    )
    empty = replace(groups[0], id="empty", state="Empty", members=())
    gone = far_group("gone", "consumer-gone-1", "range")
    gone = replace(
        gone,
        members=tuple(
            replace(each, topics=frozenset({"x"}), assignment={"x": (0,)}) for each in gone.members
        ),
    )
    readings = [
        *(
            GroupReading(ListedGroup(each.id, "consumer", each.type, each.state), 0, each)
            for each in (*groups, rackless, empty, gone)
        ),
        GroupReading(ListedGroup("secret", "consumer"), 0, error=REFUSED),
    ]
    return ClusterReading(STATE, tuple(readings), ("broker 5 cannot be reached",))


def audit_report(
    rates: ReadRates | None = None, *, best: bool = True, prices: PriceTable | None = None
) -> AuditReport:
    """Return the audit of `audited_cluster`."""
    rates = rates or ReadRates(written=dict.fromkeys(STATE.view.replicas, 1e6), unsized=3)
    return audit_reading(audited_cluster(), rates, prices or PriceTable(), HostRacks(), best=best)
