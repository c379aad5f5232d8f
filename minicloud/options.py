# SPDX-License-Identifier: Apache-2.0
"""The options of the command line, and the cloud that they ask for."""

import argparse
import os
import pathlib
import re
import typing

from minicloud import errors
from minicloud import libvirt
from minicloud import packages
from minicloud import settings
from minicloud import virtual
from nova_pinning import cpuset
from nova_pinning.model import nova_release
from nova_pinning.upgrade import nova_version

STATE = packages.PROJECT / '.minicloud'

EXAMPLES = r"""examples:
  sudo tools/minicloud deps
  sudo tools/minicloud up
  eval "$(sudo tools/minicloud env)"
  openstack flavor create --vcpus 1 --ram 64 --disk 0 \
      --property hw:cpu_policy=dedicated pinned
  openstack server create --flavor pinned --image minicloud --nic none test
  sudo tools/minicloud exec pinning-1 -- virsh list
  sudo tools/minicloud down
"""

# A 2-CPU machine has one of each.
SHARED_PART = 4


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog='minicloud', epilog=EXAMPLES,
        description='A real OpenStack cloud on one machine: Keystone, '
                    'Placement, Glance, Nova, libvirt and QEMU, on loopback '
                    'only.',
        formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        '--state', type=pathlib.Path, metavar='DIR',
        default=os.environ.get('MINICLOUD_STATE', STATE),
        help='where everything is kept (default: $MINICLOUD_STATE or '
             '.minicloud beside tools)')
    commands = made.add_subparsers(dest='command', required=True)
    _add_up(commands)
    down = commands.add_parser(
        'down', help='end every process and remove the cloud')
    down.add_argument('--all', action='store_true',
                      help='remove the whole state directory as well, with '
                           'the virtual environment and the logs')
    commands.add_parser('status', help='tell what runs')
    env = commands.add_parser(
        'env', help='print what openstack needs to know')
    env.add_argument('--format', choices=('text', 'json'), default='text')
    execute = commands.add_parser(
        'exec', help='run a command on a compute host')
    execute.add_argument('host', metavar='HOST')
    execute.add_argument('argv', nargs=argparse.REMAINDER, metavar='COMMAND')
    commands.add_parser('deps', help='install the Debian packages')
    for command in commands.choices.values():
        # Before the command or after it.
        command.add_argument('--state', type=pathlib.Path, metavar='DIR',
                             default=argparse.SUPPRESS,
                             help=argparse.SUPPRESS)
    return made


def defaults() -> argparse.Namespace:
    """Return the options of an ``up`` with none."""
    return parser().parse_args(['up'])


def _add_up(commands: typing.Any) -> None:
    up = commands.add_parser(
        'up', help='bring the cloud up, or what is missing of it')
    up.add_argument('--hosts', type=int, default=2, metavar='N',
                    help='compute hosts on this machine (default: 2), named '
                         'pinning-1 and so on')
    up.add_argument('--virtual-host', action='append', default=[],
                    metavar='SxCxT',
                    help='another compute host, in its own QEMU with so '
                         'many sockets, cores and threads, a NUMA node per '
                         'socket: virtual-1 and so on')
    up.add_argument('--release', metavar='NAME',
                    help='of OpenStack, such as 2025.1 (default: '
                         f'{nova_release.NEWEST}); of a cloud that is there, '
                         'the databases are migrated to it')
    up.add_argument('--host-release', action='append', default=[],
                    metavar='HOST=NAME',
                    help='the release of a host\'s nova-compute, where it is '
                         'older than the rest')
    up.add_argument('--host-cpus', action='append', default=[],
                    metavar='HOST=dedicated:CPUS,shared:CPUS',
                    help='the CPUs a host offers (default: the first quarter '
                         'shared, the rest dedicated)')
    up.add_argument('--host-conf', action='append', default=[],
                    metavar='HOST=FILE',
                    help='options that nova-compute of a host reads last')
    up.add_argument('--provider-config', action='append', default=[],
                    metavar='HOST=FILE',
                    help='the provider.yaml of a host, for its traits')
    up.add_argument('--nova-conf', default='', metavar='FILE',
                    help='options that nova\'s API, scheduler and conductor '
                         'read last')
    up.add_argument('--base-port', type=int, metavar='PORT',
                    default=os.environ.get('MINICLOUD_BASE_PORT',
                                           str(settings.BASE_PORT)),
                    help='the first of the ports to use (default: '
                         f'$MINICLOUD_BASE_PORT or {settings.BASE_PORT})')
    up.add_argument('--huge-pages', type=int, default=0, metavar='N',
                    help='reserve so many pages of 2 MiB on this machine '
                         'until the cloud is down')


def settings_of(options: argparse.Namespace,
                there: str = nova_release.NEWEST.name) -> settings.Settings:
    """Return what the options of ``up`` ask for.

    :param there: release of the cloud that is there already
    :raises: MiniCloudError
    """
    names = [(f'pinning-{number + 1}', '') for number in range(options.hosts)]
    for number, topology in enumerate(options.virtual_host):
        if not re.fullmatch(r'[1-9]\d*x[1-9]\d*x[1-9]\d*', topology):
            raise errors.MiniCloudError(
                f'--virtual-host {topology}: not sockets x cores x threads',
                'Give for example 2x2x2')
        names.append((f'virtual-{number + 1}', topology))
    _check_numbers(options, len(names))
    cpus = _by_host('--host-cpus', options.host_cpus, names)
    confs = _by_host('--host-conf', options.host_conf, names)
    providers = _by_host('--provider-config', options.provider_config, names)
    release = _release('--release', options.release or there)
    releases = _by_host('--host-release', options.host_release, names)
    return settings.Settings(
        hosts=tuple(settings.HostSettings(
            name, *_cpus(name, topology, cpus.get(name)), topology,
            _readable(confs.get(name, '')),
            _readable(providers.get(name, '')),
            _host_release(name, releases.get(name, release.name), release))
            for name, topology in names),
        base_port=options.base_port, nova_conf=_readable(options.nova_conf),
        huge_pages=options.huge_pages, release=release.name)


