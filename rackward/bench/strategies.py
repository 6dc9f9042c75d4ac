"""The strategies that are compared."""

from __future__ import annotations

from collections.abc import Sequence

from rackward.bench import BenchError
from rackward.measurement.strategies import Client, Strategy

OURS = "leader-rack-aware-cooperative-sticky"
OUR_RANGE = "leader-rack-aware-range"


def _strategies() -> list[Strategy]:
    python, confluent, java = Client.KAFKA_PYTHON, Client.CONFLUENT, Client.JAVA
    found = [
        Strategy(f"kafka-python-{name}", f"kafka-python {name}", python, name)
        for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
    ]
    classic = ("range", "roundrobin", "cooperative-sticky")
    found += [
        Strategy(f"confluent-{name}", f"confluent {name}", confluent, name) for name in classic
    ]
    found += [
        Strategy(f"java-{name}", f"Java {name}, client.rack (KIP-881)", java, name, sends_rack=True)
        for name in ("range", "cooperative-sticky")
    ]
    found += [
        Strategy(
            f"brokers-{name}",
            f"brokers' {name} (KIP-848)",
            confluent,
            name,
            sends_rack=True,
            by_brokers=True,
        )
        for name in ("uniform", "range")
    ]
    found += [
        Strategy("rackward-kafka-python", "rackward, kafka-python", python, OURS, is_rackward=True),
        Strategy(
            "rackward-range", "rackward Range, kafka-python", python, OUR_RANGE, is_rackward=True
        ),
        Strategy("rackward-confluent", "rackward, confluent", confluent, OURS, is_rackward=True),
        Strategy(
            "rackward-aiokafka", "rackward, aiokafka", Client.AIOKAFKA, OURS, is_rackward=True
        ),
        Strategy(
            "rackward-led-java",
            "rackward lead, Java",
            java,
            "cooperative-sticky",
            is_rackward=True,
            sends_rack=True,
            led=True,
        ),
        Strategy(
            "rackward-led-confluent",
            "rackward lead, confluent",
            confluent,
            "cooperative-sticky",
            is_rackward=True,
            sends_rack=True,
            led=True,
        ),
        Strategy(
            "rackward-layout",
            "rackward after a leader layout",
            python,
            OURS,
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
    ]
    found += [
        Strategy(
            f"followers-confluent-{name}",
            f"confluent {name}, follower fetching",
            confluent,
            name,
            sends_rack=True,
            follower_fetching=True,
        )
        for name in classic
    ]
    found += [
        Strategy(
            "followers-java-cooperative-sticky",
            "Java cooperative-sticky, follower fetching",
            java,
            "cooperative-sticky",
            sends_rack=True,
            follower_fetching=True,
        )
    ]
    return found


STRATEGIES: dict[str, Strategy] = {each.key: each for each in _strategies()}


def select_strategies(keys: Sequence[str] | None) -> list[Strategy]:
    """Return the strategies with these keys; None: all. Raises BenchError for an unknown key."""
    if keys is None:
        return list(STRATEGIES.values())
    for key in keys:
        if key not in STRATEGIES:
            raise BenchError(f"there is no strategy {key!r}: give one of {', '.join(STRATEGIES)}")
    return [STRATEGIES[key] for key in dict.fromkeys(keys)]


def batches(strategies: Sequence[Strategy], size: int) -> list[list[Strategy]]:
    """Divide strategies into those that run at the same time on one cluster, at most ``size``.

    Those that need other leaders run apart. Those that need a replica selector run apart from
    others whose clients may send a rack, which it would change; the rest run with either. Batches
    have equal numbers of strategies, and of Java processes, as far as that allows.
    """
    laid_out, with_selector, without, either = [], [], [], []
    for each in sorted(strategies, key=lambda each: each.client is not Client.JAVA):
        if each.leader_layout:
            laid_out.append(each)
        elif each.follower_fetching:
            with_selector.append(each)
        elif each.is_rackward or each.sends_rack:
            without.append(each)
        else:
            either.append(each)
    selecting = _empty_batches(len(with_selector), size)
    number = len(with_selector) + len(without) + len(either)
    plain = _empty_batches(max(len(without), number - len(selecting) * size), size)
    for kind, possible in (
        (without, plain),
        (with_selector, selecting),
        (either, [*plain, *selecting]),
    ):
        for each in kind:
            min(possible, key=len).append(each)
    apart = [laid_out[start : start + size] for start in range(0, len(laid_out), size)]
    return [*plain, *apart, *selecting]


def _empty_batches(strategies: int, size: int) -> list[list[Strategy]]:
    return [[] for _ in range(-(-max(0, strategies) // size))]
