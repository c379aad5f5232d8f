# SPDX-License-Identifier: Apache-2.0
"""Commands in guests through the QEMU guest agent, over libvirt.

No network is needed. See QEMU's qga/qapi-schema.json for the agent's own
commands.
"""

import base64
import binascii
import dataclasses
import json
from typing import Any

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import instance_clock
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import hypervisor
from nova_pinning.instance_bench.platforms import polling
from nova_pinning.instance_bench.platforms import remote

#: A guest on CPUs that three others want takes its time.
ANSWER_SECONDS = 60
_PING_SECONDS = 2
_LOOK_SECONDS = 0.2
#: virsh itself takes some time too.
_GRACE_SECONDS = 30


class RemoteInstance:
    """An instance that commands reach through its QEMU guest agent.

    :param host: where its libvirt domain runs
    :param domain: the name of that, or its UUID
    :param peer: address of this host that it reaches, '' for none
    :param hint: where to look if the agent is silent, for errors
    """

    programs = remote.PROGRAMS
    work = remote.WORK

    def __init__(self, request: platform_interface.InstanceRequest,
                 host: hypervisor.ComputeHypervisor, domain: str, *,
                 peer: str = '', hint: str = '') -> None:
        self.name = request.name
        self.cpus = cpuset.CpuSet(range(request.tenant.size.vcpus))
        self.peer = peer
        self.domain = domain
        self._host = host
        self._hint = hint or f'see its console: virsh console {domain}'

    def await_ready(self, seconds: float) -> None:
        """Wait until it runs commands.

        :raises bench_errors.InstanceError: if it does not within so many
            seconds
        """
        said = ''
        for _look in polling.looks(seconds, _LOOK_SECONDS):
            try:
                self.call('guest-ping', seconds=_PING_SECONDS)
                return
            except bench_errors.InstanceError as error:
                said = str(error)
        raise bench_errors.InstanceError(
            f'the guest agent of domain {self.domain} is silent after '
            f'{seconds:g} s: {said}',
            f'{self._hint}; qemu-guest-agent has to run in it, and the domain '
            'to have the channel org.qemu.guest_agent.0')

    def call(self, name: str, arguments: dict[str, Any] | None = None,
             seconds: float = ANSWER_SECONDS) -> Any:
        """Have the agent carry out one of its commands.

        :param seconds: how long it may take to answer
        :returns: what 'return' is in the answer
        :raises bench_errors.InstanceError: if it does not answer, or refuses
        """
        message: dict[str, Any] = {'execute': name}
        if arguments is not None:
            message['arguments'] = arguments
        try:
            answer = self._host.call(
                'qemu-agent-command', '--domain', self.domain, '--timeout',
                str(max(int(seconds), 1)), '--cmd', json.dumps(message),
                seconds=seconds + _GRACE_SECONDS)
        except bench_errors.InstanceError as error:
            raise self._error(name, str(error)) from None
        try:
            return json.loads(answer)['return']
        except (ValueError, KeyError, TypeError):
            raise self._error(name, f'it answers {answer[:200]!r}') from None

    def start(self, command: str) -> platform_interface.RunningJob:
        path, *rest = remote.script(command)
        answer = self.call('guest-exec', {
            'path': path, 'arg': rest, 'capture-output': True})
        return AgentJob(self, int(answer['pid']))

    def clock(self) -> instance_clock.ClockReading:
        return remote.handshake(
            self.name, lambda: int(self.call('guest-get-time')) / 1e9)

    def counters(self) -> dict[str, float]:
        return {}

    def _error(self, name: str, text: str) -> bench_errors.InstanceError:
        advice = self._hint
        if 'disabled' in text:
            advice = ('allow it in the guest: see BLACKLIST_RPC or '
                      'block-rpcs in the configuration of qemu-ga')
        return bench_errors.InstanceError(
            f'the guest agent of domain {self.domain}, {name}: {text}', advice)


@dataclasses.dataclass(frozen=True, slots=True)
class AgentJob:
    """A command that an agent runs.

    :param pid: of its process, inside
    """

    instance: RemoteInstance
    pid: int

    def poll(self) -> platform_interface.CommandOutcome | None:
        answer = self.instance.call('guest-exec-status', {'pid': self.pid})
        if not answer['exited']:
            return None
        return remote.outcome(
            self.instance.name,
            answer.get('exitcode', answer.get('signal', 1)),
            _text(answer.get('out-data', '')),
            _text(answer.get('err-data', '')))


def _text(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode(errors='replace')
    except binascii.Error:
        return ''
