"""Increments of the kernel's counters."""

from __future__ import annotations

from rackward.flow_sampling import Connection, Count, Flow, FlowCounter

FLOW = Flow("10.0.0.1", 40000, "10.0.1.1", 9092)


def connection(sent: int, received: int, key: str = "1") -> Connection:
    return Connection(
        key.encode(), FLOW, Count(sent, sent // 100), Count(received, received // 100)
    )


def taken(counter: FlowCounter) -> tuple[int, int]:
    """Return the bytes of both directions."""
    grown = counter.take()
    return grown[FLOW].bytes, grown[FLOW.reverse()].bytes


def test_only_growth_counts() -> None:
    counter = FlowCounter([connection(1000, 500)])
    counter.listed([connection(1700, 500)])
    assert counter.take() == {FLOW: Count(700, 7)}
    counter.listed([connection(1700, 900)])
    assert counter.take() == {FLOW.reverse(): Count(400, 4)}
    counter.listed([connection(1700, 900)])
    assert counter.take() == {}


def test_a_connection_of_two_reads_counts_from_zero() -> None:
    counter = FlowCounter([])
    counter.listed([connection(300, 200)])
    assert taken(counter) == (300, 200)


def test_last_bytes_of_an_ended_connection_count() -> None:
    counter = FlowCounter([connection(1000, 0)])
    counter.ended([connection(1500, 100)])
    counter.ended([connection(200, 300, "opened and ended in between")])
    counter.listed([])
    assert taken(counter) == (700, 400)


def test_reused_ports_are_another_connection() -> None:
    counter = FlowCounter([connection(1000, 1000)])
    counter.ended([connection(1100, 1000)])
    counter.listed([connection(5000, 100, "2")])
    assert taken(counter) == (5100, 100)
    # The kernel may give a key again.
    counter.ended([connection(5000, 100, "2")])
    counter.listed([connection(6000, 200, "2")])
    assert taken(counter) == (6000, 200)
    # Or without the final counters: then the smaller ones show it.
    counter.listed([connection(100, 300, "2")])
    assert taken(counter) == (100, 300)


def test_a_connection_removed_without_its_end_is_forgotten() -> None:
    counter = FlowCounter([connection(1000, 100)])
    counter.listed([])
    counter.listed([connection(1200, 200)])
    assert taken(counter) == (1200, 200)


def test_connections_without_counters_are_left_out() -> None:
    uncounted = Connection(b"1", FLOW, None, None)
    counter = FlowCounter([uncounted])
    counter.listed([uncounted])
    counter.ended([uncounted])
    assert counter.take() == {}
