"""OAUTHBEARER: properties, requests to a token endpoint, and the cache of the token."""

from __future__ import annotations

import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, RetriableError

from assignors.confluent.config import COOPERATIVE, librdkafka_config, read_configuration
from assignors.connection import ConnectionPropertyError, kafka_python_settings, librdkafka_settings
from assignors.connection.oauth import (
    MAX_RESPONSE_BYTES,
    AccessToken,
    TokenCache,
    TokenEndpoint,
    TokenError,
    TokenProvider,
)
from assignors.connection.properties import Secret
from assignors.connection.settings import read_settings
from tests.support.security import (
    CLIENT_ID,
    SECRET,
    Authority,
    TokenServer,
    make_authority,
    run_token_server,
    send_json,
    unsecured_token,
    write_file,
)

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
HANDLER = "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
URL = "sasl.oauthbearer.token.endpoint.url"


def by_properties(url: str, **more: str) -> dict[str, object]:
    return {
        **SASL,
        "sasl.oauthbearer.method": "OIDC",
        URL: url,
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
        **more,
    }


def by_jaas(url: str, secret: str = SECRET, options: str = "") -> dict[str, object]:
    return {
        **SASL,
        URL: url,
        "sasl.login.callback.handler.class": HANDLER,
        "sasl.jaas.config": (
            f'{MODULE} required clientId="{CLIENT_ID}" clientSecret="{secret}" scope=kafka'
            f" extension_logicalCluster=lkc-1 extension_identityPoolId='pool-2' {options};"
        ),
    }


def endpoint(properties: dict[str, object]) -> TokenEndpoint:
    credentials: Any = read_settings(properties).credentials
    return TokenEndpoint(credentials.oidc)


@pytest.fixture(autouse=True)
def _no_secret_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert SECRET not in caplog.text


@pytest.fixture
def server() -> Iterator[TokenServer]:
    with run_token_server() as server:
        yield server


# ---- Properties.


@pytest.mark.parametrize("properties", [by_properties, by_jaas])
def test_both_names_give_the_same_settings(
    server: TokenServer, properties: Callable[[str], dict[str, object]]
) -> None:
    given = properties(server.url)
    assert librdkafka_settings(given) == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        URL: server.url,
        "sasl.oauthbearer.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
    }
    keywords: dict[str, Any] = kafka_python_settings(given)
    provider = keywords.pop("sasl_oauth_token_provider")
    assert keywords == {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    assert provider.extensions() == {}
    assert provider.token() == server.tokens[0]
    assert provider.extensions() == {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}
    assert server.forms == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
    for settings in (read_settings(given), keywords, provider, librdkafka_settings(given)):
        assert SECRET not in f"{settings!r} {settings}"


def test_properties_of_confluents_consumer() -> None:
    group = {"group.id": "g", "partition.assignment.strategy": COOPERATIVE}
    # librdkafka gets its own names as they are.
    own = by_properties("https://idp.example.org/token")
    own["https.ca.location"] = "/etc/ssl/ca.pem"
    config = librdkafka_config({**group, **own}, print)
    assert own.items() <= config.items()
    # Java's are translated, also if only the method is missing.
    java = librdkafka_config({**group, **by_jaas("https://idp.example.org/token")}, print)
    assert java["sasl.oauthbearer.method"] == "oidc"
    assert java["sasl.oauthbearer.client.secret"] == SECRET
    assert not [name for name in java if name.startswith(("sasl.jaas", "sasl.login"))]
    del own["sasl.oauthbearer.method"]
    own["rackward.oauth.allow.http"] = True
    config = librdkafka_config({**group, **own}, print)
    assert config["sasl.oauthbearer.method"] == "oidc"
    assert "rackward.oauth.allow.http" not in config
    del own["https.ca.location"]
    configuration = read_configuration({**group, **own, "bootstrap.servers": "a"}, {})
    assert isinstance(configuration.kafka_python["sasl_oauth_token_provider"], TokenProvider)
    assert SECRET not in repr(configuration)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({URL: None}, f"{URL}: OAUTHBEARER needs it"),
        ({URL: "ftp://idp/token"}, f"{URL}: write it as https://host/path"),
        ({URL: "https://idp:port/"}, f"{URL}: it is not a URL"),
        ({URL: f"https://x:{SECRET}@idp/"}, f"{URL}: it has a user name or a fragment"),
        ({URL: "http://idp.example.org/"}, "allow it with rackward.oauth.allow.http=true"),
        ({URL: "http://127.0.0.1.example.org/"}, "http would send the secret in clear text"),
        ({"sasl.oauthbearer.client.id": " "}, "client.id: OAUTHBEARER needs it: set it, or client"),
        ({"sasl.oauthbearer.client.secret": None}, "client.secret: OAUTHBEARER needs it"),
        ({"sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method: set it to oidc"),
        ({"sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"},
         "sasl.oauthbearer.grant.type: only client_credentials is supported"),
        ({"sasl.oauthbearer.metadata.authentication.type": "aws_iam"},
         "sasl.oauthbearer.metadata.authentication.type: only none is supported"),
        ({"sasl.login.callback.handler.class": "x.IAMOAuthBearerLoginCallbackHandler"},
         "sasl.login.callback.handler.class: Java classes are not loaded"),
        ({"sasl.oauthbearer.extensions": "a"}, "extensions: write it as name=value,name=value"),
        ({"sasl.oauthbearer.extensions": "a=\x01auth=b"}, "names of extensions are letters"),
        ({"sasl.oauthbearer.extensions": "auth=b"}, "names of extensions are letters"),
        ({"sasl.oauthbearer.client.secrt": SECRET}, "did you mean sasl.oauthbearer.client.secret?"),
        ({"sasl.jaas.config": f"{MODULE} required clientId=other;"},
         "sasl.jaas.config: it disagrees with sasl.oauthbearer.client.id"),
        ({"https.ca.location": "/no/such/file", URL: "https://idp/"},
         "https.ca.location: for the token endpoint: "),
        ({"sasl.jaas.config": f"{MODULE} required ssl.truststore.location=/no/such;",
          URL: "https://idp/"}, "sasl.jaas.config: for the token endpoint: "),
        ({"oauth_cb": print}, "oauth_cb: only assignors.confluent accepts a callback"),
    ],
)  # fmt: skip
def test_an_invalid_property_is_named_in_one_line(changes: dict[str, object], message: str) -> None:
    properties = {**by_properties("https://idp.example.org/token"), **changes}
    with pytest.raises(ConnectionPropertyError) as caught:
        kafka_python_settings(properties)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert SECRET not in repr(caught.value)


