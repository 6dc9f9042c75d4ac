"""What the leader of a consumer group does in a rebalance, for any client library.

An adapter reads the members' subscriptions (:mod:`assignors.encoding`) and its client's
metadata, calls :meth:`~assignors.group_leader.rebalance.Leadership.assign`, and sends the
assignments that it returns. Here is only what members that do not lead need as well, and so
without numpy.
"""

from assignors.group_leader.logs import (
    GroupContext,
    LogOnce,
    format_error,
    format_list,
    format_traceback,
    log,
    sanitize,
)
from assignors.group_leader.metadata import Leaders, is_topic_name

__all__ = [
    "GroupContext",
    "Leaders",
    "LogOnce",
    "format_error",
    "format_list",
    "format_traceback",
    "is_topic_name",
    "log",
    "sanitize",
]
