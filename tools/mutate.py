# SPDX-License-Identifier: Apache-2.0
"""Change the code, one small thing at a time, and see if a test fails.

The changes are cosmic-ray's; each is tried in a process that was forked after
all that is not ours had been imported, so that it takes a second or two. What
was tried is kept in a file: a run that was cut off, or one with a larger
sample of the same seed, goes on from there.

    tox -e mutation -- --sample 300 --seed 1
"""

import argparse
import ast
import collections
import dataclasses
import importlib.abc
import importlib.util
import io
import json
import os
import pathlib
import random
import resource
import signal
import sys
import time
import unittest

from cosmic_ray import ast as cosmic_ast
from cosmic_ray import mutating
from cosmic_ray import plugins
import testtools

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = 'nova_pinning'
OURS = (PACKAGE, 'benchmarks', 'demo', 'minicloud')

#: What is changed, and the tests that should notice.
AREAS = {
    'fit': ('unit/fit', 'unit/test_fit_properties.py',
            'unit/bridge/test_claim.py', 'unit/bridge/test_fleet_claim.py',
            'unit/bridge/test_pci.py'),
    'scheduler': ('unit/scheduler',),
    'capacity': ('unit/capacity',),
}

#: Not those that put in random names, and one of each kind: a test that
#: notices + for - would notice % as well.
OPERATORS = tuple(f'core/{name}' for name in (
    'AddNot', 'ExceptionReplacer', 'NumberReplacer', 'ReplaceAndWithOr',
    'ReplaceOrWithAnd', 'ReplaceBreakWithContinue',
    'ReplaceContinueWithBreak', 'ReplaceFalseWithTrue',
    'ReplaceTrueWithFalse', 'ReplaceUnaryOperator_Delete_Not',
    'ReplaceUnaryOperator_Delete_USub', 'ZeroIterationForLoop',
    *(f'ReplaceBinaryOperator_{pair}' for pair in (
        'Add_Sub', 'Sub_Add', 'Mul_FloorDiv', 'Div_Mul', 'FloorDiv_Mul',
        'Mod_Mul', 'BitAnd_BitOr', 'BitOr_BitAnd', 'LShift_RShift',
        'RShift_LShift')),
    *(f'ReplaceComparisonOperator_{pair}' for pair in (
        'Eq_NotEq', 'NotEq_Eq', 'Lt_LtE', 'Lt_GtE', 'LtE_Lt', 'LtE_Gt',
        'Gt_GtE', 'Gt_LtE', 'GtE_Gt', 'GtE_Lt', 'Is_IsNot', 'IsNot_Is'))))

#: How many times as much CPU time as without a change the tests may take, and
#: how long if they use none.
PATIENCE = 5
LIMIT_SECONDS = 3600
MEMORY_BYTES = 6 << 30


@dataclasses.dataclass(frozen=True, slots=True)
class Mutant:
    """A change: an operator, applied to the nth place that it fits."""

    area: str
    path: str
    operator: str
    occurrence: int
    line: int

    def source(self) -> str:
        return mutating.mutate_code(
            (ROOT / self.path).read_text(),
            plugins.get_operator(self.operator)(), self.occurrence)

    def __str__(self) -> str:
        old = (ROOT / self.path).read_text().splitlines()
        new = self.source().splitlines()
        changed = next((line for line, other in zip(new, old)
                        if line != other), '').strip()
        return f'{self.path}:{self.line}: {changed}'


def _annotations(source: str) -> set[tuple[int, int]]:
    """Where annotations begin and all within them: no test looks at those."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        for name in ('annotation', 'returns'):
            annotation = getattr(node, name, None)
            if annotation is not None:
                for line in range(annotation.lineno,
                                  annotation.end_lineno + 1):
                    first = (annotation.col_offset
                             if line == annotation.lineno else 0)
                    last = (annotation.end_col_offset
                            if line == annotation.end_lineno else 80)
                    found.update((line, column)
                                 for column in range(first, last))
    return found


def mutants(area: str) -> list[Mutant]:
    """Return all changes that can be made in an area, in order."""
    found = []
    for path in sorted((ROOT / PACKAGE / area).rglob('*.py')):
        source = path.read_text()
        left_out = _annotations(source)
        tree = cosmic_ast.get_ast(source)
        for name in OPERATORS:
            operator = plugins.get_operator(name)()
            positions = (
                start for node in cosmic_ast.ast_nodes(tree)
                for start, _end in operator.mutation_positions(node))
            found += [
                Mutant(area, str(path.relative_to(ROOT)), name, number,
                       start[0])
                for number, start in enumerate(positions)
                if tuple(start) not in left_out]
    return found


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other source than its file has."""

    def __init__(self, path: str, source: str) -> None:
        self._path = path
        self._source = source
        self._name = path.removesuffix('.py').replace('/', '.')
        self._name = self._name.removesuffix('.__init__')

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        return importlib.util.spec_from_file_location(
            name, ROOT / self._path, loader=self,
            submodule_search_locations=(
                [str((ROOT / self._path).parent)]
                if self._path.endswith('__init__.py') else None))

    def exec_module(self, module) -> None:
        exec(compile(self._source, self._path, 'exec'), module.__dict__)


