from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

# Imported by the fixtures: a missing extra must skip tests, not break the collection.
if TYPE_CHECKING:
    from tests.support.kafka_python import Consumers


@pytest.fixture
def consumers() -> Iterator[Consumers]:
    """Construct KafkaConsumers that never reach a broker, and close them after the test."""
    from tests.support.kafka_python import offline_consumers

    with offline_consumers() as construct:
        yield construct
