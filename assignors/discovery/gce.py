"""The zone of a Compute Engine instance, by its metadata server.

``GET /computeMetadata/v1/instance/zone`` with ``Metadata-Flavor: Google`` answers
``projects/NUMBER/zones/ZONE``, with the same header.

Source: Compute Engine documentation, "View and query VM metadata".
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from assignors.discovery.metadata_service import CLOUD, DEFAULT_SECONDS, Endpoint, Question, fetch
from assignors.discovery.source import SourceError

_FLAVOR = {"Metadata-Flavor": "Google"}
_ZONE = re.compile(r"projects/[^/]+/zones/([a-z][a-z0-9-]*)")
_REMEDIES = {
    403: "the request was changed on its way; see that no proxy is between",
    404: "this is no Compute Engine instance",
}


@dataclass(frozen=True, slots=True)
class GceSource:
    """The zone, such as ``europe-west1-b``."""

    endpoint: Endpoint = CLOUD
    timeout: float = DEFAULT_SECONDS
    name: str = "gce"

    def ask(self, seconds: float) -> str:
        """See RackSource."""
        asked = Question("GET", "/computeMetadata/v1/instance/zone", _FLAVOR, _REMEDIES)
        answer = fetch(asked, self.endpoint, time.monotonic() + seconds)
        if answer.headers.get("metadata-flavor") != "Google":
            raise SourceError(
                f"answered without Metadata-Flavor: Google at {self.endpoint}: something else"
                " answers in its place"
            )
        zone = _ZONE.fullmatch(answer.text)
        if zone is None:
            raise SourceError(f"answered no zone at {self.endpoint}: see that it is Google's")
        return zone[1]
