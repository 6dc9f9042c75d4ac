"""Run confluent-kafka-python's own consumer tests with confluent's consumers and with rackward's.

    git clone --branch v2.15.0 URL  # of the public repository confluentinc/confluent-kafka-python
    pip install 'confluent-kafka[avro,json,protobuf,schemaregistry]' respx requests-mock
    python -m integration.confluent.upstream_tests confluent-kafka-python

Nothing of that repository is copied: a plug-in of pytest replaces the classes before the tests
import them. Each run has a Kafka of its own, with one broker, and tests that need a schema registry
use the one in memory that confluent-kafka has. The exit status is 1 if a test passes with
confluent's consumers and not with rackward's, without a reason in `REASONS` or `TIMING`, or if no
test needs a reason of `REASONS`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from rackward.testing import LocalCluster

SOURCES = Path(__file__).parents[2]
TEST_SECONDS = 90
"""A test that takes longer fails, and the file goes on in a new process after it."""

TOPIC = "upstream"
PACKAGES = ("authlib", "fastavro", "httpx", "jsonschema", "requests", "respx")
VARIANTS = ("confluent", "rackward")

FILES: dict[str, tuple[str, ...]] = {
    "tests/test_Consumer.py": (),
    "tests/test_AIOConsumer.py": (),
    "tests/test_Wakeable.py": ("-k", "consumer"),
    "tests/test_log.py": ("-k", "consumer"),
    "tests/test_oauth_cb.py": (),
    "tests/test_misc.py": ("-k", "error_cb or stats_cb or sasl"),
    "tests/test_Producer.py": ("-k", "test_transaction_api or test_uninitialized_producer_methods"),
    "tests/integration/consumer": (),
    "tests/integration/producer": (),
    "tests/integration/serialization": (),
    "tests/integration/schema_registry/_sync/test_avro_serializers.py": (),
    "tests/integration/schema_registry/_sync/test_json_serializers.py": (),
    "tests/integration/schema_registry/_sync/test_proto_serializers.py": (),
    "tests/integration/schema_registry/_async": ("-k", "serializers"),
    "tests/integration/integration_test.py": (
        "-o",
        "python_functions=verify_producer verify_consumer verify_batch_consumer verify_stats_cb",
        "-k",
        "not performance and not seek",
    ),
}
"""Files that use a consumer, with the arguments of pytest that select their tests."""

_MOCKED = (
    "replaces confluent_kafka.Consumer by a mock, which rackward's AIOConsumer does not construct"
)
_AIO = "tests/test_AIOConsumer.py::TestAIOConsumer::"
REASONS: dict[str, str] = {
    f"{_AIO}test_poll_success": _MOCKED,
    f"{_AIO}test_consume_success": _MOCKED,
    f"{_AIO}test_subscribe_with_callbacks": _MOCKED,
    f"{_AIO}test_multiple_concurrent_operations": _MOCKED,
    f"{_AIO}test_concurrent_operations_error_handling": _MOCKED,
    f"{_AIO}test_network_error_handling": _MOCKED,
}
"""Why a test of confluent's cannot pass with rackward's, by a pattern of its id."""

_ERROR_AT_CLOSE = (
    "close() raises if error_cb raises meanwhile, as confluent's does a second later: rackward's"
    " takes longer, so that a connection error is often reported meanwhile"
)
TIMING = {
    "tests/test_Consumer.py::test_callback_exception_no_system_error": _ERROR_AT_CLOSE,
    "tests/test_Consumer.py::test_error_callback_exception_different_error_types": _ERROR_AT_CLOSE,
}
"""Why a test of confluent's fails with rackward's in some runs."""

NOT_RUN = {
    "tests/oauthbearer/aws": "needs boto3, and rackward's takes tokens of AWS from oauth_cb only",
    "tests/*share_consumer*, tests/test_*Share*": "share consumers, of which rackward has none",
    "tests/integration/admin": "needs a broker with an authorizer; tests the admin client",
    "tests/ducktape": "measures throughput, and needs ducktape and its containers",
    "tests/soak": "no tests: a client that runs for days",
}
"""Files with consumers that are not run at all, for either consumer."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a test: passed, failed or skipped, and the first line of its error."""

    kind: str
    error: str = ""


NOT_FINISHED = Outcome("failed", f"not finished within {TEST_SECONDS} s")


