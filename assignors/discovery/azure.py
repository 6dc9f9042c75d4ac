"""The zone of an Azure virtual machine, by the Azure Instance Metadata Service.

``GET /metadata/instance/compute?api-version=...`` with ``Metadata: true`` answers JSON that has
``location`` (``westeurope``) and ``zone`` (``2``, or nothing where the machine is in no zone).
Zones are numbered anew in each region, so the rack is both: ``westeurope-2``, as the node label
``topology.kubernetes.io/zone`` has it on Azure.

Source: Azure documentation, "Azure Instance Metadata Service"; Kubernetes' cloud provider for
Azure.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass

from assignors.discovery.metadata_service import CLOUD, DEFAULT_SECONDS, Endpoint, Question, fetch
from assignors.discovery.source import SourceError

API_VERSION = "2021-02-01"
_MOST_BYTES = 1 << 18
"""It tells tags and keys of the machine as well, and up to 64 KB of its owner's data."""

_LOCATION = re.compile(r"[a-z0-9]{1,60}")
_ZONE = re.compile(r"[0-9A-Za-z-]{1,60}")
_REMEDIES = {
    400: "this is no Azure virtual machine, or the service is too old",
    403: "the request was changed on its way; see that no proxy is between",
    404: "this is no Azure virtual machine",
}


@dataclass(frozen=True, slots=True)
class AzureSource:
    """The location and the zone, such as ``westeurope-2``."""

    endpoint: Endpoint = CLOUD
    timeout: float = DEFAULT_SECONDS
    name: str = "azure"

    def ask(self, seconds: float) -> str:
        """See RackSource."""
        path = f"/metadata/instance/compute?api-version={API_VERSION}&format=json"
        asked = Question("GET", path, {"Metadata": "true"}, _REMEDIES, _MOST_BYTES)
        answer = fetch(asked, self.endpoint, time.monotonic() + seconds)
        try:
            compute = json.loads(answer.body)
        except (ValueError, RecursionError):
            compute = None
        if not isinstance(compute, dict):
            raise SourceError(f"answered no JSON object at {self.endpoint}: see that it is Azure's")
        location, zone = (compute.get(key) for key in ("location", "zone"))
        if zone == "":
            raise SourceError("says that this machine is in no availability zone: name a rack")
        if not isinstance(location, str) or not isinstance(zone, str):
            location = zone = ""
        if not _LOCATION.fullmatch(location.lower()) or not _ZONE.fullmatch(zone):
            raise SourceError(f"answered no zone at {self.endpoint}: see that it is Azure's")
        return f"{location.lower()}-{zone}"
