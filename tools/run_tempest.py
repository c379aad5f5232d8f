# SPDX-License-Identifier: Apache-2.0
"""Bring a minicloud up, run the tempest plugin's tests on it, take it down.

The last line counts the tests. The exit status is zero only if some passed
and none failed.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile

import openstack
import run_tests

ROOT = run_tests.ROOT

from minicloud import files  # noqa: E402
from minicloud import nova  # noqa: E402
from minicloud import settings  # noqa: E402
from nova_pinning.model import nova_release  # noqa: E402

MINICLOUD = ROOT / 'tools' / 'minicloud'
TESTS = r'^nova_pinning\.tempest_plugin\.'
# What only a virtual host can show, and what it may show otherwise.
VIRTUAL_TESTS = (
    r'\.ThreadPolicyTest\.|\.MemoryTest\.|\.PciTest\.|\.NumaMoveTest\.|'
    r'\.test_realtime')

# On two CPUs: two hosts for dedicated guests to move between, one that has
# both kinds of CPUs, one that is only for shared guests.
HOSTS = {
    'pinning-1': 'dedicated:0-1',
    'pinning-2': 'dedicated:0-1',
    'pinning-3': 'dedicated:1,shared:0',
    'pinning-4': 'shared:0',
}
# Two sockets, of two cores with two threads each. The last core of the first
# socket is shared. Two of them, for guests to move between.
VIRTUAL_TOPOLOGY = '2x2x2'
VIRTUAL_HOSTS = {
    'virtual-1': 'dedicated:0-1,4-7,shared:2-3',
    'virtual-2': 'dedicated:0-1,4-7,shared:2-3',
}

# More than the huge page test needs, which boots one server.
HUGE_PAGES = 96
# Nova gives back some CPUs only in a periodic task, each minute if nothing is
# said.
COMPUTE = {'DEFAULT': {'update_resources_interval': 5}}
FLAVOR = {'name': 'tempest', 'ram': 64, 'vcpus': 1, 'disk': 1}

# What a machine may lack. A test that is skipped for another reason should
# have run: the layout of the hosts is the same on all machines.
GOOD_REASONS = re.compile(
    r'hardware threads|real time|lock memory|NUMA node|neutron|'
    r'pci_alias')


class Cloud:
    """A minicloud, by its command.

    :param state: pathlib.Path, where it keeps everything
    :param release: of OpenStack, such as '2025.1'
    """

    def __init__(self, state, release):
        self.state = state
        self.release = release
        self.command = [str(MINICLOUD), '--state', str(state)]

    def up(self, hosts, topology, base_port, nova_conf):
        """Bring it up.

        :param hosts: CPUs by host, as minicloud takes them
        :param topology: of each host, sockets x cores x threads, '' for
            hosts that are this machine
        :param base_port: None for what minicloud takes
        :param nova_conf: pathlib.Path, more options for each nova-compute
        """
        options = ['--release', self.release, '--huge-pages', str(HUGE_PAGES)]
        if base_port:
            options += ['--base-port', str(base_port)]
        for name, cpus in hosts.items():
            options += ['--host-cpus', f'{name}={cpus}',
                        '--host-conf', f'{name}={nova_conf}']
        options += (
            ['--hosts', '0', *len(hosts) * ['--virtual-host', topology]]
            if topology else ['--hosts', str(len(hosts))])
        subprocess.run([*self.command, 'up', *options], check=True)

    def down(self):
        subprocess.run([*self.command, 'down'], check=True)

    def environment(self):
        return json.loads(subprocess.run(
            [*self.command, 'env', '--format', 'json'], check=True,
            stdout=subprocess.PIPE).stdout)

    def scheduler_log(self):
        return settings.State(self.state).log / 'nova-scheduler.log'


@contextlib.contextmanager
def running_cloud(options, hosts, topology):
    """Bring a cloud up, and take it down in the end.

    If it does not come up, that is the end of the program: then it has
    cleaned up, or it is somebody else's cloud.

    :param options: of the command line
    :returns: the cloud, and a directory for files
    """
    cloud = Cloud(options.state.resolve(), options.release)
    with tempfile.TemporaryDirectory(prefix='tempest-') as directory:
        scratch = pathlib.Path(directory)
        nova_conf = scratch / 'nova-compute.conf'
        files.write(nova_conf, files.ini(COMPUTE))
        try:
            cloud.up(hosts, topology, options.base_port, nova_conf)
        except subprocess.CalledProcessError as error:
            sys.exit(error.returncode)
        try:
            yield cloud, scratch
        finally:
            if not options.keep:
                cloud.down()


def cpu_sets(hosts):
    """Return the [pinning] cpu_sets of hosts.

    :param hosts: CPUs by host, as minicloud takes them
    """
    lines = []
    for name, cpus in hosts.items():
        sets = cpus.replace(',shared:', ' shared=').replace(':', '=')
        lines.append(f'{name} {sets}')
    return lines


def reference(variables):
    """Register the flavor of the tests, and find the image.

    :param variables: the environment of the openstack command
    :returns: (flavor's id, image's id)
    """
    with openstack.connect(
            load_yaml_config=False, load_envvars=False,
            region_name=variables['OS_REGION_NAME'],
            auth={name.removeprefix('OS_').lower(): variables[name]
                  for name in ('OS_AUTH_URL', 'OS_USERNAME', 'OS_PASSWORD',
                               'OS_PROJECT_NAME', 'OS_USER_DOMAIN_ID',
                               'OS_PROJECT_DOMAIN_ID')}) as connection:
        flavor = (connection.compute.find_flavor(FLAVOR['name']) or
                  connection.compute.create_flavor(**FLAVOR))
        image, = connection.image.images()
        return flavor.id, image.id


def tempest_conf(cloud, hosts, virtual, scratch):
    """Return the sections of tempest.conf."""
    variables = cloud.environment()
    flavor, image = reference(variables)
    seconds = 600 if virtual else 90
    return {
        'DEFAULT': {'log_dir': scratch, 'log_file': 'tempest.log'},
        'oslo_concurrency': {'lock_path': scratch / 'lock'},
        'auth': {
            'use_dynamic_credentials': True,
            'create_isolated_networks': False,
            'admin_username': variables['OS_USERNAME'],
            'admin_password': variables['OS_PASSWORD'],
            'admin_project_name': variables['OS_PROJECT_NAME'],
            'admin_domain_name': 'Default'},
        'identity': {
            'auth_version': 'v3', 'uri_v3': variables['OS_AUTH_URL'],
            'region': variables['OS_REGION_NAME']},
        'service_available': {
            'nova': True, 'glance': True, 'neutron': False, 'cinder': False,
            'swift': False, 'horizon': False},
        'compute': {
            'image_ref': image, 'image_ref_alt': image,
            'flavor_ref': flavor, 'flavor_ref_alt': flavor,
            'min_compute_nodes': len(hosts), 'max_microversion': 'latest',
            'build_interval': 1, 'build_timeout': seconds},
        'compute-feature-enabled': {
            'scheduler_enabled_filters': ','.join(nova.FILTERS),
            'resize': True, 'live_migration': True,
            'block_migration_for_live_migration': True},
        'placement': {'max_microversion': 'latest'},
        'validation': {'run_validation': False},
        'pinning': {
            'host_command':
                f'{shlex.join(cloud.command)} exec {{host}} -- sh -c',
            'cpu_sets': cpu_sets(hosts),
            'scheduler_log_command':
                shlex.join(['cat', str(cloud.scheduler_log())]),
            'pci_alias': nova.PCI_ALIAS['name'] if virtual else '',
            'may_mark_hosts': True, 'isolated_aggregates': True}}


def run(cloud, hosts, virtual, regex, scratch):
    """Run the tests.

    :returns: whether they all passed
    """
    files.write(scratch / 'tempest.conf', files.ini(
        tempest_conf(cloud, hosts, virtual, scratch)))
    done = subprocess.run(
        [sys.executable, '-m', 'tempest.cmd.main', 'run', '--serial',
         '--config-file', 'tempest.conf', '--regex', regex],
        cwd=scratch, env={**os.environ, 'PYTHON': sys.executable})
    results = run_tests.results(
        [sys.executable, '-m', 'stestr', '--repo-url', str(scratch)])
    for name, reason in results.skipped.items():
        if not GOOD_REASONS.search(reason):
            results.failed[name] = f'was skipped: {reason.strip()}'
    results.show()
    return (done.returncode == 0 and results.counts['passed'] > 0 and
            not results.failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('regex', nargs='?',
                        help='run only the tests whose names match (default: '
                             'all; with --virtual, those that need it)')
    parser.add_argument('--virtual', action='store_true',
                        help='on a host in its own QEMU, with NUMA '
                             'nodes and hardware threads; slow')
    parser.add_argument('--keep', action='store_true',
                        help='leave the cloud up in the end')
    parser.add_argument('--release', default=nova_release.NEWEST.name,
                        metavar='NAME',
                        help='of the OpenStack that is tested, such as 2025.1 '
                             '(default: %(default)s)')
    parser.add_argument('--state', type=pathlib.Path,
                        default=os.environ.get('MINICLOUD_STATE',
                                               ROOT / '.minicloud'),
                        help='where minicloud keeps everything (default: '
                             '$MINICLOUD_STATE or .minicloud)')
    parser.add_argument('--base-port', type=int,
                        help='the first of the ports to use (default: what '
                             'minicloud takes, $MINICLOUD_BASE_PORT or its '
                             'own)')
    options = parser.parse_args()
    hosts = VIRTUAL_HOSTS if options.virtual else HOSTS
    regex = options.regex or (VIRTUAL_TESTS if options.virtual else TESTS)
    topology = VIRTUAL_TOPOLOGY if options.virtual else ''
    with running_cloud(options, hosts, topology) as (cloud, scratch):
        good = run(cloud, hosts, options.virtual, regex, scratch)
    return 0 if good else 1


if __name__ == '__main__':
    # So that an end from outside is not the end of all order.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    sys.exit(main())
