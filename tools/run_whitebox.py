# SPDX-License-Identifier: Apache-2.0
"""Run whitebox-tempest-plugin's tests on a minicloud with our filters.

That plugin is not ours; it looks at libvirt's XML and at nova's database for
what was asked of nova's API. whitebox_adapter.py stands in for its SSH. Each
test that fails is shown with its cause. The exit status is zero only if some
passed and the causes of all failures are known.
"""

import argparse
import csv
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import run_tempest
import run_tests
import whitebox_adapter

ROOT = run_tests.ROOT

from minicloud import files  # noqa: E402
from minicloud import nova  # noqa: E402
from minicloud import options as cloud_options  # noqa: E402
from minicloud import settings  # noqa: E402
from minicloud import virtual  # noqa: E402
from nova_pinning import cpuset  # noqa: E402

PLUGIN = 'whitebox_tempest_plugin'
#: Below PLUGIN.api.compute: what has to do with CPUs, memory and PCI devices.
MODULES = ('test_cpu_pinning', 'test_cpu_state_mgmt', 'test_hugepages',
           'test_live_migration', 'test_sriov', 'test_vdpa')
TABLES = ROOT / 'doc' / 'source' / 'contributor'

#: Ours come last. HostClassFilter is left out: the tests put floating guests
#: on the hosts of pinned ones. The others are for hints that the tests give.
FILTERS = (
    *(name for name in nova.FILTERS
      if name not in ('HostClassFilter', 'PinnedTopologyFilter')),
    'SameHostFilter', 'DifferentHostFilter', 'PinnedTopologyFilter')
#: What whitebox is told besides, so that it does not skip tests: ours is there
#: in its place.
REPLACED = 'NUMATopologyFilter'


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """Hosts to run the tests on.

    :param topology: of each host, sockets x cores x threads, '' for hosts
        that are this machine
    :param hosts: CPUs by host, as minicloud takes them
    :param huge_pages: of 2 MiB, to reserve on this machine
    :param build_seconds: how long anything may take
    :param tests: what is run if nobody says what, a regular expression
    """

    topology: str
    hosts: dict[str, str]
    huge_pages: int
    build_seconds: int
    tests: str = '|'.join(MODULES)

    @property
    def cells(self):
        """The CPUs of each NUMA cell, lists by the cell's number."""
        if not self.topology:
            return {0: sorted(cpuset.CpuSet(os.sched_getaffinity(0)))}
        topology = virtual.Topology.parse(self.topology)
        return {cell: list(topology.node_cpus(cell))
                for cell in range(topology.sockets)}

    @property
    def has_threads(self):
        return bool(self.topology) and not self.topology.endswith('x1')

    def per_cell(self, kind):
        """How many CPUs each cell of each host has at least.

        :param kind: 'dedicated' or 'shared'
        """
        return min(len(set(cell) & set(cloud_options.cpu_sets(cpus)[kind]))
                   for cpus in self.hosts.values()
                   for cell in self.cells.values())


LAYOUTS = {
    # What two CPUs are enough for. A test wants to see that a guest has other
    # CPUs after it was moved.
    'machine': Layout('', {
        'pinning-1': 'dedicated:1,shared:0',
        'pinning-2': 'dedicated:0,shared:1',
    }, 128, 120),
    # For what takes two CPUs of a kind in a cell.
    'dedicated': Layout('', {
        'pinning-1': 'dedicated:0-1',
        'pinning-2': 'dedicated:0-1',
    }, 128, 120, 'test_cpu_pinning|test_live_migration'),
    'shared': Layout('', {
        'pinning-1': 'shared:0-1',
        'pinning-2': 'shared:0-1',
    }, 128, 120, 'test_hugepages|test_cpu_shared'),
    # Four dedicated and two shared CPUs in each cell.
    'virtual': Layout('2x4x2', {
        'virtual-1': 'dedicated:0-3,8-11,shared:4-5,12-13',
        'virtual-2': 'dedicated:4-7,12-15,shared:0-1,8-9',
    }, 0, 600),
}

