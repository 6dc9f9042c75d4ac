"""Every log call of the client adapters: no text of a peer is logged as it is.

The applications' handlers format these lines, so each value is sanitised where it is logged. The
commands of rackward have a formatter that does it: see tests/rackward/cli/test_console.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import assignors

FOLDER = Path(assignors.__file__).parent
METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
NUMBERS = set("dfgx")

SANITISED = re.compile(r"(sanitize|format_list|format_error|format_traceback)\(")

TRUSTED = {
    # This process's own configuration, or a constant of the code.
    "client_id",
    "self.group_id",
    "coordinator.group_id",
    "self._coordinator.group_id",
    "self._configuration.group_id",
    "self._group",
    "self._topic",
    "self.name",
    "self._rebalance.name",
    "client_rack",
    "rack",
    "resolved",
    "source",
    "consequence",
    "why",
    "reason",
    # Node ids of brokers: integers of the protocol.
    "broker",
    "previous",
    "replica",
    # Sanitised or validated when constructed: GroupContext, MetadataPending, rack_mismatch(),
    # the log line of an Assignment, and what rack sources return.
    "context",
    "pending",
    "mismatch",
    "self.history.record(assignment)",
    "failure.source",
    "failure.reason",
    "result.rack",
    "result.source",
    "'starts without a rack' if result.rack is None else f'uses the rack of {result.source}'",
}


def untrusted_arguments(source: str) -> Iterator[str]:
    """Yield each argument of a log call that may be text of a peer, as ``line: expression``."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not _is_log_call(node.func):
            continue
        if getattr(node.func, "attr", "") == "exception" or any(
            keyword.arg in {"exc_info", "stack_info"} for keyword in node.keywords
        ):
            yield f"{node.lineno}: a traceback with the text of its error"
        formats = [
            (index, argument.value)
            for index, argument in enumerate(node.args)
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
        ]
        if not formats:
            yield f"{node.lineno}: the message {ast.unparse(node)}"
            continue
        # LogOnce.log has the cause before the message.
        index, message = formats[-1] if "%" in formats[-1][1] else formats[0]
        specifiers = re.findall(r"%[-+0-9.]*([a-zA-Z])", message.replace("%%", ""))
        values = node.args[index + 1 :]
        if len(values) != len(specifiers):
            yield f"{node.lineno}: {len(specifiers)} specifiers, {len(values)} arguments"
        for specifier, value in zip(specifiers, values, strict=False):
            text = ast.unparse(value)
            if specifier not in NUMBERS and text not in TRUSTED and not SANITISED.match(text):
                yield f"{node.lineno}: {text}"


def _is_log_call(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr in METHODS and "log" in ast.unparse(function.value).lower()
    return isinstance(function, ast.Name) and function.id == "log_once"


MODULES = sorted(
    path for path in FOLDER.rglob("*.py") if path != FOLDER / "group_leader" / "logs.py"
)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_every_logged_value_is_sanitised_or_known_to_be_safe(path: Path) -> None:
    assert list(untrusted_arguments(path.read_text())) == []


@pytest.mark.parametrize(
    "call",
    [
        "log.warning('group=%s: %s', self.group_id, error)",
        "log.debug('topic=%r', topic)",
        "log.info(f'member {member.id}')",
        "log.exception('failed')",
        "log.error('failed', exc_info=error)",
        "log.debug('%s-%d', *tp)",
        "self._log_once.log('cause', '%s', member.id)",
        "log_once(('topic', topic), 'topic=%s', topic)",
    ],
)
def test_raw_text_is_found(call: str) -> None:
    assert list(untrusted_arguments(call))


@pytest.mark.parametrize(
    "call",
    [
        "log.warning('group=%s: %s', self.group_id, format_error(error))",
        "log.debug('%d partitions of %s', count, sanitize(topic))",
        "log_once('many topics', 'topics: %d', len(missing))",
    ],
)
def test_sanitised_text_is_accepted(call: str) -> None:
    assert list(untrusted_arguments(call)) == []