def _release(option: str, name: str) -> nova_release.NovaRelease:
    """Return a release that a cloud can be brought up with.

    :raises: MiniCloudError
    """
    try:
        release = nova_release.of_name(name)
        if release not in settings.RELEASES:
            raise ValueError(f'{name!r} is a release that this does not '
                             f'bring up')
    except ValueError as e:
        known = ', '.join(map(str, settings.RELEASES))
        raise errors.MiniCloudError(
            f'{option}: {e}', f'Give one of {known}') from e
    return release


def _host_release(host: str, name: str,
                  newest: nova_release.NovaRelease) -> str:
    option = f'--host-release {host}'
    release = _release(option, name)
    if release > newest:
        raise errors.MiniCloudError(
            f'{option}: {release} is newer than the cloud, which is of '
            f'{newest}',
            'Nova wants its conductor upgraded first: give --release')
    least = nova_version.oldest_supported(newest.name)
    if release.name < least:
        raise errors.MiniCloudError(
            f'{option}: {release} is too old for a cloud of {newest}, which '
            f'supports nova-compute from {least} on',
            'Upgrade the cloud by way of that release')
    return release.name


def _check_numbers(options: argparse.Namespace, hosts: int) -> None:
    """See that there are such ports, addresses and pages.

    :raises: MiniCloudError
    """
    if not hosts or options.hosts < 0:
        raise errors.MiniCloudError('a cloud without a compute host')
    if hosts > settings.MAX_HOSTS:
        raise errors.MiniCloudError(
            f'{hosts} compute hosts: there can be {settings.MAX_HOSTS} '
            f'at most')
    last = 65535 - libvirt.last_port_offset(hosts)
    if not 1024 <= options.base_port <= last:
        raise errors.MiniCloudError(
            f'--base-port {options.base_port}: not one of 1024 to {last}')
    if options.huge_pages < 0:
        raise errors.MiniCloudError(
            f'--huge-pages {options.huge_pages}: fewer than none')


def _by_host(option: str, given: list[str],
             names: list[tuple[str, str]]) -> dict[str, str]:
    values = {}
    for text in given:
        host, equals, value = text.partition('=')
        if not equals:
            raise errors.MiniCloudError(
                f'{option} {text}: not HOST=...')
        if host not in dict(names):
            raise errors.MiniCloudError(
                f'{option} {text}: there is no host {host!r}',
                'There are: ' + ', '.join(dict(names)))
        values[host] = value
    return values


def _readable(path: str) -> str:
    if path and not (os.path.isfile(path) and os.access(path, os.R_OK)):
        raise errors.MiniCloudError(f'{path} is not a file that can be read')
    return os.path.abspath(path) if path else ''


def _cpus(name: str, topology: str, text: str | None) -> tuple[str, str]:
    """Return cpu_dedicated_set and cpu_shared_set of a host.

    :raises: MiniCloudError
    """
    if text is None:
        return default_cpus(topology)
    try:
        dedicated, shared = cpu_sets(text).values()
    except (KeyError, ValueError) as e:
        raise errors.MiniCloudError(
            f'--host-cpus {name}={text}: not lists of CPUs',
            f'Give for example {name}=dedicated:2-7,shared:0-1') from e
    there = cpus_of(topology)
    if not (dedicated | shared).issubset(there):
        raise errors.MiniCloudError(
            f'--host-cpus {name}={text}: the host has only the CPUs {there}')
    if dedicated & shared:
        raise errors.MiniCloudError(
            f'--host-cpus {name}={text}: {dedicated & shared} cannot be both '
            f'dedicated and shared')
    return str(dedicated), str(shared)


def cpu_sets(text: str) -> dict[str, cpuset.CpuSet]:
    """Return the CPUs of each kind, from 'dedicated:2-7,shared:0-1'.

    :raises: KeyError or ValueError
    """
    lists: dict[str, list[str]] = {'dedicated': [], 'shared': []}
    kind = ''
    # A list of CPUs has commas of its own.
    for word in text.split(','):
        named, _, numbers = word.rpartition(':')
        kind = named or kind
        if not numbers:
            raise ValueError(text)
        lists[kind].append(numbers)
    return {kind: cpuset.CpuSet.parse(','.join(words))
            for kind, words in lists.items()}


def cpus_of(topology: str) -> cpuset.CpuSet:
    """Return the CPUs that a host of a topology has."""
    if not topology:
        return cpuset.CpuSet(os.sched_getaffinity(0))
    return cpuset.CpuSet(range(virtual.Topology.parse(topology).cpus))


def default_cpus(topology: str) -> tuple[str, str]:
    """Return what a host offers of whom nothing is said.

    :returns: cpu_dedicated_set and cpu_shared_set
    """
    cpus = list(cpus_of(topology))
    threads = virtual.Topology.parse(topology).threads if topology else 1
    shared = max(threads, len(cpus) // SHARED_PART // threads * threads)
    if shared >= len(cpus):
        shared = 0
    return (str(cpuset.CpuSet(cpus[shared:])),
            str(cpuset.CpuSet(cpus[:shared])))
