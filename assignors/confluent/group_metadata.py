"""The group's metadata as ``Producer.send_offsets_to_transaction`` takes it.

confluent hands ``rd_kafka_consumer_group_metadata_write``'s bytes to Python and reads them back
in the producer, so bytes of the same form carry the generation and the member of a group that
librdkafka never joined. The form is librdkafka's "CGMDv2:": the generation as a C int, then the
strings with a NUL after each, the instance id behind a byte that says whether it is missing.
"""

from __future__ import annotations

import struct

MAGIC = b"CGMDv2:"
NO_GENERATION = -1


def group_metadata(
    group_id: str,
    generation: int = NO_GENERATION,
    member_id: str = "",
    instance_id: str | None = None,
) -> bytes:
    """The bytes for a member of ``group_id``."""
    instance = b"\1" if instance_id is None else b"\0" + instance_id.encode() + b"\0"
    return b"".join(
        (
            MAGIC,
            struct.pack("=i", generation),
            group_id.encode() + b"\0",
            member_id.encode() + b"\0",
            instance,
        )
    )
