"""The types of Kafka's protocol that these messages are made of, read within bounds.

kafka-python has a codec for all of them, for answers of brokers that are trusted: it takes
variable-length integers of any length, and texts that end before their length says. Here
frames come from anybody, so each read is held against the bytes that are there, and nothing
is allocated for a length that only was claimed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from rackward.placement_service.errors import MalformedFrameError

Item = TypeVar("Item")

_VARINT_BYTES = 5
_MOST_VARINT = (1 << 32) - 1


class Reader:
    """Reads one message from its first byte to its last; MalformedFrameError where it cannot."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    @property
    def left(self) -> int:
        """How many bytes are left."""
        return len(self._data) - self._at

    def take(self, count: int) -> memoryview:
        """The next ``count`` bytes."""
        if not 0 <= count <= self.left:
            raise MalformedFrameError(f"{count} bytes are wanted where {self.left} are left")
        taken = self._data[self._at : self._at + count]
        self._at += count
        return taken

    def int8(self) -> int:
        """A signed integer of 8 bits."""
        return int.from_bytes(self.take(1), "big", signed=True)

    def int16(self) -> int:
        """A signed integer of 16 bits."""
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        """A signed integer of 32 bits."""
        return int.from_bytes(self.take(4), "big", signed=True)

    def truth(self) -> bool:
        """A bool: whatever is not 0 is true, as Kafka reads it."""
        return self.int8() != 0

    def varint(self) -> int:
        """An unsigned integer of 32 bits in one to five bytes."""
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                break
        else:
            raise MalformedFrameError(f"an integer has more than {_VARINT_BYTES} bytes")
        if value > _MOST_VARINT:
            raise MalformedFrameError("an integer has more than 32 bits")
        return value

    def nullable_string(self) -> str | None:
        """A text with its length as int16; -1 is None."""
        length = self.int16()
        return None if length == -1 else self._text(length)

    def compact_nullable_string(self) -> str | None:
        """A text with its length plus one as a varint; 0 is None."""
        length = self.varint() - 1
        return None if length == -1 else self._text(length)

    def compact_string(self) -> str:
        """The same, where there must be a text."""
        text = self.compact_nullable_string()
        if text is None:
            raise MalformedFrameError("a text is null")
        return text

    def array(self, count: int, item: Callable[[], Item], least_bytes: int) -> tuple[Item, ...]:
        """``count`` items, none of which has fewer than ``least_bytes`` bytes."""
        if not 0 <= count * least_bytes <= self.left:
            raise MalformedFrameError(f"{count} items are claimed in {self.left} bytes")
        return tuple(item() for _ in range(count))

    def compact_nullable_int32s(self) -> tuple[int, ...] | None:
        """Integers of 32 bits; the length plus one comes first, as a varint, and 0 is None."""
        count = self.varint() - 1
        if count == -1:
            return None
        if count * 4 > self.left:
            raise MalformedFrameError(f"{count} integers are claimed in {self.left} bytes")
        return struct.unpack(f">{count}i", self.take(count * 4))

    def compact_int32s(self) -> tuple[int, ...]:
        """The same, where there must be an array."""
        values = self.compact_nullable_int32s()
        if values is None:
            raise MalformedFrameError("an array of integers is null")
        return values

    def compact_array(self, item: Callable[[], Item], least_bytes: int) -> tuple[Item, ...]:
        """Items with their number plus one as a varint before them; not null."""
        count = self.varint() - 1
        if count == -1:
            raise MalformedFrameError("an array is null")
        return self.array(count, item, least_bytes)

    def tagged_fields(self) -> dict[int, bytes]:
        """Tag to content; their tags must rise."""
        fields: dict[int, bytes] = {}
        last = -1
        for _ in range(self.varint()):
            tag = self.varint()
            if tag <= last:
                raise MalformedFrameError(f"tag {tag} comes after tag {last}")
            fields[tag] = bytes(self.take(self.varint()))
            last = tag
        return fields

    def end(self) -> None:
        """Raise MalformedFrameError where something is left."""
        if self.left:
            raise MalformedFrameError(f"{self.left} bytes follow the message")

    def _text(self, length: int) -> str:
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError:
            raise MalformedFrameError("a text is not UTF-8") from None


def varint(value: int) -> bytes:
    """An unsigned integer in as few bytes as it needs, seven bits in each, the lowest first."""
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def nullable_string(text: str | None) -> bytes:
    """See Reader.nullable_string."""
    if text is None:
        return b"\xff\xff"
    encoded = _utf8(text)
    return struct.pack(">h", len(encoded)) + encoded


def compact_nullable_string(text: str | None) -> bytes:
    """See Reader.compact_nullable_string."""
    if text is None:
        return varint(0)
    encoded = _utf8(text)
    return varint(len(encoded) + 1) + encoded


def compact_nullable_int32s(values: tuple[int, ...] | None) -> bytes:
    """See Reader.compact_nullable_int32s."""
    if values is None:
        return varint(0)
    return varint(len(values) + 1) + struct.pack(f">{len(values)}i", *values)


def compact_array(items: Iterable[bytes]) -> bytes:
    """See Reader.compact_array; ``items`` as they are written."""
    written = tuple(items)
    return varint(len(written) + 1) + b"".join(written)


def tagged_fields(fields: Mapping[int, bytes] | None = None) -> bytes:
    """See Reader.tagged_fields."""
    ordered = sorted((fields or {}).items())
    return varint(len(ordered)) + b"".join(
        varint(tag) + varint(len(content)) + content for tag, content in ordered
    )


def frame(message: bytes) -> bytes:
    """A message as it is sent: its length in bytes before it, as int32."""
    return struct.pack(">i", len(message)) + message


def _utf8(text: str) -> bytes:
    """Texts of errors may hold what is no character: a file's name, say."""
    return text.encode("utf-8", "replace")
