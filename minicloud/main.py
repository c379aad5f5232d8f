# SPDX-License-Identifier: Apache-2.0
"""The command line: tools/minicloud up, down, status, env, exec, deps."""

import argparse
import json
import os
import shlex
import shutil
import signal
import sys
import time

from minicloud import checks
from minicloud import cloud
from minicloud import errors
from minicloud import hosts
from minicloud import kernel
from minicloud import options
from minicloud import packages
from minicloud import prepare
from minicloud import process
from minicloud import progress
from minicloud import service
from minicloud import settings
from nova_pinning import kvm
from nova_pinning.model import nova_release
from nova_pinning.upgrade import nova_version


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    :returns: 0, 1 if something does not run, 2 if it could not be done
    """
    args = options.parser().parse_args(arguments)
    # To be told to end is not a reason to leave half a cloud behind.
    for told in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(told, lambda number, _: sys.exit(128 + number))
    _avoid_proxies()
    state = settings.State(args.state.resolve())
    try:
        return COMMANDS[args.command](state, args)
    except errors.MiniCloudError as e:
        print(f'minicloud: {e}', file=sys.stderr)
        return 2
    except PermissionError as e:
        print(f'minicloud: {e.filename}: {e.strerror}. Run it with sudo',
              file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print('minicloud: interrupted', file=sys.stderr)
        return 130


def _avoid_proxies() -> None:
    """See that requests to loopback are sent there, by all that we start."""
    others = os.environ.get('no_proxy') or os.environ.get('NO_PROXY')
    os.environ['no_proxy'] = ','.join(
        filter(None, [others, settings.CONTROLLER_ADDRESS]))


def up(state: settings.State, args: argparse.Namespace) -> int:
    began = time.monotonic()
    state.check_version()
    settings = _given(args, state.load())
    checks.machine(state)
    if state.load() is None:
        checks.ports(settings)
        checks.memory(settings)
    state.create()
    with cloud.lock(state):
        there = state.load()
        settings = _given(args, there)
        if there is not None:
            _check_same(state, there, settings)
        with progress.Progress('ready') as shown:
            _install(state, settings, there, shown)
        state.save(settings)
        try:
            whole = cloud.Cloud(state, settings)
            if prepare.release(state) not in (None, settings.release):
                with progress.Progress('down') as shown:
                    whole.stop_writers(shown)
            with progress.Progress('ready') as shown:
                whole.up(shown)
        except BaseException:
            _back_out(state, there, settings)
            raise
    remarks = [part.remark for part in whole.parts.values() if part.remark]
    print(*remarks, sep='\n', end='\n' * bool(remarks), file=sys.stderr)
    print(f'up after {time.monotonic() - began:.0f} seconds. For openstack: '
          f'eval "$({sys.argv[0]} env)"')
    return 1 if remarks else 0


def _given(args: argparse.Namespace,
           there: settings.Settings | None) -> settings.Settings:
    """Return what the options ask for.

    :param there: the cloud that there is, which keeps its release
    :raises: MiniCloudError
    """
    if there is None:
        return options.settings_of(args)
    given = options.settings_of(args, there.release)
    if args.release is None and given == options.settings_of(
            options.defaults(), there.release):
        # Nothing was asked for but that it be up.
        return there
    return given


def _back_out(state: settings.State, there: settings.Settings | None,
              given: settings.Settings) -> None:
    """Leave nothing behind of a cloud that did not come up.

    :param there: the cloud that there was before, if any
    :param given: what it was to become
    """
    # This is not to be interrupted once more.
    for told in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(told, signal.SIG_IGN)
    if there is None:
        print('taking down what was started ...', file=sys.stderr)
        with progress.Progress('down', sys.stderr) as shown:
            cloud.remove(state, shown)
    elif there.release != given.release:
        # Databases are not migrated back.
        print(f'the upgrade to {given.release} failed, what runs was left '
              f'as it is; "tools/minicloud up" goes on with it',
              file=sys.stderr)
    else:
        # A change that failed is not a reason to lose what ran before.
        state.save(there)
        print('the change failed, the rest of the cloud was left as it is; '
              '"tools/minicloud up" goes back to what it was',
              file=sys.stderr)


def _install(state: settings.State, given: settings.Settings,
             there: settings.Settings | None,
             shown: progress.Progress) -> None:
    """Make the virtual environments that are not there as they should be.

    :param there: the cloud that makes use of some of them, if any
    :raises: MiniCloudError
    """
    for release in given.releases:
        if packages.venv_is_ready(state, release):
            continue
        if there is not None and release in there.releases:
            raise errors.MiniCloudError(
                'what has to be installed has changed since the cloud came '
                'up', 'Take it down first: tools/minicloud down')
        with shown.doing(
                f'the OpenStack services of {release}: installed once, two '
                f'minutes or more'):
            packages.make_venv(state, release)


def _check_same(state: settings.State, there: settings.Settings,
                given: settings.Settings) -> None:
    """Compare with the cloud that is there: some things cannot be changed.

    :raises: MiniCloudError
    """
    def fixed(settings: settings.Settings) -> tuple[object, ...]:
        return (settings.base_port, settings.huge_pages,
                [(host.name, host.topology) for host in settings.hosts])

    if fixed(there) != fixed(given):
        raise errors.MiniCloudError(
            f'the cloud in {state.root} has other hosts, ports or huge pages',
            'Take it down first: tools/minicloud down')
    before, after = (nova_release.of_name(settings.release)
                     for settings in (there, given))
    if after < before:
        raise errors.MiniCloudError(
            f'the cloud in {state.root} is of {before}, whose databases '
            f'{after} cannot read',
            'Take it down first: tools/minicloud down')
    least = nova_version.oldest_supported(after.name)
    for host in there.hosts:
        # Nova's services do not start while it is there.
        if host.release < least:
            raise errors.MiniCloudError(
                f'{host.name} is of {host.release}, and {after} supports '
                f'nova-compute from {least} on',
                f'Upgrade all of it to {least} first: --release {least}')


def down(state: settings.State, args: argparse.Namespace) -> int:
    state.check_version()
    if state.root.exists():
        with cloud.lock(state):
            with progress.Progress('down') as shown:
                cloud.remove(state, shown)
                if args.all:
                    with shown.doing(f'removing {state.root}'):
                        shutil.rmtree(state.root)
    return 0


def status(state: settings.State, args: argparse.Namespace) -> int:
    are_up = True
    for part in cloud.Cloud(state, _load(state)).parts.values():
        if isinstance(part, service.Service):
            record = process.read(part.record)
            if record is not None and record.alive():
                print(f'{part.name:<28} pid {record.pid:>7}')
            else:
                print(f'{part.name:<28} DOWN, see {part.log}')
                are_up = False
    return 0 if are_up else 1


def env(state: settings.State, args: argparse.Namespace) -> int:
    settings = _load(state)
    variables = environment(state, settings)
    if args.format == 'json':
        print(json.dumps(variables, indent=1))
    else:
        for name, value in variables.items():
            print(f'export {name}={shlex.quote(value)}')
        programs = state.venv(settings.release) / 'bin'
        print(f'export PATH={shlex.quote(str(programs))}:"$PATH"')
    return 0


def environment(state: settings.State,
                settings: settings.Settings) -> dict[str, str]:
    """Return the environment that openstack wants, as an administrator."""
    return {
        'OS_AUTH_TYPE': 'password',
        'OS_AUTH_URL': settings.url('keystone') + '/v3',
        'OS_USERNAME': 'admin', 'OS_PASSWORD': state.secret,
        'OS_PROJECT_NAME': 'admin', 'OS_USER_DOMAIN_ID': 'default',
        'OS_PROJECT_DOMAIN_ID': 'default', 'OS_IDENTITY_API_VERSION': '3',
        'OS_REGION_NAME': 'minicloud', 'OS_COMPUTE_API_VERSION': '2.98',
        'OS_PLACEMENT_API_VERSION': '1.39',
        'no_proxy': os.environ['no_proxy']}


def execute(state: settings.State, args: argparse.Namespace) -> int:
    settings = _load(state)
    matching = [host for host in settings.hosts if host.name == args.host]
    if not matching:
        names = ', '.join(host.name for host in settings.hosts)
        raise errors.MiniCloudError(
            f'there is no host {args.host!r}', f'There are: {names}')
    command = args.argv[args.argv[:1] == ['--']:] or ['bash']
    whole = hosts.of(state, settings, matching[0]).enter(command)
    os.execvp(whole[0], whole)


def deps(state: settings.State, args: argparse.Namespace) -> int:
    packages.install()
    if kvm.usable():
        # It takes a kernel to find out whether KVM works.
        state.create()
        with progress.Progress('ready') as shown, shown.doing(
                'a kernel to boot guests with'):
            kernel.boot_image(state)
    return 0


COMMANDS = {'up': up, 'down': down, 'status': status, 'env': env,
            'exec': execute, 'deps': deps}


def _load(state: settings.State) -> settings.Settings:
    state.check_version()
    settings = state.load()
    if settings is None:
        raise errors.MiniCloudError(
            f'there is no cloud in {state.root}', 'Run: tools/minicloud up')
    return settings
