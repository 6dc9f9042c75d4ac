"""The connection options of ``rackward traffic stream``."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_core import InvalidOptionError
from rackward.cli.traffic.pipeline import _consumer_properties


def test_a_latin_1_file_with_names_of_librdkafka(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_bytes(
        b"# d\xe9faut\nmetadata.broker.list=one:9092\nsasl.mechanisms=PLAIN\n"
        b"sasl.username=me\nsasl.password=p\xe4ss\n"
    )
    assert _consumer_properties(None, config) == {
        "bootstrap.servers": "one:9092",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="päss";',
    }


def test_the_option_overrides_the_servers_of_the_file(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    for name in ("bootstrap.servers", "metadata.broker.list"):
        config.write_text(f"{name}=one:9092\n")
        assert _consumer_properties("two:9092", config) == {"bootstrap.servers": "two:9092"}


def test_an_unknown_property_names_the_file(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("sasl.usrname=me\nsasl.password=hunter2\n")
    with pytest.raises(InvalidOptionError) as caught:
        _consumer_properties("one:9092", config)
    assert str(caught.value).startswith(f"--command-config {config}: sasl.usrname: ")
    assert "did you mean sasl.username?" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_without_a_broker_it_is_an_error() -> None:
    with pytest.raises(InvalidOptionError, match="give --bootstrap-server HOST:PORT"):
        _consumer_properties(None, None)