def suite(area: str) -> unittest.TestSuite:
    """Load the tests of an area."""
    loader = unittest.TestLoader()
    tests = unittest.TestSuite()
    for name in AREAS[area]:
        path = ROOT / PACKAGE / 'tests' / name
        if not path.exists():
            raise FileNotFoundError(path)
        directory, pattern = (
            (path, 'test*.py') if path.is_dir() else (path.parent, path.name))
        tests.addTests(loader.discover(
            str(directory), pattern=pattern, top_level_dir=str(ROOT)))
    if loader.errors:
        raise ImportError('\n'.join(loader.errors))
    return tests


def _forget() -> None:
    """Have all that is ours imported anew."""
    for name in list(sys.modules):
        if name.partition('.')[0] in OURS:
            del sys.modules[name]


def _child(mutant: Mutant | None, area: str) -> bool:
    """Tell whether the tests of an area succeed, in its own process."""
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    output = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(output, number)
    if mutant is not None:
        sys.meta_path.insert(0, Finder(mutant.path, mutant.source()))
    result = testtools.TextTestResult(io.StringIO(), failfast=True)
    result.startTestRun()
    suite(area).run(result)
    return bool(result.wasSuccessful() and result.testsRun)


def judge(mutant: Mutant | None, area: str,
          cpu_seconds: int) -> tuple[str, float]:
    """Run the tests of an area on a mutant.

    :param cpu_seconds: the most that they may take
    :returns: 'survived', 'killed' or 'timeout', and the CPU seconds
    """
    pid = os.fork()
    if not pid:
        status = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU,
                               (cpu_seconds, cpu_seconds))
            status = 0 if _child(mutant, area) else 1
        finally:
            os._exit(status)
    limit = time.monotonic() + LIMIT_SECONDS
    while True:
        ended, status, used = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > limit:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.02)
    outcome = 'killed' if status else 'survived'
    if os.WIFSIGNALED(status):
        outcome = 'timeout'
    return outcome, used.ru_utime + used.ru_stime


def _report(results: dict[Mutant, str]) -> None:
    for mutant, outcome in results.items():
        if outcome == 'survived':
            print(mutant)
    print()
    for area in AREAS:
        counts = collections.Counter(
            outcome for mutant, outcome in results.items()
            if mutant.area == area)
        total = counts.total()
        if total:
            noticed = total - counts['survived']
            print(f'{area}: {noticed} of {total} noticed, '
                  f'{100 * noticed / total:.0f} %')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('areas', nargs='*', default=list(AREAS),
                        help=f'of {", ".join(AREAS)} (default: all)')
    parser.add_argument('--sample', type=int, default=100, metavar='N',
                        help='changes to try in each area (default: '
                             '%(default)s)')
    parser.add_argument('--seed', type=int, default=1,
                        help='which ones (default: %(default)s)')
    parser.add_argument('--results', type=pathlib.Path,
                        default=ROOT / '.mutation.jsonl', metavar='FILE',
                        help='what was tried (default: %(default)s)')
    parser.add_argument('--nice', type=int, default=19,
                        help='lower priority by this (default: %(default)s)')
    options = parser.parse_args()
    # Examples are the same each time: a mutant's fate is its own.
    os.environ['CI'] = 'true'
    os.nice(options.nice)
    kept = {}
    if options.results.exists():
        for line in options.results.read_text().splitlines():
            row = json.loads(line)
            outcome = row.pop('outcome')
            kept[Mutant(**row)] = outcome
    results = {}
    for area in options.areas:
        suite(area)
        _forget()
        outcome, seconds = judge(None, area, LIMIT_SECONDS)
        if outcome != 'survived':
            sys.exit(f'{area}: the tests fail without a change')
        chosen = mutants(area)
        print(f'{area}: {len(chosen)} changes can be made; without one its '
              f'tests take {seconds:.0f} CPU seconds', flush=True)
        random.Random(options.seed).shuffle(chosen)
        with options.results.open('a') as file:
            for mutant in chosen[:options.sample]:
                if mutant not in kept:
                    kept[mutant], _used = judge(
                        mutant, area, 10 + round(PATIENCE * seconds))
                    print(json.dumps({**dataclasses.asdict(mutant),
                                      'outcome': kept[mutant]}),
                          file=file, flush=True)
                results[mutant] = kept[mutant]
    _report(results)
    return 0


if __name__ == '__main__':
    sys.exit(main())
