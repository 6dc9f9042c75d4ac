"""Options of ``rackward leaders plan`` that are checked before it connects."""

from __future__ import annotations

import pytest

from placement_core import InvalidOptionError
from rackward.cli.main import app

# No such host can be resolved: connecting would raise another error.
SERVER = ("--bootstrap-server", "nowhere.invalid:9092")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give the consumers: either --group"),
        (("--group", "g", "--readers", "a=1"), "give the consumers: either --group"),
        (("--readers", "a=1"), "--readers needs --topics"),
        (("--readers", "a=x", "--topics", "t"), "--readers a=x: write RACK=NUMBER"),
        (("--readers", "a=-1", "--topics", "t"), "--readers a=-1: a number of consumers is neg"),
        (("--readers", "a=0", "--topics", "t"), "--readers a=0: give at least one consumer"),
        (("--readers", "a=1", "--topics", "t", "--mapping", "h=a"), "--mapping is for the memb"),
        (("--group", "g", "--mapping", "10.0.0.0/33=a"), "--mapping: '10.0.0.0/33' is not a val"),
        (("--group", "g", "--format", "kafka"), "--format kafka needs --output FILE"),
    ],
)
def test_bad_options_are_errors_before_connecting(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidOptionError) as error:
        app(["leaders", "plan", *SERVER, *arguments], standalone_mode=False)
    assert message in str(error.value)
