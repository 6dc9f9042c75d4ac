"""What applications import from the package itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rackward


@pytest.mark.parametrize("name", rackward.__all__)
def test_each_name_is_that_of_its_module(name: str) -> None:
    value = getattr(rackward, name)
    assert value.__name__ == name
    assert value.__doc__


def test_other_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="'rackward' has no attribute 'nothing'"):
        rackward.nothing  # noqa: B018


def test_importing_the_package_imports_no_part_of_it() -> None:
    code = "import rackward, sys; print([n for n in sys.modules if n.startswith('rackward.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