#: What the scheduler says before any filter is asked.
NO_CANDIDATES = 'Got no allocation candidates from the Placement API'
#: Why tests fail: layouts, names of tests, what is seen of it, causes.
CAUSES: tuple[tuple[tuple[str, ...], str, str, str], ...] = (
    (('machine',),
     r'\.(test_threads_isolate|test_in_place_rebuild'
     r'|test_live_migrate_and_reboot)', NO_CANDIDATES,
     'The flavor has two dedicated vCPUs, and a host one dedicated CPU, which '
     'is its max_unit of PCPU'),
    (('machine',), r'\.HugePageResize\.', NO_CANDIDATES,
     'The flavor has two vCPUs, and a host one shared CPU, which is its '
     'max_unit of VCPU'),
    (('dedicated',), r'\.test_cpu_pinning_and_emulator_threads',
     r'Emulator threads for server .* is not the same as CPU set set\(\)',
     'It wants shared CPUs for emulator threads, and looks for the number of '
     'dedicated ones instead to find out whether there are some'),
    (('dedicated',), r'\.test_live_migrate_and_reboot',
     r"After migration the the server's current pinned CPU's .* should no "
     r'longer match',
     'It wants no CPU to be among the dedicated ones of both hosts'),
    (('virtual',), r'\.test_threads_isolate',
     'on which nova never fits thread policy "isolate"',
     'Nova pins no guest with thread policy isolate to a host cell with '
     'hardware threads and a dedicated CPU set (bug 1889633, '
     '_pack_instance_onto_cores)'),
)
#: Of the scheduler's log, who says why there is no host.
SPEAKERS = ('nova.scheduler.manager', 'nova_pinning.scheduler.reasoned')


def nodes(cloud, layout):
    """Return what whitebox knows of the hosts, for its nodes_yaml."""
    found = {}
    for name, cpus in layout.hosts.items():
        etc = settings.State(cloud.state).etc / name
        sets = cloud_options.cpu_sets(cpus)
        found[name] = {
            'cpu_dedicated_set': str(sets['dedicated']),
            'cpu_shared_set': str(sets['shared']),
            'services': {
                'libvirt': {},
                'nova-compute': {
                    'config_path': str(etc / 'nova-compute.conf'),
                    'start_command': whitebox_adapter.service_command(
                        'start', name),
                    'stop_command': whitebox_adapter.service_command(
                        'stop', name)}}}
    return found


def tempest_conf(cloud, layout, filters, scratch):
    """Return the sections of tempest.conf."""
    sections = run_tempest.tempest_conf(
        cloud, layout.hosts, bool(layout.topology), scratch)
    del sections['pinning']
    sections['compute'] |= {
        'build_timeout': layout.build_seconds,
        # Of hosts that are this machine, there are other ones.
        'max_microversion': 'latest'}
    sections['compute-feature-enabled'] |= {
        'scheduler_enabled_filters': ','.join([*filters, REPLACED]),
        'volume_backed_live_migration': False}
    sections['whitebox'] = {
        'nodes_yaml': scratch / 'nodes.yaml',
        'max_compute_nodes': len(layout.hosts),
        'libvirt_hw_machine_type': 'pc'}
    sections['whitebox-database'] = {
        'host': settings.CONTROLLER_ADDRESS, 'user': 'cloud',
        'password': settings.State(cloud.state).secret,
        'nova_cell1_db_name': 'nova'}
    sections['whitebox-hardware'] = {
        'smt_hosts': ','.join(layout.hosts) if layout.has_threads else '',
        'cpu_topology': ','.join(
            f'{cell}:[{",".join(map(str, cpus))}]'
            for cell, cpus in layout.cells.items()),
        'configured_hugepage_sizes': 2048,
        'dedicated_cpus_per_numa': layout.per_cell('dedicated'),
        'shared_cpus_per_numa': layout.per_cell('shared'),
        'realtime_mask': '1' if layout.topology else None}
    return sections


def run(cloud, layout, filters, regex, scratch):
    """Run the tests.

    :returns: run_tests.Results, and the names of those that passed
    """
    files.write(scratch / 'nodes.yaml', json.dumps(nodes(cloud, layout)))
    files.write(scratch / 'tempest.conf', files.ini(
        tempest_conf(cloud, layout, filters, scratch)))
    package, = importlib.util.find_spec(PLUGIN).submodule_search_locations
    stestr = [sys.executable, '-m', 'stestr', '--repo-url', str(scratch)]
    subprocess.run(
        [*stestr, '--test-path', f'{package}/api/compute',
         '--top-dir', str(pathlib.Path(package).parent),
         'run', '--serial', regex],
        cwd=scratch, env={
            **os.environ, 'TEMPEST_CONFIG_DIR': str(scratch),
            'TEMPEST_CONFIG': 'tempest.conf',
            whitebox_adapter.STATE: str(cloud.state),
            'PYTHON': f'{sys.executable} {whitebox_adapter.__file__}'})
    results, passed = run_tests.Results(), []

    def take(test):
        results.add(test)
        if run_tests.OUTCOMES.get(test['status']) == 'passed':
            passed.append(test['id'])

    run_tests.replay(stestr, take)
    return results, passed


