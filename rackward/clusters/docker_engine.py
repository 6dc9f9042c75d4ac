"""The Docker engine: whether one answers, which image to take, and its errors as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rackward.clusters.errors import DockerUnavailableError, MissingExtraError, PortTakenError

_ANSWER_SECONDS = 60
_PORT_TAKEN = ("port is already allocated", "address already in use")


def local_image(kafka_version: str) -> str:
    """The name of the image that ``python -m rackward.clusters.image`` builds."""
    return f"rackward-kafka:{kafka_version}"


def public_image(kafka_version: str) -> str:
    """The image that the Kafka project publishes."""
    return f"apache/kafka:{kafka_version}"


def missing_docker() -> str | None:
    """Why no container can be run here, in a few words; None: they can."""
    try:
        import docker
        import testcontainers.core  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed (pip install 'rackward[docker]')"
    try:
        client = docker.from_env(timeout=_ANSWER_SECONDS)
        try:
            client.ping()
        finally:
            client.close()
    # The second where it answers, and then does not.
    except (docker.errors.DockerException, OSError) as error:
        return f"no Docker engine answers ({error})"
    return None


def image_at_hand(kafka_version: str) -> str:
    """The locally built image where there is one, else the public one.

    Raises DockerUnavailableError.
    """
    if reason := missing_docker():
        raise DockerUnavailableError(f"{reason}: start one, or use a LocalCluster")
    built = local_image(kafka_version)
    return built if has_image(built) else public_image(kafka_version)


def has_image(name: str) -> bool:
    """Whether the engine holds that image."""
    import docker

    client = docker.from_env()
    try:
        client.images.get(name)
    except docker.errors.ImageNotFound:
        return False
    finally:
        client.close()
    return True


@contextmanager
def engine_errors() -> Iterator[None]:
    """What the engine refuses becomes PortTakenError or DockerUnavailableError."""
    try:
        from docker.errors import DockerException
    except ImportError as error:
        raise MissingExtraError("docker", "docker") from error
    try:
        yield
    except DockerException as error:
        told = str(error)
        if any(sign in told for sign in _PORT_TAKEN):
            raise PortTakenError(f"a port was taken by another process ({told})") from error
        raise DockerUnavailableError(
            f"the Docker engine refused ({told}); where it is the image that cannot be had, "
            "build one with: python -m rackward.clusters.image"
        ) from error


@contextmanager
def without_reaper() -> Iterator[None]:
    """Start containers without Testcontainers' reaper, which is an image to pull."""
    from testcontainers.core.config import testcontainers_config

    before = testcontainers_config.ryuk_disabled
    testcontainers_config.ryuk_disabled = True
    try:
        yield
    finally:
        testcontainers_config.ryuk_disabled = before
