# SPDX-License-Identifier: Apache-2.0
"""Commands in guests through the QEMU guest agent, over libvirt.

No network is needed. See QEMU's qga/qapi-schema.json for the agent's own
commands.
"""

import base64
import binascii
from collections.abc import Callable
from collections.abc import Sequence
import json
from typing import Any

from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.platforms import polling
from nova_pinning.instance_bench.platforms import process
from nova_pinning.instance_bench.platforms import remote

#: A guest on CPUs that three others want takes its time.
ANSWER_SECONDS = 60
_PING_SECONDS = 2
_LOOK_SECONDS = 0.2
#: virsh itself takes some time too.
_GRACE_SECONDS = 30


class GuestAgent:
    """The guest agent of a domain.

    :param virsh: how virsh is called, with its connection: ('virsh',
        '--connect', 'qemu:///system')
    :param domain: name of a libvirt domain that runs
    :param hint: where to look if the agent is silent, for errors
    :param word: makes an argument one that virsh can be given
    """

    def __init__(self, virsh: Sequence[str], domain: str, *, hint: str = '',
                 word: Callable[[str], str] = str) -> None:
        self.domain = domain
        self._virsh = tuple(virsh)
        self._hint = hint or f'see its console: virsh console {domain}'
        self._word = word

    def await_ready(self, seconds: float) -> None:
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
        line = [*self._virsh, *map(self._word, (
            'qemu-agent-command', '--domain', self.domain, '--timeout',
            str(max(int(seconds), 1)), '--cmd', json.dumps(message)))]
        try:
            answer = process.run(line, seconds + _GRACE_SECONDS, line[0])
        except bench_errors.InstanceError as error:
            raise self._error(name, str(error)) from None
        try:
            return json.loads(answer)['return']
        except (ValueError, KeyError, TypeError):
            raise self._error(name, f'it answers {answer[:200]!r}') from None

    def start(self, command: str) -> 'AgentJob':
        """Run a command of /bin/sh inside.

        :raises bench_errors.InstanceError: if it cannot be started
        """
        path, *rest = remote.script(command)
        answer = self.call('guest-exec', {
            'path': path, 'arg': rest, 'capture-output': True})
        return AgentJob(self, int(answer['pid']))

    def clock(self) -> bench_model.ClockReading:
        """The guest's clock and ours.

        :raises bench_errors.InstanceError: if it does not answer
        """
        return remote.handshake(
            f'domain {self.domain}',
            lambda: int(self.call('guest-get-time')) / 1e9)

    def close(self) -> None:
        """Nothing is kept open."""

    def _error(self, name: str, text: str) -> bench_errors.InstanceError:
        advice = self._hint
        if 'disabled' in text:
            advice = ('allow it in the guest: see BLACKLIST_RPC or '
                      'block-rpcs in the configuration of qemu-ga')
        return bench_errors.InstanceError(
            f'the guest agent of domain {self.domain}, {name}: {text}', advice)


class AgentJob:
    """A command that an agent runs.

    :param pid: of its process, inside
    """

    def __init__(self, agent: GuestAgent, pid: int) -> None:
        self._agent = agent
        self._pid = pid
        self._outcome: platform_interface.CommandOutcome | None = None

    def poll(self) -> platform_interface.CommandOutcome | None:
        if self._outcome is not None:
            return self._outcome
        answer = self._agent.call('guest-exec-status', {'pid': self._pid})
        if not answer['exited']:
            return None
        self._outcome = remote.outcome(
            f'domain {self._agent.domain}',
            answer.get('exitcode', answer.get('signal', 1)),
            _text(answer.get('out-data', '')),
            _text(answer.get('err-data', '')))
        return self._outcome


def _text(encoded: str) -> str:
    try:
        return base64.b64decode(encoded).decode(errors='replace')
    except binascii.Error:
        return ''
