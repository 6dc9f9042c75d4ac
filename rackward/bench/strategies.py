"""The strategies that are compared: a client, its assignor, and who decides what it reads."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rackward.bench import BenchError

COOPERATIVE_STICKY = "leader-rack-aware-cooperative-sticky"
RANGE = "leader-rack-aware-range"


class Client(Enum):
    """A client library."""

    KAFKA_PYTHON = "kafka-python"
    CONFLUENT = "confluent"
    AIOKAFKA = "aiokafka"
    JAVA = "Java"


class Producers(Enum):
    """Who chooses the partition of a record."""

    FIXED = "fixed"
    """The benchmark: each partition gets its share, whatever its leader."""
    STOCK = "kafka-python's partitioner"
    RACKWARD = "rackward's partitioner"
    JAVA = "Java's partitioner with partitioner.rack.aware (KIP-1123)"


@dataclass(frozen=True, slots=True)
class Strategy:
    """How producers and the members of a group are configured, and who decides what they read.

    key, title
        Identifies it in results, group ids and log files, and names it in tables.
    client, assignor
        The library, and the assignor as the library's configuration has it.
    is_rackward
        Whether the assignor is rackward's, so that assignments are compared with the optimum.
    by_brokers
        Whether brokers assign (KIP-848); ``assignor`` is then that of the brokers.
    led
        Whether ``rackward lead`` assigns.
    follower_fetching
        Whether brokers have the RackAwareReplicaSelector (KIP-392).
    nearest
        Whether members choose the nearest replica themselves.
    leader_layout
        Whether leaders were moved before: to the racks of the members, and of the producers unless
        these are fixed.
    producers
        Who chooses partitions. Fixed, the strategies of a batch read the same records; otherwise a
        strategy has topics of its own.
    balance
        What members have equal numbers of, as rackward's assignor has it.
    """

    key: str
    title: str
    client: Client
    assignor: str
    is_rackward: bool = False
    by_brokers: bool = False
    led: bool = False
    follower_fetching: bool = False
    nearest: bool = False
    leader_layout: bool = False
    producers: Producers = Producers.FIXED
    balance: str = "partitions"

    @property
    def sends_rack(self) -> bool:
        """Whether members have ``client.rack``, or the rack of rackward's assignors."""
        return (
            self.client is Client.JAVA
            or self.by_brokers
            or self.follower_fetching
            or self.is_rackward
        )

    @property
    def reads_followers(self) -> bool:
        """Whether members read the replica in their rack."""
        return self.follower_fetching or self.nearest


_PYTHON, _CONFLUENT, _AIOKAFKA, _JAVA = Client
_RACKWARD = functools.partial(Strategy, is_rackward=True)
_FOLLOWERS = functools.partial(Strategy, follower_fetching=True)
_LED = functools.partial(_RACKWARD, assignor="cooperative-sticky", led=True)
_OWN = functools.partial(_RACKWARD, client=_PYTHON, assignor=COOPERATIVE_STICKY)
_STOCK = functools.partial(Strategy, client=_PYTHON, assignor="cooperative-sticky")
_STRATEGIES = [
    *(
        Strategy(f"kafka-python-{name}", f"kafka-python {name}", _PYTHON, name)
        for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
    ),
    *(
        Strategy(f"confluent-{name}", f"confluent {name}", _CONFLUENT, name)
        for name in ("range", "roundrobin", "cooperative-sticky")
    ),
    *(
        Strategy(f"java-{name}", f"Java {name}, client.rack (KIP-881)", _JAVA, name)
        for name in ("range", "cooperative-sticky")
    ),
    *(
        Strategy(f"brokers-{name}", f"brokers' {name} (KIP-848)", _CONFLUENT, name, by_brokers=True)
        for name in ("uniform", "range")
    ),
    _OWN("rackward-kafka-python", "rackward, kafka-python"),
    _RACKWARD("rackward-range", "rackward Range, kafka-python", _PYTHON, RANGE),
    _RACKWARD("rackward-confluent", "rackward, confluent", _CONFLUENT, COOPERATIVE_STICKY),
    _RACKWARD("rackward-aiokafka", "rackward, aiokafka", _AIOKAFKA, COOPERATIVE_STICKY),
    _LED("rackward-led-java", "rackward lead, Java", _JAVA),
    _LED("rackward-led-confluent", "rackward lead, confluent", _CONFLUENT),
    _OWN("rackward-layout", "rackward after a leader layout", leader_layout=True),
    _STOCK("rackward-nearest", "rackward's nearest replica, kafka-python", nearest=True),
    *(
        _FOLLOWERS(
            f"followers-confluent-{name}", f"confluent {name}, follower fetching", _CONFLUENT, name
        )
        for name in ("range", "roundrobin", "cooperative-sticky")
    ),
    _FOLLOWERS(
        "followers-java-cooperative-sticky",
        "Java cooperative-sticky, follower fetching",
        _JAVA,
        "cooperative-sticky",
    ),
    _STOCK(
        "producers-stock",
        "kafka-python's partitioner and cooperative-sticky",
        producers=Producers.STOCK,
    ),
    _OWN(
        "producers-java",
        "Java's rack-aware partitioner (KIP-1123), rackward's assignor",
        producers=Producers.JAVA,
    ),
    _OWN(
        "producers-rackward",
        "rackward's partitioner and assignor",
        producers=Producers.RACKWARD,
    ),
    _OWN(
        "producers-layout",
        "rackward's, after a leader layout",
        producers=Producers.RACKWARD,
        leader_layout=True,
    ),
    _OWN(
        "producers-bytes",
        "rackward's, after a leader layout, members even in bytes",
        producers=Producers.RACKWARD,
        leader_layout=True,
        balance="bytes",
    ),
]

STRATEGIES: dict[str, Strategy] = {strategy.key: strategy for strategy in _STRATEGIES}


def select_strategies(keys: Sequence[str] | None) -> list[Strategy]:
    """Return the strategies with these keys; None: all. Raises BenchError for an unknown key."""
    if keys is None:
        return list(STRATEGIES.values())
    for key in keys:
        if key not in STRATEGIES:
            raise BenchError(f"there is no strategy {key!r}: give one of {', '.join(STRATEGIES)}")
    return [STRATEGIES[key] for key in dict.fromkeys(keys)]
