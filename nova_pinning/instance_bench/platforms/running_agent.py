# SPDX-License-Identifier: Apache-2.0
"""nova-pinning agent, while a case is measured that is about it.

It is the command itself, as it runs on compute hosts, with its own record and
without what the case is not about. All that it has changed it puts back when
it is ended.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys

from nova_pinning.agent import agent_service
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host import agent_record
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import polling
from nova_pinning.instance_bench.platforms import settings

_END_SECONDS = 60.0
_START_SECONDS = 120.0
_OPTIONS = """[agent]
plan = {plan}
record = {directory}/agent.json
interval_seconds = 10
cache = {cache}
floating_guests = {floating}
"""
_FLOATING = {bench_model.AgentScheme.STATIC: 'off',
             bench_model.AgentScheme.WAYS: 'off',
             bench_model.AgentScheme.DYNAMIC: 'on'}
_READY = 'READY=1'


def check(scheme: bench_model.AgentScheme | None) -> None:
    """See that one can be run, and that no other one spoils the case.

    :param scheme: None if the case is not about it
    :raises nova_pinning.errors.InputError: if not
    """
    if scheme is None:
        return
    other = agent_service.running(agent_record.PATH)
    if other:
        raise errors.InputError(
            f'nova-pinning agent runs on this host, with process id {other}, '
            'and would do its work in all cases',
            advice='stop it meanwhile, with: systemctl stop '
            'nova-pinning-agent.service')


class RunningAgent:
    """An agent that has seen all guests that run.

    :param how: plan
    :param directory: for its files
    :raises bench_errors.InstanceError: if it does not come up
    """

    def __init__(self, scheme: bench_model.AgentScheme,
                 how: settings.PlatformSettings,
                 directory: pathlib.Path) -> None:
        self._record = directory / 'agent.json'
        options = directory / 'agent.conf'
        options.write_text(_OPTIONS.format(
            plan=pathlib.Path(how.plan).absolute(), directory=directory,
            floating=_FLOATING[scheme],
            cache='true' if scheme is bench_model.AgentScheme.WAYS
            else 'false'))
        log = directory / 'agent.log'
        with contextlib.closing(socket.socket(
                socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
            address = directory / 'agent.notify'
            address.unlink(missing_ok=True)
            manager.bind(str(address))
            manager.settimeout(1.0)
            with log.open('w') as output:
                self._process = subprocess.Popen(
                    ['setpriv', '--pdeathsig', 'TERM', sys.executable, '-m',
                     'nova_pinning.cli.shell', 'agent',
                     '--config-file', str(options)],
                    stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                    start_new_session=True,
                    env={**os.environ, 'NOTIFY_SOCKET': str(address),
                         'PYTHONPATH': os.pathsep.join(sys.path)})
            try:
                self._await(manager, log)
            except BaseException:
                self.close()
                raise

    def affinities(self, pid: int) -> Iterator[bench_model.Affinity]:
        """What it has set of a guest, and what the kernel says.

        :param pid: of the guest's QEMU
        """
        for setting, entry in self._settings().items():
            process, _slash, thread = setting.subject.partition('/')
            if setting.kind is agent_record.Kind.THREAD and (
                    process == str(pid)):
                with contextlib.suppress(OSError):
                    yield bench_model.Affinity(
                        thread=f'thread {thread}', asked=entry.ours,
                        seen=cpuset.CpuSet(
                            os.sched_getaffinity(int(thread))))

    def emulator(self, pid: int) -> cpuset.CpuSet | None:
        """Where it has put a guest's emulator threads; None if nowhere."""
        entry = self._settings().get(agent_record.Setting(
            agent_record.Kind.THREAD, f'{pid}/{pid}'))
        return entry.ours if entry else None

    def close(self) -> None:
        """End it, so that it puts everything back; can be repeated.

        :raises bench_errors.InstanceError: if it has failed to
        """
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise bench_errors.InstanceError(
                    'nova-pinning agent did not end, and was killed',
                    'see what it has left with nova-pinning agent '
                    '--release') from None

    def _settings(self) -> Mapping[agent_record.Setting,
                                   agent_record.SettingEntry]:
        return agent_record.load(
            machine_files.Tree(), str(self._record)).settings

    def _await(self, manager: socket.socket, log: pathlib.Path) -> None:
        for _look in polling.looks(_START_SECONDS, 0.0):
            with contextlib.suppress(TimeoutError):
                if _READY in manager.recv(4096).decode().split('\n'):
                    return
            if self._process.poll() is not None:
                break
        said = ' '.join(log.read_text(errors='replace').split())
        raise bench_errors.InstanceError(
            f'nova-pinning agent does not come up; it says: {said[-500:]}')
