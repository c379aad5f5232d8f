# SPDX-License-Identifier: Apache-2.0
"""nova-pinning exporter on a large fleet: time, CPU time and memory.

Each case runs in a process of its own, ``python -m benchmarks.speed.exporting
NAME``, so that the memory is that of the exporter alone. One case has hosts
that are all in different states, as churn leaves them, and is handed them; the
other reads them from nova's databases, in SQLite files.
"""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import json
import pathlib
import random
import resource
import sys
import tempfile
import threading
import time
import types
from typing import Any
import urllib.request

from benchmarks import runner
from benchmarks.speed import commands

#: The bars: the first count, one of few changed hosts, a scrape meanwhile,
#: and memory.
FIRST_S, CHANGED_S, SCRAPE_S, MEMORY_MIB = 60.0, 1.0, 1.0, 1536.0
#: How soon a change has to be seen, of which the interval of readings, 15 s
#: by default, is a part.
SEEN_S = 15.0
_CHANGED = 50


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A fleet that is exported.

    :param reads: whether it is read from nova's databases
    """

    name: str
    title: str
    reads: bool
    hosts: int = 5000


CASES = (
    Case('exporter', '5,000 hosts in different states', False),
    Case('exporter-database', "the same from nova's databases", True),
)


def summarise(case: Case, figures: Mapping[str, float]) -> runner.Outcome:
    """What an exporter took.

    CPU time is judged, which a busy machine does not change.
    """
    limit_s = SEEN_S if case.reads else CHANGED_S
    return runner.outcome(
        case.name, case.title, {
            name: runner.Figure(figures[name], unit, limit)
            for name, unit, limit in (
                ('first_s', '{:.1f} s', None),
                ('first_cpu_s', '{:.1f} s', FIRST_S),
                ('changed_s', '{:.2f} s', None),
                ('changed_cpu_s', '{:.2f} s', limit_s),
                ('scrape_s', '{:.2f} s', SCRAPE_S),
                ('memory_mib', '{:,.0f} MiB', MEMORY_MIB))},
        () if figures['recounted'] == _CHANGED else [
            f'{figures["recounted"]} hosts were counted again, {_CHANGED} '
            'had changed'],
        guests=figures['guests'], flavors=figures['flavors'])


def run(cases: Sequence[Case], _options: argparse.Namespace,
        step: runner.Step) -> list[runner.Outcome]:
    """Measure cases, each in its own process.

    :raises runner.BenchmarkError: if one of them fails
    """
    outcomes = []
    for case in cases:
        done = commands.ProcessRun.of([
            sys.executable, '-W', 'ignore', '-m', 'benchmarks.speed.exporting',
            case.name])
        outcomes.append(summarise(case, json.loads(done.stdout)))
        step(case.name)
    return outcomes


def measure(case: Case) -> dict[str, Any]:
    """All figures of an outcome, of this process.

    ``cpu_s`` is CPU time of the whole process; ``first`` is to read, where it
    reads, and to count at first, ``changed`` the same once few hosts have
    changed, ``scrape`` the longest of those while that went on. The memory is
    the most that was held at once, after another full reading.
    """
    from nova_pinning.bridge.offline import standalone
    standalone.prepare()
    with tempfile.TemporaryDirectory() as directory:
        source, change = (_database if case.reads else _memory)(
            case, pathlib.Path(directory))
        return _measure(source, change)


def _measure(source: Any, change: Callable[[], None]) -> dict[str, Any]:
    from nova_pinning.exporter import fleet_watch
    from nova_pinning.exporter import task_metrics
    from nova_pinning.exporter import web_server
    tasks = task_metrics.TaskMetrics()
    watch = fleet_watch.FleetWatch(source, tasks=tasks)
    server = web_server.WebServer({
        '/metrics': lambda: web_server.WebPage(
            (watch.text() + tasks.text()).encode(), 'text/plain')},
        '127.0.0.1', 0)
    server.start()
    first = _timed(watch.refresh)
    # Once more what was written just before.
    watch.refresh()
    before = tasks.hosts_recounted._value.get()
    change()
    with _scraping(f'{server.url}metrics') as scrapes:
        changed = _timed(watch.refresh)
    recounted = int(tasks.hosts_recounted._value.get() - before)
    source.forget()
    watch.refresh()
    server.stop()
    fleet = watch.fleet
    assert fleet is not None
    return {
        'guests': len(fleet.guests), 'flavors': len(fleet.flavors),
        'first_s': first[0], 'first_cpu_s': first[1],
        'changed_s': changed[0], 'changed_cpu_s': changed[1],
        'scrape_s': max(scrapes), 'recounted': recounted,
        'memory_mib': resource.getrusage(
            resource.RUSAGE_SELF).ru_maxrss / 1024}


def _timed(action: Callable[[], None]) -> tuple[float, float]:
    """Wall-clock and CPU time, both in seconds, the latter of all threads."""
    start, cpu = time.monotonic(), time.process_time()
    action()
    return time.monotonic() - start, time.process_time() - cpu


@contextlib.contextmanager
def _scraping(url: str) -> Iterator[list[float]]:
    """Scrape once, and then as long as the context lasts.

    :returns: how long each took, in seconds
    """
    taken: list[float] = []
    ended = threading.Event()

    def scrape() -> None:
        while True:
            start = time.monotonic()
            with urllib.request.urlopen(url, timeout=60) as answer:
                answer.read()
            taken.append(time.monotonic() - start)
            if ended.wait(0.1):
                return

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield taken
    finally:
        ended.set()
        thread.join()


def _source(read: Callable[[], Any], forget: Callable[[], None]) -> Any:
    """Hands on a fleet, with 40 flavors.

    :param read: gives it
    """
    from nova_pinning.cli import select
    flavors = tuple(select.named_flavor(word, (), '')
                    for word in commands.forty_flavors() if word != '--flavor')
    return types.SimpleNamespace(
        read=lambda: dataclasses.replace(read(), flavors=flavors),
        forget=forget)


def _memory(case: Case, directory: pathlib.Path,
            ) -> tuple[Any, Callable[[], None]]:
    fleet = commands.large_fleet(case.hosts)
    names = {host.name for host in random.Random(1).sample(
        fleet.hosts, _CHANGED)}

    def change() -> None:
        nonlocal fleet
        kept, left = [], set(names)
        for guest in fleet.guests:
            if guest.host in left:
                left.remove(guest.host)
            else:
                kept.append(guest)
        fleet = dataclasses.replace(fleet, guests=tuple(kept))

    return _source(lambda: fleet, lambda: None), change


def _database(case: Case, directory: pathlib.Path,
              ) -> tuple[Any, Callable[[], None]]:
    from oslo_config import cfg

    from nova_pinning.conf import exporter
    from nova_pinning.exporter import fleet_sources
    from nova_pinning.tests import novadatabase
    nova = novadatabase.NovaDatabase(directory)
    nova.create_tables()
    nova.add_mappings()
    nova.fill(case.hosts, 10)
    conf = cfg.ConfigOpts()
    exporter.register_opts(conf)
    conf([])
    source = fleet_sources.DatabaseSource(
        [str(nova.conf)], conf.pinning_exporter, {})

    def change() -> None:
        nova.move_guests([(f'cmp-{number}-0', f'cmp-{number + 1}')
                          for number in range(0, _CHANGED, 2)])

    return _source(source.read, source.close), change


GROUP = runner.Group(
    key='exporters', cases=CASES, measure=run, is_quick=lambda _case: False,
    headings=('exporter', 'first', 'CPU', '50 changed', 'CPU', 'scrape',
              'memory'),
    explain=lambda _outcomes, _options: (
        'nova-pinning exporter with 50,000 guests, or as many as fit, and 40 '
        'flavors, once each: to read and count all hosts, then 50 that have '
        'changed, and the longest scrape meanwhile. Bars, for CPU time and '
        f'scrapes: {FIRST_S:g} s, {CHANGED_S:g} s to count ({SEEN_S:g} s to '
        f'read and count), {SCRAPE_S:g} s; memory {MEMORY_MIB:,.0f} MiB.'))


def main(argv: Sequence[str]) -> int:
    """Measure the one case that is named, and print it as JSON."""
    case, = (case for case in CASES if case.name in argv)
    print(json.dumps(measure(case)))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