@pytest.mark.parametrize("host", ["localhost:80", "127.0.0.1", "[::1]:8080"])
def test_http_is_allowed_on_this_machine_or_by_name(host: str) -> None:
    kafka_python_settings(by_properties(f"http://{host}/token"))
    allowed = {"rackward.oauth.allow.http": "true"}
    kafka_python_settings({**by_properties("http://idp.example.org/token"), **allowed})


# ---- Requests.


def test_a_request(server: TokenServer) -> None:
    server.lifetime = 100
    before = time.time()
    token = endpoint(by_properties(server.url)).request()
    assert token.value == server.tokens[0]
    assert SECRET not in repr(token)
    assert str(token.value) not in repr(token)
    assert before + 100 <= token.expires_at <= time.time() + 100
    assert server.logins == [f"Basic {CLIENT_ID}:{SECRET}"]


def test_credentials_can_be_url_encoded(server: TokenServer) -> None:
    properties = by_properties(server.url, **{"sasl.oauthbearer.header.urlencode": "true"})
    properties["sasl.oauthbearer.client.id"] = "a:b c"
    with pytest.raises(TokenError):
        endpoint(properties).request()
    assert server.logins == [f"Basic a%3Ab+c:{SECRET}"]


def test_http_never_uses_a_proxy(server: TokenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert endpoint(by_properties(server.url)).request().value == server.tokens[0]


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority()


def test_tls(authority: Authority, tmp_path: Path) -> None:
    ca = write_file(tmp_path, "ca.pem", authority.pem)
    other = write_file(tmp_path, "other.pem", make_authority("other").pem)
    with run_token_server(authority.sign("idp.example")) as server:
        trusting = [
            by_properties(server.url, **{"https.ca.location": ca}),
            by_properties(server.url, **{"https.ca.pem": authority.pem}),
            by_jaas(server.url, options=f'ssl.truststore.location="{ca}"'),
        ]
        for properties in trusting:
            assert endpoint(properties).request().value == server.tokens[-1]
        assert librdkafka_settings(trusting[2])["https.ca.location"] == ca
        wrong_name = by_properties(server.url.replace("127.0.0.1", "localhost"))
        untrusted = r"its certificate is not trusted .*: set https\.ca\.location"
        for properties, problem in (
            (by_properties(server.url), untrusted),
            (by_properties(server.url, **{"https.ca.location": other}), untrusted),
            ({**wrong_name, "https.ca.location": ca}, "its certificate is for another name"),
        ):
            with pytest.raises(TokenError, match=problem):
                endpoint(properties).request()
        assert len(server.tokens) == len(trusting)


def redirect(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(307)
    handler.send_header("Location", "http://127.0.0.1:1/")
    handler.end_headers()


def not_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"hello\r\n")


def drip(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        time.sleep(0.05)


def hang(_handler: BaseHTTPRequestHandler) -> None:
    time.sleep(3)


def large(handler: BaseHTTPRequestHandler) -> None:
    send_json(handler, 200, {"access_token": "x" * MAX_RESPONSE_BYTES, "expires_in": 1})


def answering(status: int, answer: object) -> Callable[[BaseHTTPRequestHandler], None]:
    return lambda handler: send_json(handler, status, answer)


@pytest.mark.parametrize(
    ("respond", "message"),
    [
        (answering(401, {"error": "invalid_client", "error_description": SECRET}),
         "HTTP status 401 (invalid_client): check client id, client secret and scope"),
        (answering(400, {"error": SECRET}), "HTTP status 400: check client id"),
        (answering(404, "x"), "HTTP status 404: check the path of the token endpoint"),
        (answering(503, None), "HTTP status 503"),
        (redirect, "HTTP status 307: redirects are not followed"),
        (not_http, "the response is not HTTP"),
        (large, "the response is larger than 1048576 bytes"),
        (drip, "the response did not end in time"),
        (hang, "no response within 0.5 s"),
        (answering(200, [SECRET]), "the response has no access_token"),
        (answering(200, {"access_token": 1, "expires_in": 1}), "has no access_token"),
        (answering(200, {"access_token": "a\x01auth=b", "expires_in": 1}), "has no access_token"),
        (answering(200, {"access_token": SECRET}), "no expires_in, and the token no exp"),
        (answering(200, {"access_token": "a.b.c", "expires_in": "60"}), "no expires_in"),
        (answering(200, {"access_token": SECRET, "expires_in": 0}), "has already expired"),
        (answering(200, {"access_token": unsecured_token(-10)}), "has already expired"),
    ],
)  # fmt: skip
def test_a_failed_request_is_one_line_without_secrets(
    server: TokenServer, respond: Callable[[BaseHTTPRequestHandler], None], message: str
) -> None:
    server.respond = respond
    started = time.monotonic()
    with pytest.raises(TokenError) as caught:
        endpoint(by_properties(server.url)).request(0.5)
    assert time.monotonic() - started < 3
    assert str(caught.value).startswith("no token from 127.0.0.1:")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert SECRET not in repr(caught.value)


def test_an_endpoint_that_is_down() -> None:
    with pytest.raises(TokenError, match=r"it cannot be reached .Connection refused"):
        endpoint(by_properties("http://127.0.0.1:1/")).request()


def test_the_earlier_expiry_counts(server: TokenServer) -> None:
    server.respond = answering(200, {"access_token": unsecured_token(50), "expires_in": 1000})
    assert endpoint(by_properties(server.url)).request().expires_at <= time.time() + 50


# ---- The cache.


def access_token(text: str, age: float = 0, lifetime: float = 100) -> AccessToken:
    obtained_at = time.time() - age
    return AccessToken(Secret(text), obtained_at, obtained_at + lifetime)


def test_threads_share_one_request() -> None:
    requests: list[int] = []

    def request() -> AccessToken:
        requests.append(threading.get_ident())
        time.sleep(0.2)
        return access_token("a")

    cache = TokenCache(request)
    with ThreadPoolExecutor(8) as pool:
        tokens = [future.result() for future in [pool.submit(cache.get) for _ in range(8)]]
    assert {str(token.value) for token in tokens} == {"a"}
    assert len(requests) == 1
    assert cache.get() is tokens[0]


def test_a_token_is_replaced_after_most_of_its_lifetime() -> None:
    tokens = [access_token("old", age=79), access_token("stale", age=81), access_token("new")]
    cache = TokenCache(lambda: tokens.pop(0))
    assert cache.get().value == "old"
    assert cache.get().value == "old"
    cache = TokenCache(lambda: tokens.pop(0))
    assert cache.get().value == "stale"
    assert cache.get().value == "new"


def test_a_stale_token_is_used_while_there_is_no_new_one() -> None:
    results: list[AccessToken | None] = [access_token("stale", age=99, lifetime=100.5)]

    def request() -> AccessToken:
        if results and (token := results.pop()) is not None:
            return token
        raise TokenError("the endpoint is down")

    cache = TokenCache(request)
    assert cache.get().value == "stale"
    assert cache.get().value == "stale"
    time.sleep(1.6)
    with pytest.raises(TokenError, match="the endpoint is down"):
        cache.get()


def test_a_request_without_end_is_given_up() -> None:
    release = threading.Event()

    def request() -> AccessToken:
        release.wait(30)
        return access_token("late")

    cache = TokenCache(request, wait_seconds=0.2)
    for _ in range(2):
        started = time.monotonic()
        with pytest.raises(TokenError, match=r"no token within 0\.2 s"):
            cache.get()
        assert time.monotonic() - started < 2
    release.set()


def test_failures_are_not_repeated_at_once(server: TokenServer) -> None:
    server.respond = answering(503, None)
    provider = TokenProvider(TokenCache(endpoint(by_properties(server.url)).request).get)
    for _ in range(5):
        with pytest.raises(KafkaConnectionError, match="HTTP status 503") as caught:
            provider.token()
        # kafka-python connects again.
        assert isinstance(caught.value, RetriableError)
    assert len(server.logins) == 1
    server.respond = None
    time.sleep(2.1)
    assert provider.token() == server.tokens[0]


def test_a_token_of_another_kind_of_part_is_opaque(server: TokenServer) -> None:
    not_a_jwt = ".".join(["a", base64.b64encode(json.dumps([1]).encode()).decode()[:-2], "c"])
    server.respond = answering(200, {"access_token": not_a_jwt, "expires_in": 30})
    assert endpoint(by_properties(server.url)).request().value == not_a_jwt
