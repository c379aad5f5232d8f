#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The command line: tools/minicloud up, down, status, env, exec, deps."""

import argparse
import json
import os
import pathlib
import re
import shlex
import sys
import time
import typing

from minicloud import checks
from minicloud import cloud
from minicloud import errors
from minicloud import hosts
from minicloud import packages
from minicloud import process
from minicloud import service
from minicloud import settings as _settings

STATE = packages.PROJECT / '.minicloud'

EXAMPLES = """\
examples:
  sudo tools/minicloud deps
  sudo tools/minicloud up
  eval "$(sudo tools/minicloud env)"
  openstack server create --flavor m1 --image minicloud --nic none test
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
    for name, help_text in (('status', 'tell what runs'),
                            ('env', 'print what openstack needs to know')):
        command = commands.add_parser(name, help=help_text)
        command.add_argument('--format', choices=('text', 'json'),
                             default='text')
    execute = commands.add_parser(
        'exec', help='run a command on a compute host')
    execute.add_argument('host', metavar='HOST')
    execute.add_argument('argv', nargs=argparse.REMAINDER, metavar='COMMAND')
    commands.add_parser('deps', help='install the Debian packages')
    return made


def _add_up(commands: typing.Any) -> None:
    up = commands.add_parser(
        'up', help='bring the cloud up, or what is missing of it')
    up.add_argument('--hosts', type=int, default=2, metavar='N',
                    help='compute hosts on this machine (default: 2), named '
                         'pinning-1 and so on')
    up.add_argument('--virtual-host', action='append', default=[],
                    metavar='SxCxT',
                    help='another compute host, in a QEMU of its own with so '
                         'many sockets, cores and threads, a NUMA node per '
                         'socket: virtual-1 and so on')
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
    up.add_argument('--filters', default='', metavar='NAME,...',
                    help='enabled_filters of the scheduler')
    up.add_argument('--weighers', default='', metavar='PATH,...',
                    help='weight_classes of the scheduler')
    up.add_argument('--sqlite', action='store_true',
                    help='SQLite instead of MariaDB: smaller, but not for '
                         'servers that are made at the same time')
    up.add_argument('--base-port', type=int, default=17800, metavar='PORT',
                    help='the first of the ports to use (default: 17800)')
    up.add_argument('--huge-pages', type=int, default=0, metavar='N',
                    help='reserve so many pages of 2 MiB on this machine '
                         'until the cloud is down')


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    :returns: 0, 1 if something does not run, 2 if it could not be done
    """
    options = parser().parse_args(arguments)
    state = _settings.State(options.state.resolve())
    try:
        return COMMANDS[options.command](state, options)
    except errors.MiniCloudError as e:
        print(f'minicloud: {e}', file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('minicloud: interrupted', file=sys.stderr)
        return 130


def up(state: _settings.State, options: argparse.Namespace) -> int:
    began = time.monotonic()
    settings = settings_of(options)
    state.check_version()
    checks.machine(state)
    state.create()
    with cloud.lock(state):
        _check_against(state, state.load(), settings)
        if not packages.venv_is_ready(state):
            print('installing the OpenStack services, once: about two '
                  'minutes ...', flush=True)
            packages.make_venv(state)
        checks.libvirt(state)
        state.save(settings)
        whole = cloud.Cloud(state, settings)
        try:
            whole.up(_report)
        except BaseException:
            print('taking down what was started ...', file=sys.stderr)
            cloud.remove(state)
            raise
    print(f'up after {time.monotonic() - began:.0f} seconds. For openstack: '
          f'eval "$({sys.argv[0]} env)"')
    return 0


def _check_against(state: _settings.State,
                   there: _settings.Settings | None,
                   wanted: _settings.Settings) -> None:
    """Compare with the cloud that is up; files it was made of may differ.

    :raises: MiniCloudError
    """
    if there is None:
        checks.ports(wanted)
        return

    def fixed(settings: _settings.Settings) -> tuple[object, ...]:
        return (settings.base_port, settings.sqlite, settings.huge_pages,
                [(host.name, host.topology) for host in settings.hosts])

    if fixed(there) != fixed(wanted):
        raise errors.MiniCloudError(
            f'the cloud in {state.root} has other hosts, ports, huge pages '
            f'or another database',
            'Take it down first: tools/minicloud down')


def _report(part: service.Part, seconds: float) -> None:
    print(f'{part.name:<28} ready {seconds:5.1f} s', flush=True)


def down(state: _settings.State, options: argparse.Namespace) -> int:
    state.check_version()
    if state.root.exists():
        with cloud.lock(state):
            cloud.remove(state)
        if options.all:
            _remove_all(state)
    return 0


def _remove_all(state: _settings.State) -> None:
    import shutil
    shutil.rmtree(state.root)


def status(state: _settings.State, options: argparse.Namespace) -> int:
    settings = _load(state)
    rows = []
    for part in cloud.Cloud(state, settings).parts.values():
        if isinstance(part, service.Service):
            record = process.read(part.record)
            running = part.running()
            rows.append({
                'name': part.name, 'running': running,
                'pid': record.pid if record and running else None,
                'memory_mib': round(process.memory_kib(record.pid) / 1024)
                if record and running else 0, 'log': str(part.log)})
    if options.format == 'json':
        print(json.dumps(rows, indent=1))
    else:
        for row in rows:
            state_word = (f'pid {row["pid"]:>7} {row["memory_mib"]:>5} MiB'
                          if row['running'] else 'DOWN  see ' + row['log'])
            print(f'{row["name"]:<28} {state_word}')
        total = sum(row['memory_mib'] for row in rows)
        print(f'{"together":<28} {total:>17} MiB')
    return 0 if all(row['running'] for row in rows) else 1


def env(state: _settings.State, options: argparse.Namespace) -> int:
    variables = environment(state, _load(state))
    if options.format == 'json':
        print(json.dumps(variables, indent=1))
    else:
        for name, value in variables.items():
            print(f'export {name}={shlex.quote(value)}')
        print(f'export PATH={shlex.quote(str(state.venv / "bin"))}:"$PATH"')
    return 0


def environment(state: _settings.State,
                settings: _settings.Settings) -> dict[str, str]:
    """Return the environment that openstack wants, as an administrator."""
    return {
        'OS_AUTH_TYPE': 'password',
        'OS_AUTH_URL': settings.url('keystone') + '/v3',
        'OS_USERNAME': 'admin', 'OS_PASSWORD': state.secret,
        'OS_PROJECT_NAME': 'admin', 'OS_USER_DOMAIN_ID': 'default',
        'OS_PROJECT_DOMAIN_ID': 'default', 'OS_IDENTITY_API_VERSION': '3',
        'OS_REGION_NAME': 'minicloud', 'OS_COMPUTE_API_VERSION': '2.98',
        'OS_PLACEMENT_API_VERSION': '1.39',
    }


def execute(state: _settings.State, options: argparse.Namespace) -> int:
    settings = _load(state)
    found = [host for host in settings.hosts if host.name == options.host]
    if not found:
        names = ', '.join(host.name for host in settings.hosts)
        raise errors.MiniCloudError(
            f'there is no host {options.host!r}', f'There are: {names}')
    command = options.argv[options.argv[:1] == ['--']:] or ['bash']
    whole = hosts.enter(state, settings, found[0], command)
    os.execvp(whole[0], whole)


def deps(state: _settings.State, options: argparse.Namespace) -> int:
    packages.install()
    return 0


COMMANDS = {'up': up, 'down': down, 'status': status, 'env': env,
            'exec': execute, 'deps': deps}


def _load(state: _settings.State) -> _settings.Settings:
    state.check_version()
    settings = state.load()
    if settings is None:
        raise errors.MiniCloudError(
            f'there is no cloud in {state.root}', 'Run: tools/minicloud up')
    return settings


def settings_of(options: argparse.Namespace) -> _settings.Settings:
    """Return what the options of ``up`` ask for.

    :raises: MiniCloudError
    """
    names = [(f'pinning-{number + 1}', '') for number in range(options.hosts)]
    for number, topology in enumerate(options.virtual_host):
        if not re.fullmatch(r'[1-9]\d*x[1-9]\d*x[1-9]\d*', topology):
            raise errors.MiniCloudError(
                f'--virtual-host {topology}: not sockets x cores x threads',
                'Give for example 2x2x2')
        names.append((f'virtual-{number + 1}', topology))
    if not names or options.hosts < 0:
        raise errors.MiniCloudError('a cloud without a compute host')
    cpus = _by_host('--host-cpus', options.host_cpus, names)
    confs = _by_host('--host-conf', options.host_conf, names)
    providers = _by_host('--provider-config', options.provider_config, names)
    return _settings.Settings(
        hosts=tuple(_settings.HostSettings(
            name, *_cpus(name, topology, cpus.get(name)), topology,
            _readable(confs.get(name, '')),
            _readable(providers.get(name, ''))) for name, topology in names),
        base_port=options.base_port, sqlite=options.sqlite,
        filters=_list(options.filters), weighers=_list(options.weighers),
        nova_conf=_readable(options.nova_conf),
        huge_pages=options.huge_pages)


def _list(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(',') if word)


def _by_host(option: str, given: list[str],
             names: list[tuple[str, str]]) -> dict[str, str]:
    found = {}
    for text in given:
        host, _, value = text.partition('=')
        if host not in dict(names):
            raise errors.MiniCloudError(
                f'{option} {text}: there is no host {host!r}',
                'There are: ' + ', '.join(dict(names)))
        found[host] = value
    return found


def _readable(path: str) -> str:
    if path and not os.access(path, os.R_OK):
        raise errors.MiniCloudError(f'{path} cannot be read')
    return os.path.abspath(path) if path else ''


def _cpus(name: str, topology: str, text: str | None) -> tuple[str, str]:
    """Return cpu_dedicated_set and cpu_shared_set of a host."""
    if text is None:
        return default_cpus(topology)
    sets: dict[str, list[str]] = {'dedicated': [], 'shared': []}
    kind = ''
    # A list of CPUs has commas of its own.
    for word in text.split(','):
        named, _, numbers = word.rpartition(':')
        kind = named or kind
        if kind not in sets or not re.fullmatch(r'\^?\d+(-\d+)?', numbers):
            raise errors.MiniCloudError(
                f'--host-cpus {name}={text}: not lists of CPUs',
                f'Give for example {name}=dedicated:2-7,shared:0-1')
        sets[kind].append(numbers)
    return ','.join(sets['dedicated']), ','.join(sets['shared'])


def default_cpus(topology: str) -> tuple[str, str]:
    """Return what a host offers of whom nothing is said.

    :returns: cpu_dedicated_set and cpu_shared_set
    """
    if topology:
        sockets, cores, threads = map(int, topology.split('x'))
        cpus = list(range(sockets * cores * threads))
        shared = max(threads, len(cpus) // SHARED_PART // threads * threads)
    else:
        cpus = sorted(os.sched_getaffinity(0))
        shared = max(1, len(cpus) // SHARED_PART)
    if shared >= len(cpus):
        shared = 0
    return (','.join(map(str, cpus[shared:])),
            ','.join(map(str, cpus[:shared])))