def run_files(variant: str, checkout: Path, only: str) -> dict[str, Outcome]:
    """Return the outcome of each test by its id, with the consumers of one variant."""
    outcomes: dict[str, Outcome] = {}
    properties = {
        "auto.create.topics.enable": "true",
        "group.min.session.timeout.ms": "6000",
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(("a",), server_properties=properties) as cluster,
    ):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 3, 1)])[TOPIC].result(60)
        results = Path(folder, "results")
        environment = {
            **os.environ,
            "BROKERS": cluster.bootstrap_servers,
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join((str(checkout), str(SOURCES))),
            "UPSTREAM_CONSUMERS": variant,
            "UPSTREAM_RESULTS": str(results),
            "UPSTREAM_SECONDS": str(TEST_SECONDS),
            "UPSTREAM_TOPIC": TOPIC,
        }
        for file, arguments in FILES.items():
            if not fnmatchcase(file, only):
                continue
            results.write_text("")
            found: dict[str, Outcome] = {}
            while True:
                done = [option for test in found for option in ("--deselect", test)]
                _run_pytest(checkout, environment, file, *arguments, *done)
                before, found = found, read_outcomes(results.read_text().splitlines())
                if NOT_FINISHED not in found.values() or found.keys() == before.keys():
                    break
            print(f"{variant:9} {file}: {_counts(found)}", file=sys.stderr, flush=True)
            outcomes |= found
    return outcomes


def _run_pytest(checkout: Path, environment: Mapping[str, str], *arguments: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "integration.confluent.upstream_plugin"]
    # Not in the process group of this script: tests send SIGINT.
    subprocess.run(
        [*command, "-p", "no:cacheprovider", "--rootdir", str(checkout), *arguments],
        cwd=checkout,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )


def read_outcomes(lines: Iterable[str]) -> dict[str, Outcome]:
    """Return the outcome of each test that began; of several reports, the one that is no pass."""
    outcomes: dict[str, Outcome] = {}
    for line in lines:
        test, kind, error = json.loads(line)
        if kind == "started":
            outcomes.setdefault(test, NOT_FINISHED)
        elif kind != "passed" or outcomes.get(test, NOT_FINISHED) == NOT_FINISHED:
            outcomes[test] = Outcome(kind, error)
    return outcomes


def reason_for(test: str, reasons: Mapping[str, str]) -> str | None:
    """Return the reason in the table why a test does not apply."""
    return next((text for pattern, text in reasons.items() if fnmatchcase(test, pattern)), None)


def judge(
    stock: Mapping[str, Outcome],
    rackwards: Mapping[str, Outcome],
    reasons: Mapping[str, str],
    timing: Mapping[str, str],
) -> list[str]:
    """Return what is wrong: tests that fail with rackward's alone, and reasons without such a test.

    Only reasons of ``timing`` may be without one.
    """
    problems = []
    used = set()
    for test, outcome in stock.items():
        if outcome.kind != "passed" or rackwards.get(test, NOT_FINISHED).kind == "passed":
            continue
        used |= {pattern for pattern in reasons if fnmatchcase(test, pattern)}
        if reason_for(test, {**reasons, **timing}) is None:
            problems.append(
                f"{test} fails with rackward's: {rackwards.get(test, NOT_FINISHED).error}"
            )
    problems += [f"no test needs the reason for {each}" for each in reasons if each not in used]
    return problems


def print_table(stock: Mapping[str, Outcome], rackwards: Mapping[str, Outcome]) -> None:
    """Print each test with both outcomes, and with the reason if rackward's does not pass."""
    width = min(100, max(len(test) for test in stock))
    print(f"{'test':{width}}  stock    rackward reason")
    for test, outcome in stock.items():
        own = rackwards.get(test, NOT_FINISHED)
        note = (
            ""
            if own.kind == "passed"
            else reason_for(test, {**REASONS, **TIMING}) or own.error or ""
        )
        print(f"{test[:width]:{width}}  {outcome.kind:7}  {own.kind:8}  {note}".rstrip())
    for file, reason in NOT_RUN.items():
        print(f"{file:{width}}  not run  not run  {reason}")
    passed = [test for test, outcome in stock.items() if outcome.kind == "passed"]
    both = [test for test in passed if rackwards.get(test, NOT_FINISHED).kind == "passed"]
    print(f"\n{len(stock)} tests: {len(passed)} pass with confluent's consumers, of these", end=" ")
    print(f"{len(both)} with rackward's, and {len(passed) - len(both)} do not")


def _counts(outcomes: Mapping[str, Outcome]) -> str:
    kinds = [outcome.kind for outcome in outcomes.values()]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds))) or "no tests"


def main() -> None:
    """Run the tests twice and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="folder of confluent-kafka-python's checkout")
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="files to run, for example 'tests/test_C*'"
    )
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    if not (checkout / "tests/test_Consumer.py").is_file():
        parser.error(f"{checkout} has no tests/test_Consumer.py: give a checkout, see --help")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # As in the background of a shell without job control: the tests of Ctrl-C would hang.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        parser.error(f"packages are missing: {', '.join(missing)}. See --help")
    stock, rackwards = (run_files(variant, checkout, options.only) for variant in VARIANTS)
    print_table(stock, rackwards)
    run = {pattern: text for pattern, text in REASONS.items() if fnmatchcase(pattern, options.only)}
    if problems := judge(stock, rackwards, run, TIMING):
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
