"""The properties of a Java consumer, for Spark's Kafka connector.

A configuration file may have the names of Java clients or those of librdkafka, also mixed, like the
files of all other commands. Spark passes its properties to a Java consumer, which ignores names
that it does not know: a CA certificate under librdkafka's name would not be used, and a user name
would be missing. So librdkafka's names are translated here, and every name that the Java consumer
does not have is an error. Errors never contain the value of a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from assignors.connection import ConnectionPropertyError
from assignors.connection.oauth import OIDC_PROPERTIES, TokenCredentials
from assignors.connection.properties import PropertyReader
from assignors.connection.sasl import parse_jaas, read_credentials

_RENAMED = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""librdkafka's name to Java's, for properties with the same values."""

_NAMES = frozenset(
    """
    allow.auto.create.topics auto.include.jmx.reporter bootstrap.servers check.crcs
    client.dns.lookup client.id client.rack config.providers connections.max.idle.ms
    default.api.timeout.ms enable.metrics.push exclude.internal.topics fetch.max.bytes
    fetch.max.wait.ms fetch.min.bytes group.id heartbeat.interval.ms isolation.level
    max.partition.fetch.bytes max.poll.interval.ms max.poll.records metadata.max.age.ms
    metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
    metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms
    reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms retry.backoff.ms
    sasl.client.callback.handler.class sasl.jaas.config sasl.mechanism security.protocol
    security.providers send.buffer.bytes session.timeout.ms
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
    ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm
    ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
    ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.certificates
    ssl.truststore.location ssl.truststore.password ssl.truststore.type
    """.split()  # noqa: SIM905 (not 61 lines)
)
"""Properties of the Java consumer that Spark permits to set."""

_PREFIXES = ("config.providers.", "sasl.kerberos.", "sasl.login.", "sasl.oauthbearer.")

_JAVA_OIDC = {
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.header.urlencode",
    "sasl.oauthbearer.token.endpoint.url",
}
"""Properties of OpenID Connect that Java has too; Spark's version of it has no others."""

_TRANSLATED = OIDC_PROPERTIES - _JAVA_OIDC | {
    "enable.ssl.certificate.verification",
    "sasl.password",
    "sasl.username",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
}
"""Properties of librdkafka that need more than another name."""

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_TOKEN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_TOKEN_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def java_consumer_properties(properties: Mapping[str, object]) -> dict[str, str]:
    """Return ``properties`` with the names and values of a Java consumer.

    Raise ConnectionPropertyError for a property that has no equivalent there, for two different
    values of one property, and for a certificate or key file that cannot be read.
    """
    given = {name: str(value) for name, value in properties.items() if value is not None}
    java: dict[str, str] = {}
    origin: dict[str, str] = {}
    for name, value in given.items():
        java_name = _RENAMED.get(name, name)
        if name in _TRANSLATED:
            continue
        if java_name not in _NAMES and not name.startswith(_PREFIXES):
            similar = get_close_matches(name, sorted(_NAMES | _TRANSLATED | set(_RENAMED)), n=1)
            hint = f"did you mean {similar[0]}?" if similar else "remove it"
            raise ConnectionPropertyError(name, f"Spark's consumer has no such property: {hint}")
        if java.get(java_name, value) != value:
            raise ConnectionPropertyError(
                name, f"it disagrees with {origin[java_name]}: give one of them"
            )
        java[java_name] = value
        origin[java_name] = name
    if java.get("ssl.endpoint.identification.algorithm") == "none":
        java["ssl.endpoint.identification.algorithm"] = ""
    if given.get("enable.ssl.certificate.verification", "true").strip().lower() not in (
        "true",
        "1",
    ):
        raise ConnectionPropertyError(
            "enable.ssl.certificate.verification",
            "Spark's consumer always verifies certificates: set ssl.ca.location to the CA's",
        )
    login = _token_login(given, java) or _login(given, java)
    return java | login | _trust(given, java) | _certificate(given, java)


