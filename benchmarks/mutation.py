"""Mutation tests of the pure parts of placement_core and assignors: ``make mutation``.

mutmut makes the mutants: small changes of functions, such as ``<`` to ``<=``, ``x = f(y)`` to
``x = None``, an argument left out. Those in a ``raise`` or a call of the log are left out, because
the tests are not about the text of messages; so are defaults of parameters, and whatever mutmut
leaves out: decorated functions and the bodies of modules. A mutant is killed if a test fails. One
that survives is a missing test, superfluous code, or a change without an effect.

mutmut's own runner starts pytest for each mutant, which takes longer than most tests. Here one
process collects the tests and runs them once, to learn which lines each of them executes; that is
kept in build/mutation.json, so that later only tests that execute a changed file run again. Then it
forks for each mutant: the child replaces the code of the function and runs the tests that execute
the changed statement until one fails. The fastest come first; of a parametrized test, the second
case counts as if it took twice its time, the third three times, because it is likely to notice the
same.

    make mutation                                           every mutant: hours
    make mutation ARGS="--share 0.05 --seed 3"              a twentieth of each module's
    make mutation ARGS="assignors --share 0.05"             of the pure files of a package
    make mutation ARGS="placement_core/racks.py --tests tests/placement_core"
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib
import json
import math
import os
import random
import resource
import signal
import sys
import types
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path

import coverage
import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.configuration import config
from mutmut.mutation.file_mutation import create_mutations

ROOT = Path(__file__).parents[1]
SECONDS = 3.0
"""CPU seconds of tests for a mutant, at most: tests that would take longer are not run."""
FEWEST = 15
"""Mutants of a module in a sample, if it has so many."""
MEMORY_BYTES = 4 << 30
FILE = ROOT / "build" / "mutation.json"
"""Keeps the measurements of tests."""
FOLDERS = ("placement_core", "assignors", "tests")
KILLED, SURVIVED, INVALID = 1, 0, 2
"""Exit statuses of children. Every other is one of a child that used up its time or memory."""

# Few examples, and no search for the smallest that fails.
settings.register_profile(
    "mutation",
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=20,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """A change of the text of one function: ``source[start:end]`` becomes ``text``."""

    path: str
    start: int
    end: int
    text: str
    function: str
    """Qualified name."""
    line: int
    lines: range
    """Of the changed statement, without the block of a compound one."""

    def describe(self, source: str) -> str:
        """Return the place, and the lines before and after the change."""
        begin, stop = source.rfind("\n", 0, self.start) + 1, source.find("\n", self.end)
        after = source[begin : self.start] + self.text + source[self.end : stop]
        lines = [f"{self.path}:{self.line} {self.function}"]
        lines += [f"- {line}" for line in source[begin:stop].splitlines()]
        lines += [f"+ {line}" for line in after.splitlines()]
        return "\n".join(lines)


def find_mutants(path: str, source: str) -> list[Mutant]:
    """Return the mutants of a module, by place."""
    module, mutations, _, _ = create_mutations(path, source)
    positions = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    starts = [0, *accumulate(len(line) for line in source.splitlines(keepends=True))]
    functions: dict[int, str] = {}
    statements, messages = [], []
    tree = ast.parse(source)
    for outer in tree.body:
        prefix, body = "", [outer]
        if isinstance(outer, ast.ClassDef):
            prefix, body = f"{outer.name}.", outer.body
        for each in body:
            if isinstance(each, ast.FunctionDef):
                last = each.end_lineno or each.lineno
                functions |= dict.fromkeys(range(each.body[0].lineno, last + 1), prefix + each.name)
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            block = getattr(node, "body", None)
            last = block[0].lineno - 1 if block else node.end_lineno or node.lineno
            statements.append(range(node.lineno, max(node.lineno, last) + 1))
        match node:
            case ast.Raise() | ast.Call(func=ast.Attribute(value=ast.Name(id="log"))):
                messages.append(_lines(node))
    mutants = set()
    for mutation in mutations:
        span = positions[mutation.original_node]
        line = span.start.line
        if line not in functions:
            continue
        if any(line in each and span.end.line in each for each in messages):
            continue
        mutants.add(
            Mutant(
                path,
                starts[line - 1] + span.start.column,
                starts[span.end.line - 1] + span.end.column,
                module.code_for_node(mutation.mutated_node),
                functions[line],
                line,
                min((each for each in statements if line in each), key=len),
            )
        )
    return sorted(mutants)


def _lines(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


class MutationRun:
    """A pytest plug-in that runs mutants in place of the tests."""

    def __init__(self, paths: Sequence[Path], share: float, seed: int, jobs: int) -> None:
        self._names = [path.relative_to(ROOT).as_posix() for path in paths]
        self._sources = {name: (ROOT / name).read_text(encoding="utf-8") for name in self._names}
        self._found = {name: find_mutants(name, self._sources[name]) for name in self._names}
        self._jobs = jobs
        self._chosen: list[Mutant] = []
        for name, found in self._found.items():
            count = min(len(found), max(FEWEST, math.ceil(len(found) * share)))
            self._chosen += sorted(random.Random(f"{seed} {name}").sample(found, count))
        self._invalid = 0
        self._results: dict[str, Counter[bool]] = defaultdict(Counter)
        """Number of mutants killed (True) and survived by module."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Learn what each test executes, then run the mutants, until Ctrl-C."""
        if session.testsfailed:
            raise pytest.UsageError("the tests cannot be collected")
        for name in self._names:
            module = name.removesuffix(".py").removesuffix("/__init__")
            importlib.import_module(module.replace("/", "."))
        functions = defaultdict(list)
        for each in gc.get_objects():
            if isinstance(each, types.FunctionType):
                functions[each.__code__.co_filename, each.__code__.co_qualname].append(each)
        total = sum(map(len, self._found.values()))
        _say(f"{len(self._chosen)} of {total} mutants, {len(session.items)} tests")
        seconds, executed = measure_tests(session.items)
        # One folder for the temporary files of all children, which pytest removes later.
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        children: dict[int, Mutant] = {}
        try:
            for mutant in self._chosen:
                chosen = set().union(*(executed[mutant.path, line] for line in mutant.lines))
                tests = order_tests(session.items, chosen, seconds)
                if len(children) == self._jobs:
                    self._wait(children)
                if pid := os.fork():
                    children[pid] = mutant
                    continue
                status = INVALID
                try:
                    targets = functions[str(ROOT / mutant.path), mutant.function]
                    replace_code(mutant, self._sources[mutant.path], targets)
                    status = run_tests(session.items, tests, seconds)
                finally:
                    os._exit(status)
            while children:
                self._wait(children)
        except KeyboardInterrupt:
            for pid in children:
                os.kill(pid, signal.SIGKILL)
        return True

    def _wait(self, children: dict[int, Mutant]) -> None:
        pid, status = os.wait()
        mutant, code = children.pop(pid), os.waitstatus_to_exitcode(status)
        if code == INVALID:
            self._invalid += 1
            return
        self._results[mutant.path][code != SURVIVED] += 1
        if code == SURVIVED:
            print(mutant.describe(self._sources[mutant.path]), end="\n\n", flush=True)
        done = sum(row.total() for row in self._results.values())
        if done % 50 == 0:
            _say(f"{done} of {len(self._chosen)}")

    def report(self) -> None:
        """Print a table of the modules; the share of all weighs each module's by its mutants."""
        _say(f"{self._invalid} mutants are no valid code, and do not count")
        print(f"{'module':45} {'mutants':>8} {'run':>6} {'killed':>7} {'%':>6}")
        weighed = 0.0
        for name, row in self._results.items():
            share = row[True] / row.total()
            weighed += share * len(self._found[name])
            _row(name, len(self._found[name]), row, share)
        total = sum(len(self._found[name]) for name in self._results)
        _row("all", total, sum(self._results.values(), Counter()), weighed / max(total, 1))


