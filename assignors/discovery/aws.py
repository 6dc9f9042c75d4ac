"""The zone of an EC2 instance, by the Instance Metadata Service version 2.

``PUT /latest/api/token`` with the token's lifetime in a header answers a token; with that in
another header, ``GET /latest/meta-data/placement/...`` answers the item. Version 1, which answers
without a token, is never asked.

Source: Amazon EC2 User Guide, "How Instance Metadata Service Version 2 works" and "AZ IDs".
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Literal

from assignors.discovery.metadata_service import CLOUD, DEFAULT_SECONDS, Endpoint, Question, fetch
from assignors.discovery.source import SourceError

_NAMES = {"availability-zone-id": "aws-zone-id", "availability-zone": "aws-zone-name"}
_ZONE = re.compile(r"[a-z]+[a-z0-9]*(-[a-z0-9]+)+")
_TOKEN = re.compile(r"[!-~]{1,1024}")
_REMEDIES = {
    401: "the token was not taken; see that no other service answers in its place",
    403: "switch the metadata service on for this instance",
    404: "this is no EC2 instance, or it does not tell this item",
}


@dataclass(frozen=True, slots=True)
class AwsSource:
    """The zone's id (``use1-az1``), or its name (``us-east-1a``).

    Names may stand for another place in another account; ids do not.
    """

    item: Literal["availability-zone-id", "availability-zone"]
    endpoint: Endpoint = CLOUD
    timeout: float = DEFAULT_SECONDS

    @property
    def name(self) -> str:
        """See RackSource."""
        return _NAMES[self.item]

    def ask(self, seconds: float) -> str:
        """See RackSource."""
        deadline = time.monotonic() + seconds
        lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
        asked = Question("PUT", "/latest/api/token", lifetime, _REMEDIES)
        token = fetch(asked, self.endpoint, deadline).text
        if not _TOKEN.fullmatch(token):
            raise SourceError(f"answered no token at {self.endpoint}: see that it is EC2's")
        path = f"/latest/meta-data/placement/{self.item}"
        wanted = Question("GET", path, {"X-aws-ec2-metadata-token": token}, _REMEDIES)
        zone = fetch(wanted, self.endpoint, deadline).text
        if not _ZONE.fullmatch(zone):
            raise SourceError(f"answered no zone at {self.endpoint}: see that it is EC2's")
        return zone
