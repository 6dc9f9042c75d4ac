"""Whether an answer can be a rack."""

from __future__ import annotations

from assignors.discovery.source import SourceError

MOST_CHARACTERS = 255
"""Of a rack that is found; ids of zones and labels of nodes have at most 63."""

_DOCUMENTS = ("<", "{", "[")
"""What HTML, as of a captive portal, and JSON, as of an error, begin with."""


def checked_rack(answer: object) -> str:
    """``answer`` without the white space around it, if it can be a rack.

    Raises SourceError. No message holds the answer: it may be something else, such as a secret
    in a file that was named by mistake.
    """
    if not isinstance(answer, str):
        raise SourceError(f"answered {type(answer).__name__} where a string is needed")
    rack = answer.strip()
    if not rack:
        raise SourceError("answered nothing")
    if "\n" in rack:
        raise SourceError("answered more than one line")
    if not rack.isprintable():
        raise SourceError("answered with characters that cannot be printed")
    if rack.startswith(_DOCUMENTS):
        raise SourceError("answered with what looks like a page or a document")
    if len(rack) > MOST_CHARACTERS:
        raise SourceError(f"answered {len(rack)} characters; a rack has at most {MOST_CHARACTERS}")
    return rack
