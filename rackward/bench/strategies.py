"""The strategies that are compared: a client, its assignor, and who decides what it reads."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True)
class Strategy:
    """How the members of a group are configured, and what else decides what they read.

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
        Whether leaders were moved to the racks of the members before.
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


def _strategies() -> list[Strategy]:
    python, confluent, aiokafka, java = Client
    classic = ("range", "roundrobin", "cooperative-sticky")
    return [
        *(
            Strategy(f"kafka-python-{name}", f"kafka-python {name}", python, name)
            for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
        ),
        *(Strategy(f"confluent-{name}", f"confluent {name}", confluent, name) for name in classic),
        *(
            Strategy(f"java-{name}", f"Java {name}, client.rack (KIP-881)", java, name)
            for name in ("range", "cooperative-sticky")
        ),
        *(
            Strategy(
                f"brokers-{name}", f"brokers' {name} (KIP-848)", confluent, name, by_brokers=True
            )
            for name in ("uniform", "range")
        ),
        *(
            Strategy(key, title, client, assignor, is_rackward=True)
            for key, title, client, assignor in (
                ("rackward-kafka-python", "rackward, kafka-python", python, COOPERATIVE_STICKY),
                ("rackward-range", "rackward Range, kafka-python", python, RANGE),
                ("rackward-confluent", "rackward, confluent", confluent, COOPERATIVE_STICKY),
                ("rackward-aiokafka", "rackward, aiokafka", aiokafka, COOPERATIVE_STICKY),
            )
        ),
        *(
            Strategy(
                f"rackward-led-{client.value.lower()}",
                f"rackward lead, {client.value}",
                client,
                "cooperative-sticky",
                is_rackward=True,
                led=True,
            )
            for client in (java, confluent)
        ),
        Strategy(
            "rackward-layout",
            "rackward after a leader layout",
            python,
            COOPERATIVE_STICKY,
            is_rackward=True,
            leader_layout=True,
        ),
        Strategy(
            "rackward-nearest",
            "rackward's nearest replica, kafka-python",
            python,
            "cooperative-sticky",
            nearest=True,
        ),
        *(
            Strategy(
                f"followers-{client.value.lower()}-{name}",
                f"{client.value} {name}, follower fetching",
                client,
                name,
                follower_fetching=True,
            )
            for client, name in (
                *((confluent, name) for name in classic),
                (java, "cooperative-sticky"),
            )
        ),
    ]


STRATEGIES: dict[str, Strategy] = {strategy.key: strategy for strategy in _strategies()}


def select_strategies(keys: Sequence[str] | None) -> list[Strategy]:
    """Return the strategies with these keys; None: all. Raises BenchError for an unknown key."""
    if keys is None:
        return list(STRATEGIES.values())
    for key in keys:
        if key not in STRATEGIES:
            raise BenchError(f"there is no strategy {key!r}: give one of {', '.join(STRATEGIES)}")
    return [STRATEGIES[key] for key in dict.fromkeys(keys)]
