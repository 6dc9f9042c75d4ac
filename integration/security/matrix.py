"""What is tested with which mechanism, and which right each part needs, as data.

`docs/security.md` has the same table, which a test compares with this module. A right that is
withheld leaves the user what it implies: without Read there still is Describe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MECHANISMS: Mapping[str, tuple[str | None, str]] = {
    "TLS": (None, "SSL"),
    "PLAIN": ("PLAIN", "SASL_SSL"),
    "SCRAM-SHA-256": ("SCRAM-SHA-256", "SASL_SSL"),
    "SCRAM-SHA-512": ("SCRAM-SHA-512", "SASL_SSL"),
    "OAUTHBEARER": ("OAUTHBEARER", "SASL_SSL"),
    "plaintext": ("PLAIN", "SASL_PLAINTEXT"),
}
"""SASL mechanism and protocol of each listener. TLS: by the client's certificate."""

CLUSTER, TOPIC, GROUP = "the cluster", "the topic", "the group"
OTHER_TOPIC = "the other topic"
PENDING_REPLICAS, CONTROLLERS = "_rackward_pending_replicas", "rackward-controller"
GROUPS = frozenset({GROUP, CONTROLLERS})


@dataclass(frozen=True, order=True)
class Right:
    """An operation of Kafka's ACLs on a resource."""

    operation: str
    on: str

    def __str__(self) -> str:
        return f"{self.operation} on {self.on}"


@dataclass(frozen=True)
class Part:
    """A command or a client.

    ``rights`` maps each right that it needs to a text in its output without that right; in the text
    ``{topic}`` and ``{group}`` stand for the names. ``arguments`` are those of the command; empty:
    of a client, or a process.
    """

    rights: Mapping[Right, str]
    arguments: tuple[str, ...] = ()

    def without(self, withheld: Right) -> set[Right]:
        """Return the rights of a user who lacks that one, with what it would have implied."""
        lesser = {"Describe": None, "DescribeConfigs": None, "Create": None}.get(
            withheld.operation,
            "DescribeConfigs" if withheld.operation == "AlterConfigs" else "Describe",
        )
        rest = set(self.rights) - {withheld}
        return rest | {Right(lesser, withheld.on)} if lesser else rest


def _describe(on: str) -> Right:
    return Right("Describe", on)


_READ_GROUP, _READ_TOPIC = Right("Read", GROUP), Right("Read", TOPIC)
_DESCRIBE_CLUSTER = _describe(CLUSTER)
_TOPIC_CONFIGS, _BROKER_CONFIGS = Right("DescribeConfigs", TOPIC), Right("DescribeConfigs", CLUSTER)
_ALTER_CLUSTER = Right("Alter", CLUSTER)

_ON_GROUP = "grant this user Describe on group {group}"
_ON_TOPIC = "grant this user Describe on {topic}"
_ON_CLUSTER = "grant this user Describe on the cluster"
_CONFIGS = "grant this user DescribeConfigs on {topic}"
_CLUSTER_CONFIGS = "grant this user DescribeConfigs on the cluster"
_SET_CONFIGS = "grant this user AlterConfigs on {topic}"
_SET_CLUSTER_CONFIGS = "grant this user AlterConfigs on the cluster"
_ALTER = "grant this user Alter on the cluster"
_ON_PENDING_REPLICAS = "grant this user Describe on _rackward_pending_replicas"

