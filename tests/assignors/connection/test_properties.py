"""Properties files as Java reads them, lists of servers, and secrets."""

from __future__ import annotations

import pytest

from assignors.connection import ConnectionPropertyError, read_properties, server_list
from rackward.testing.broker_config import format_properties

TEXT = r"""
# a comment = ignored
  ! another
security.protocol=SASL_SSL
sasl.mechanism : PLAIN
client.id	tab separated
empty=
alone
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
    username="alice" \
    # not a comment: the line is continued
  password="a=b:c";
odd.name\=with\:signs\ and\ blanks = value
caf\u00e9=\u00e9\t\n\\ \q
windows=C:\\certs\\ca.pem
twice=1
twice=2
trailing=blank 
ends.in.a.backslash=x\\
last=\
"""


def test_every_form_of_a_line() -> None:
    assert read_properties(TEXT) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "client.id": "tab separated",
        "empty": "",
        "alone": "",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="alice" # not a comment: the line is continued'
        ),
        "password": '"a=b:c";',
        "odd.name=with:signs and blanks": "value",
        "café": "é\t\n\\ q",
        "windows": r"C:\certs\ca.pem",
        "twice": "2",
        "trailing": "blank ",
        "ends.in.a.backslash": "x\\",
        "last": "",
    }


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_system(line_end: str) -> None:
    text = f"\ufeffa=1{line_end}# no{line_end}b=\\{line_end}   2"
    assert read_properties(text) == {"a": "1", "b": "2"}


def test_rendered_broker_properties_are_read_back() -> None:
    properties = {"a=b": "  =x:# é€\t", "#c": "\\", "d": "!", "e": "\n1\r\f"}
    assert read_properties(format_properties(properties)) == properties


def test_an_invalid_escape_is_reported_without_the_value() -> None:
    with pytest.raises(ConnectionPropertyError) as caught:
        read_properties("sasl.password=hunter2\\u00g1")
    assert str(caught.value).startswith(r"sasl.password: \u is not followed by four")
    assert "hunter2" not in str(caught.value)


def test_server_list() -> None:
    assert server_list("SASL_SSL://a.example:9092 , [::1]:9093,10.0.0.1:65535") == (
        "a.example:9092",
        "[::1]:9093",
        "10.0.0.1:65535",
    )


@pytest.mark.parametrize(
    "text", ["a:0", "a:65536", "a:b", ":9092", "::1:9092", "a b:9092", "http://a:1/path"]
)
def test_an_entry_that_is_not_host_and_port_is_refused(text: str) -> None:
    with pytest.raises(ConnectionPropertyError, match=r"--bootstrap-server: .*host:port"):
        server_list(text, "--bootstrap-server")