def _row(name: str, mutants: int, row: Counter[bool], share: float) -> None:
    print(f"{name:45} {mutants:8} {row.total():6} {row[True]:7} {100 * share:6.1f}")


def _say(text: str) -> None:
    print(text, file=sys.__stderr__, flush=True)


@dataclass
class Measurements:
    """What tests execute, and the time they take; kept in a file, because it takes minutes."""

    digests: dict[str, str]
    """Digests of source files and of tests."""
    tests: dict[str, tuple[float, dict[str, list[int]]]]
    """CPU seconds and executed lines by path of each test, by node id."""

    @classmethod
    def read(cls) -> Measurements:
        """Return those that are still true: of tests that execute no changed file."""
        digests = {
            path.relative_to(ROOT).as_posix(): sha256(path.read_bytes()).hexdigest()
            for folder in FOLDERS
            for path in (ROOT / folder).rglob("*.py")
        }
        if not FILE.exists():
            return cls(digests, {})
        old, tests = json.loads(FILE.read_text(encoding="utf-8"))
        same = {path for path in digests if digests[path] == old.get(path)}
        return cls(digests, {name: test for name, test in tests.items() if test[1].keys() <= same})

    def write(self) -> None:
        """Write the file."""
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps([self.digests, self.tests]), encoding="utf-8")

    def add(self, items: Sequence[pytest.Item]) -> None:
        """Run tests; exit the process if one fails."""
        measured = coverage.Coverage(
            data_file=None, config_file=False, source=[str(ROOT / folder) for folder in FOLDERS]
        )
        for index, item in enumerate(items, 1):
            measured.erase()
            start = sum(os.times()[:4])
            with measured.collect():
                passed = _passes(item, items[index] if index < len(items) else None)
            if not passed:
                _say(f"{item.nodeid} fails without any mutant")
                sys.exit(1)
            data = measured.get_data()
            lines = {
                Path(file).relative_to(ROOT).as_posix(): executed
                for file in data.measured_files()
                if (executed := data.lines(file))
            }
            self.tests[item.nodeid] = (sum(os.times()[:4]) - start, lines)
            if index % 100 == 0 or index == len(items):
                self.write()
                _say(f"{index} of {len(items)} tests without a mutant")