COMMANDS: Mapping[str, Part] = {
    "audit": Part(
        {
            _describe(GROUP): _ON_GROUP,
            _describe(TOPIC): "missing, or without Describe: 1 topic ({topic})",
            _DESCRIBE_CLUSTER: _ON_CLUSTER,
            _TOPIC_CONFIGS: _CONFIGS,
            _BROKER_CONFIGS: _CLUSTER_CONFIGS,
        },
        ("audit", "{group}"),
    ),
    "groups list": Part(
        {
            _describe(GROUP): _ON_GROUP,
            _describe(TOPIC): "missing, or without Describe: 1 topic ({topic})",
            _DESCRIBE_CLUSTER: _ON_CLUSTER,
            _BROKER_CONFIGS: _CLUSTER_CONFIGS,
        },
        ("groups", "list", "{group}"),
    ),
    "groups explain": Part(
        {
            _describe(GROUP): _ON_GROUP,
            _describe(TOPIC): _ON_TOPIC,
            _BROKER_CONFIGS: _CLUSTER_CONFIGS,
        },
        ("groups", "explain", "{group}"),
    ),
    "groups rebalance": Part(
        {_READ_GROUP: "grant this user Read on group {group}", _describe(TOPIC): _ON_TOPIC},
        ("groups", "rebalance", "{group}", "--yes"),
    ),
    "topics describe": Part(
        {
            _describe(TOPIC): _ON_TOPIC,
            _DESCRIBE_CLUSTER: _ON_CLUSTER,
            _TOPIC_CONFIGS: _CONFIGS,
            _BROKER_CONFIGS: _CLUSTER_CONFIGS,
            Right("Read", PENDING_REPLICAS): "grant this user Read on _rackward_pending_replicas",
        },
        ("topics", "describe", "{topic}"),
    ),
    "topics create": Part(
        {
            Right("Create", TOPIC): "grant this user Create on the cluster, or on the topic",
            _describe(TOPIC): _ON_TOPIC,
        },
        ("topics", "create", "{topic}", "-p", "1", "-r", "2", "--yes"),
    ),
    "topics add-partitions": Part(
        {
            Right("Alter", TOPIC): "grant this user Alter on the topic",
            Right("Read", PENDING_REPLICAS): "grant this user Read on _rackward_pending_replicas",
        },
        ("topics", "add-partitions", "{topic}", "--partitions", "2", "--yes"),
    ),
    "placement check": Part(
        {
            _describe(TOPIC): _ON_TOPIC,
            _DESCRIBE_CLUSTER: _ON_CLUSTER,
            _TOPIC_CONFIGS: _CONFIGS,
            _BROKER_CONFIGS: _CLUSTER_CONFIGS,
            Right("Read", PENDING_REPLICAS): "grant this user Read on _rackward_pending_replicas",
        },
        ("placement", "check", "--topics", "{topic}", "--fail-on", "never"),
    ),
    "placement plan": Part(
        {_describe(TOPIC): _ON_TOPIC, _DESCRIBE_CLUSTER: _ON_CLUSTER},
        ("placement", "plan", "--topics", "{topic}", "-r", "1", "-o", "{file}"),
    ),
    "placement apply": Part(
        {
            _describe(TOPIC): _ON_TOPIC,
            _ALTER_CLUSTER: _ALTER,
            Right("AlterConfigs", TOPIC): _SET_CONFIGS,
            Right("AlterConfigs", CLUSTER): _SET_CLUSTER_CONFIGS,
        },
        ("placement", "apply", "{moves}", "--throttle", "50MB", "--yes"),
    ),
    "placement cancel": Part(
        {
            _describe(TOPIC): _ON_TOPIC,
            _DESCRIBE_CLUSTER: _ON_CLUSTER,
            _BROKER_CONFIGS: _CLUSTER_CONFIGS,
        },
        ("placement", "cancel", "{moves}", "--yes"),
    ),
    "placement throttle": Part({_BROKER_CONFIGS: _CLUSTER_CONFIGS}, ("placement", "throttle")),
    "leaders plan": Part(
        {
            _describe(GROUP): _ON_GROUP,
            _describe(TOPIC): "({topic}): grant this user Describe on them",
            _DESCRIBE_CLUSTER: _ON_CLUSTER,
        },
        ("leaders", "plan", "{group}", "-o", "{file}"),
    ),
    "leaders apply": Part(
        {_describe(TOPIC): _ON_TOPIC, _ALTER_CLUSTER: _ALTER, _BROKER_CONFIGS: _CLUSTER_CONFIGS},
        ("leaders", "apply", "{leaders}", "--yes"),
    ),
    "traffic collect": Part(
        {
            _describe(GROUP): _ON_GROUP,
            _describe(TOPIC): "({topic}): grant this user Describe on them",
            _DESCRIBE_CLUSTER: _ON_CLUSTER,
            _BROKER_CONFIGS: _CLUSTER_CONFIGS,
        },
        ("traffic", "collect", "--once", "--groups", "{group}", "--output", "{file}"),
    ),
}
"""The commands that end by themselves."""

_LEADER = "subscribed topic has no metadata yet (unless it is new, grant this user Describe on it)"

_PYTHON_CLIENT = Part(
    {
        _READ_GROUP: "GroupAuthorizationFailedError: {group}",
        _READ_TOPIC: "TopicAuthorizationFailedError: {{'{topic}'}}",
        _describe(OTHER_TOPIC): _LEADER,
    }
)
PROCESSES: Mapping[str, Part] = {
    "kafka-python": _PYTHON_CLIENT,
    "confluent": Part(
        {
            _READ_GROUP: "GROUP_AUTHORIZATION_FAILED",
            _READ_TOPIC: "TOPIC_AUTHORIZATION_FAILED",
            _describe(OTHER_TOPIC): _LEADER,
        }
    ),
    "aiokafka": _PYTHON_CLIENT,
    "nearest replica": Part({_READ_TOPIC: "TopicAuthorizationFailedError: {{'{topic}'}}"}),
    "lead": Part({_READ_GROUP: "grant this user Read on the group", _describe(TOPIC): _LEADER}),
    "controller": Part(
        {
            Right("Read", CONTROLLERS): "grant this user Read on group rackward-controller",
            Right("Read", PENDING_REPLICAS): "grant this user Read on _rackward_pending_replicas",
            Right(
                "DescribeConfigs", PENDING_REPLICAS
            ): f"grant this user DescribeConfigs on {PENDING_REPLICAS}",
            _DESCRIBE_CLUSTER: _ON_CLUSTER,
        }
    ),
}
"""Consumers with rackward's assignors, and the processes that run until they are stopped."""

PARTS = {**COMMANDS, **PROCESSES}


def shown_name(part: str) -> str:
    """Return a part's name in Markdown: commands as code."""
    return f"`{part}`" if part in COMMANDS or part in ("lead", "controller") else part


def table() -> str:
    """Return the table of the documentation."""
    columns = (GROUP, TOPIC, CLUSTER)
    lines = ["| part | group | topic | cluster | other |", "|---|---|---|---|---|"]
    for name, part in PARTS.items():
        cells = [
            ", ".join(right.operation for right in part.rights if right.on == column)
            for column in columns
        ]
        others = ", ".join(str(right) for right in part.rights if right.on not in columns)
        lines.append(f"| {' | '.join([shown_name(name), *cells, others])} |")
    return "\n".join(lines)
