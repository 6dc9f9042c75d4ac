"""Java properties files, as Java reads them."""

from __future__ import annotations

import pytest

from assignors.connection import ConnectionPropertyError, read_properties
from rackward.clusters.broker_config import render

TEXT = r"""
# a comment = of no importance
  ! another
security.protocol=SASL_SSL
sasl.mechanism : PLAIN
client.id	tab separated
empty=
alone
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
    username="alice" \
    # this is no comment: the line goes on
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


def test_every_form_that_a_line_may_have() -> None:
    assert read_properties(TEXT) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "client.id": "tab separated",
        "empty": "",
        "alone": "",
        "sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="alice" # this is no comment: the line goes on'
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


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_lines_end_as_on_any_system(ends: str) -> None:
    assert read_properties(f"\ufeffa=1{ends}# no{ends}b=\\{ends}   2") == {"a": "1", "b": "2"}


def test_what_is_rendered_for_brokers_reads_back() -> None:
    odd = {"a=b": "  =x:# é€\t", "#c": "\\", "d": "!", "e": "\n1\r\f"}
    assert read_properties(render(odd)) == odd


def test_a_broken_escape_names_the_property_and_not_the_value() -> None:
    with pytest.raises(ConnectionPropertyError) as told:
        read_properties("sasl.password=hunter2\\u00g1")
    assert str(told.value).startswith(r"sasl.password: \u is not followed by four")
    assert "hunter2" not in str(told.value)