def _login(given: Mapping[str, str], java: Mapping[str, str]) -> dict[str, str]:
    """Return sasl.jaas.config for a user name and password."""
    username, password = given.get("sasl.username"), given.get("sasl.password")
    if username is None and password is None:
        return {}
    if "sasl.jaas.config" in java:
        raise ConnectionPropertyError(
            "sasl.jaas.config", "it contains the user name and password: remove sasl.username and "
            "sasl.password, or it"
        )  # fmt: skip
    if not username or not password:
        missing = "sasl.password" if username else "sasl.username"
        raise ConnectionPropertyError(missing, "it is missing: give a user name and a password")
    mechanism = java.get("sasl.mechanism", "").strip().upper()
    if mechanism not in _LOGIN_MODULES:
        raise ConnectionPropertyError(
            "sasl.mechanism",
            f"a user name and a password need one of {', '.join(_LOGIN_MODULES)}",
        )
    config = _jaas(_LOGIN_MODULES[mechanism], {"username": username, "password": password})
    return {"sasl.jaas.config": config, "sasl.mechanism": mechanism}


def _token_login(given: Mapping[str, str], java: Mapping[str, str]) -> dict[str, str]:
    """Return sasl.jaas.config and the handler for a token endpoint in librdkafka's names.

    Java's own names are left to Java, which can load any handler.
    """
    if java.get("sasl.mechanism", "").strip().upper() != "OAUTHBEARER":
        return {}
    if not _TRANSLATED.intersection(given, OIDC_PROPERTIES):
        return {}
    credentials = read_credentials(PropertyReader(given))
    assert isinstance(credentials, TokenCredentials)
    assert credentials.oidc is not None, "a file has no callback"
    oidc = credentials.oidc
    options: dict[str, str] = dict(
        parse_jaas(java.get("sasl.jaas.config", f"{_TOKEN_MODULE} required;"))
    )
    options |= {"clientId": oidc.client_id, "clientSecret": oidc.client_secret}
    if oidc.scope is not None:
        options["scope"] = oidc.scope
    options |= {f"extension_{name}": value for name, value in oidc.extensions.items()}
    options |= _trust(
        {n.replace("https.", "ssl."): v for n, v in given.items() if n.startswith("https.")}, {}
    )
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": _jaas(_TOKEN_MODULE, options),
        "sasl.login.callback.handler.class": _TOKEN_HANDLER,
    }


def _jaas(module: str, options: Mapping[str, str]) -> str:
    quoted = (
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, value in options.items()
    )
    return f"{module} required {' '.join(quoted)};"


def _trust(given: Mapping[str, str], java: Mapping[str, str]) -> dict[str, str]:
    """Return the truststore for CA certificates in PEM."""
    _refuse_both(given, java, ("ssl.ca.location", "ssl.ca.pem"), "ssl.truststore.")
    if (pem := given.get("ssl.ca.pem")) is not None:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}
    if (path := given.get("ssl.ca.location")) is None:
        return {}
    # The text instead of the path: the executors of a cluster may not have the file.
    text = _read_pem("ssl.ca.location", path)
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": text}


def _certificate(given: Mapping[str, str], java: Mapping[str, str]) -> dict[str, str]:
    """Return the keystore for a client certificate and key in PEM."""
    names = ("ssl.certificate.location", "ssl.certificate.pem")
    key_names = ("ssl.key.location", "ssl.key.pem")
    _refuse_both(given, java, (*names, *key_names), "ssl.keystore.")
    certificate, key = _pem(given, *names), _pem(given, *key_names)
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        missing = names[0] if certificate is None else key_names[0]
        raise ConnectionPropertyError(missing, "it is missing: a client certificate needs its key")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
    }


def _pem(given: Mapping[str, str], location: str, text: str) -> str | None:
    if text in given:
        return given[text]
    return _read_pem(location, given[location]) if location in given else None


def _read_pem(name: str, path: str) -> str:
    try:
        text = Path(path.strip()).expanduser().read_text("latin-1")
    except OSError as error:
        raise ConnectionPropertyError(name, f"cannot read {path}: {error.strerror}") from error
    if "-----BEGIN " not in text:
        raise ConnectionPropertyError(name, f"{path} is not a PEM file")
    return text


def _refuse_both(
    given: Mapping[str, str], java: Mapping[str, str], names: tuple[str, ...], prefix: str
) -> None:
    """Raise ConnectionPropertyError if one of ``names`` and a Java name with ``prefix`` are set."""
    used = [name for name in names if name in given]
    same = [name for name in sorted(java) if name.startswith(prefix)]
    if used and same:
        raise ConnectionPropertyError(used[0], f"it disagrees with {same[0]}: give one of them")