def measure_tests(
    items: Sequence[pytest.Item],
) -> tuple[list[float], dict[tuple[str, int], set[int]]]:
    """Return the CPU seconds of each test, and the tests that execute each line.

    They run in a child, which leaves this process as it was. Raises UsageError if one fails.
    """
    known = Measurements.read()
    if missing := [item for item in items if item.nodeid not in known.tests]:
        if (pid := os.fork()) == 0:
            status = 1
            try:
                known.add(missing)
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(pid, 0)[1] != 0:
            raise pytest.UsageError("the tests cannot be run without mutants")
        known = Measurements.read()
        if not known.tests.keys() >= {item.nodeid for item in missing}:
            raise pytest.UsageError("files were changed while the tests ran: start again")
    executed = defaultdict(set)
    for index, item in enumerate(items):
        for path, lines in known.tests[item.nodeid][1].items():
            for line in lines:
                executed[path, line].add(index)
    return [known.tests[item.nodeid][0] for item in items], executed


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def replace_code(mutant: Mutant, source: str, functions: Sequence[types.FunctionType]) -> None:
    """Give functions the code of the mutant; raise ValueError or SyntaxError if it has none."""
    text = source[: mutant.start] + mutant.text + source[mutant.end :]
    module = compile(text, ROOT / mutant.path, "exec", dont_inherit=True)
    (code,) = (each for each in _codes(module) if each.co_qualname == mutant.function)
    for function in functions:
        function.__code__ = code


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _codes(each)


def order_tests(
    items: Sequence[pytest.Item], tests: Collection[int], seconds: Sequence[float]
) -> list[int]:
    """Return tests in the order in which to run them: see the docstring of this module."""
    cases: Counter[str] = Counter()
    priority: dict[int, float] = {}
    for test in sorted(tests, key=lambda test: (seconds[test], test)):
        function = items[test].nodeid.partition("[")[0]
        cases[function] += 1
        priority[test] = seconds[test] * cases[function]
    return sorted(tests, key=lambda test: (priority[test], test))


def run_tests(items: Sequence[pytest.Item], tests: Sequence[int], seconds: Sequence[float]) -> int:
    """Run tests until one fails or the time is used up; return the exit status of the child."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    # A test that waits for ever does not use up CPU time.
    signal.alarm(900)
    rest = SECONDS
    for test in tests:
        if seconds[test] > rest:
            continue
        rest -= seconds[test]
        # Ends the process if the test uses several times the CPU time that it should.
        signal.setitimer(signal.ITIMER_PROF, 1 + 5 * seconds[test])
        if not _passes(items[test], None):
            return KILLED
    return SURVIVED


def main() -> None:
    """Parse the command line, run the mutants and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", default=config().source_paths, help="files and folders")
    parser.add_argument("--share", type=float, default=1.0, help="of each module's mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--tests", nargs="+", default=config().pytest_add_cli_args_test_selection, help="of pytest"
    )
    options = parser.parse_args()
    pure = set(_files(config().source_paths))
    paths = [path for path in _files(options.paths) if path in pure]
    if not paths:
        parser.error("these files are not in source_paths of [tool.mutmut] in pyproject.toml")
    run = MutationRun(paths, options.share, options.seed, options.jobs)
    status = pytest.main([*config().pytest_add_cli_args, *options.tests], plugins=[run])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(status)
    run.report()


def _files(paths: Iterable[str | Path]) -> list[Path]:
    """Return the Python files that ``paths`` name, and those in the folders among them."""
    files: list[Path] = []
    for path in paths:
        files += sorted((ROOT / path).rglob("*.py")) or [ROOT / path]
    return files


if __name__ == "__main__":
    main()