def cause(layout, name, what):
    """Return why a test fails, '' if nobody knows.

    Who has failed before may do so through another fault, so what was seen
    has to be that of the cause.

    :param layout: the name of one
    :param what: what was :func:`seen`
    """
    return next((why for layouts, names, pattern, why in CAUSES
                 if layout in layouts and re.search(names, name) and
                 re.search(pattern, what)), '')


def seen(log, traceback):
    """Return what nova-scheduler said of a test's request.

    Else it is what the test itself said last.

    :param log: nova-scheduler's, text
    """
    requests = set(re.findall(r'req-[\da-f-]{36}', traceback))
    found = []
    for line in log.splitlines():
        match = re.search(r' INFO (\S+) \[\S+ (req-\S+) .*?\] (.*)', line)
        if match and match[1] in SPEAKERS and match[2] in requests:
            found.append(match[3])
    last = traceback.rstrip().rpartition('\n')[2].strip()
    # Servers are others each time.
    return re.sub(r' [\da-f]{8}-[\da-f-]{27}\b', '', ' '.join(found) or last)


def short(name):
    """Return the name of a test from its module on."""
    return name.partition('[')[0].removeprefix(f'{PLUGIN}.api.compute.')


def rows(layout, results, passed, log):
    """Yield the rows of the table, its head first.

    A class that is skipped as a whole is one row.

    :param layout: the name of one
    :param log: nova-scheduler's, text
    """
    yield ['Test', 'Result', 'Why', 'Seen']
    found = [(name, 'passed', '', '') for name in passed]
    for name, traceback in results.failed.items():
        what = seen(log, traceback)
        found.append((name, 'failed', cause(layout, name, what), what))
    found += [(name.removeprefix('setUpClass (').removesuffix(')'), 'skipped',
               ' '.join(why.split()), '')
              for name, why in results.skipped.items()]
    for name, *rest in sorted(found):
        yield [short(name), *rest]


def write(path, table, is_whole):
    """Write a table, or what has changed in it.

    :param is_whole: False if rows are to be kept whose tests were not run
    """
    head, *found = table
    rows = {row[0]: row for row in found}
    if not is_whole and path.exists():
        with path.open(newline='') as file:
            _head, *there = csv.reader(file)
        rows = {row[0]: row for row in there} | rows
    with path.open('w', newline='') as file:
        csv.writer(file, lineterminator='\n').writerows(
            [head, *sorted(rows.values())])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('regex', nargs='?',
                        help='run only the tests whose names match (default: '
                             'those of CPUs, memory, migrations and PCI that '
                             'the layout is for)')
    parser.add_argument('--layout', choices=LAYOUTS, default='virtual',
                        help='the hosts: two CPUs of this machine, one of '
                             'each kind or two of one; or hosts in their own '
                             'QEMUs with sixteen, which is slow (default: '
                             '%(default)s)')
    parser.add_argument('--filters', default=','.join(FILTERS),
                        metavar='NAME,...',
                        help='enabled_filters (default: %(default)s)')
    parser.add_argument('--write', action='store_true',
                        help='replace the table in the documentation, or the '
                             'rows of those tests that were named')
    run_tempest.add_cloud_options(parser)
    options = parser.parse_args()
    layout = LAYOUTS[options.layout]
    filters = options.filters.split(',')
    with run_tempest.running_cloud(
            options, layout.hosts, layout.topology,
            huge_pages=layout.huge_pages, filters=filters) as (cloud, scratch):
        results, passed = run(
            cloud, layout, filters, options.regex or layout.tests, scratch)
    results.show()
    table = list(rows(options.layout, results, passed,
                      cloud.scheduler_log().read_text(errors='replace')))
    print(f'\n{PLUGIN} {importlib.metadata.version(PLUGIN)}, '
          f'layout {options.layout}')
    for row in table:
        print(*row, sep=' | ')
    if options.write:
        write(TABLES / f'whitebox-{options.layout}.csv', table,
              not options.regex)
    unknown = any(result == 'failed' and not why
                  for _test, result, why, _seen in table)
    return 0 if results.counts['passed'] and not unknown else 1


if __name__ == '__main__':
    # So that an end from outside is not the end of all order.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    sys.exit(main())
