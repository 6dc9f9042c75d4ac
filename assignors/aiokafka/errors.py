"""What can be wrong with the aiokafka that is installed, or with how it is used."""

from __future__ import annotations

from placement_core import RackwardError


class UnsupportedAiokafkaError(RackwardError):
    """The installed aiokafka is too old, or lacks what the adapter stands on."""


class UnseatedAssignorError(RackwardError):
    """An assignor was asked by a coordinator that is not ours."""
