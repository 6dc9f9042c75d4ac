"""Who the client says it is, by SASL."""

from __future__ import annotations

from dataclasses import dataclass

from assignors.client_properties.errors import ConnectionPropertyError
from assignors.client_properties.jaas import NAME as JAAS
from assignors.client_properties.jaas import read_jaas
from assignors.client_properties.reading import Reading
from assignors.client_properties.secret import Secret

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_NAMES = ("sasl.mechanism", "sasl.mechanisms")
_ADVICE = f"set it, or {JAAS} with username and password"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a password, and the mechanism that proves them."""

    mechanism: str
    username: str
    password: Secret


def read_credentials(reading: Reading) -> Credentials:
    """The credentials that the properties give, in Java's words or librdkafka's.

    Raises ConnectionPropertyError for a mechanism that is not in MECHANISMS, where user or
    password is missing, and where the two ways to say them disagree.
    """
    mechanism = (reading.text(*_NAMES) or "").upper()
    if mechanism not in MECHANISMS:
        said = f"{mechanism} is not supported" if mechanism else "security.protocol asks for it"
        raise ConnectionPropertyError(
            reading.name(*_NAMES) or _NAMES[0], f"{said}: set it to one of {', '.join(MECHANISMS)}"
        )
    username, password = reading.text("sasl.username"), reading.secret("sasl.password")
    jaas = reading.secret(JAAS)
    if jaas is not None:
        options = read_jaas(jaas)
        if options.get("tokenauth", "").lower() == "true":
            raise ConnectionPropertyError(JAAS, "delegation tokens (tokenauth) are not supported")
        theirs, secret = options.get("username"), options.get("password")
        if _differ(username, theirs) or _differ(password, secret):
            raise ConnectionPropertyError(
                JAAS, "it disagrees with sasl.username and sasl.password: give one of the two"
            )
        username, password = username or theirs, password or Secret(secret or "")
    if not username:
        raise ConnectionPropertyError("sasl.username", f"{mechanism} needs a user: {_ADVICE}")
    if not password:
        raise ConnectionPropertyError("sasl.password", f"{mechanism} needs a password: {_ADVICE}")
    return Credentials(mechanism, username, password)


def _differ(one: str | None, other: str | None) -> bool:
    return bool(one and other and one != other)
