# SPDX-License-Identifier: Apache-2.0
"""nova-scheduler without database, message bus and Placement: a program.

All that concerns signals, processes and options is nova's own: its command
starts it, with another service in the place of its own. That one has our
filters and weighers, made at the start as nova's does, and judges requests
that each show what one option does. It is asked over a socket, whose number
is in the environment.

Run by its path, not as a module: what is imported first says on which kind
of threads all of it runs.
"""

import json
import os
import select
import socket
import sys
from unittest import mock

# First of all that is nova's: it patches the process or sees to it that
# nobody does.
from nova.cmd import scheduler as nova_scheduler  # noqa: I001

from nova import service as nova_service
from oslo_service import service

from nova_pinning.scheduler import filters
from nova_pinning.tests.oracle import fleet_oracle
from nova_pinning.tests.oracle import scheduled_cases
from nova_pinning.tests.unit import builders
from nova_pinning.tests.unit.oracle import oracle_cases
from nova_pinning.tests.unit.scheduler import scheduling

#: Where the number of the socket is found.
VARIABLE = 'NOVA_PINNING_JUDGING_SOCKET'

_DEDICATED = {'hw:cpu_policy': 'dedicated'}
_NICS = {
    'pools': [{'vendor_id': '8086', 'product_id': '1520', 'count': 2,
               'numa_node': 1, 'dev_type': 'type-PCI'}],
    'requests': [{'count': 1, 'spec': [{'vendor_id': '8086'}],
                  'alias': 'nic', 'policy': 'required'}],
    'mapping': None}


class _Unreadable(scheduling.host_manager.HostState):
    """A HostState whose NUMA topology cannot be had."""

    @property
    def numa_topology(self):
        raise ValueError('not JSON')

    @numa_topology.setter
    def numa_topology(self, value):
        pass


def _state(name, l3_cpus=None, **cell):
    aggregates = []
    if l3_cpus is not None:
        aggregates.append(builders.aggregate(pinning__l3_cpus=str(l3_cpus)))
    cpus = range(8)
    return builders.host_state(
        name, builders.host_topology(oracle_cases.host_cell(
            0, cpus, siblings=[[cpu, cpu + 1] for cpu in cpus[::2]], **cell)),
        aggregates=aggregates)


def _spec(*cells):
    return builders.spec(builders.guest_topology(*cells), dict(_DEDICATED))


def _of(case):
    """The hosts and the request of a case."""
    hosts = fleet_oracle.hosts(case)
    states = [scheduled_cases.state_of(host) for host in hosts]
    for number, state in enumerate(states):
        state.host = f'host{number}'
    return states, scheduled_cases.spec_of(hosts[0])


def _requests():
    """By name: HostStates and a RequestSpec, new ones."""
    quick = [oracle_cases.host_cell(cell, [cell]) for cell in range(2)]
    # Nova tries the emptiest cell first, of which the memory is not enough.
    slow = [oracle_cases.host_cell(
        0, range(4), pages=[[4, 64 * 256, 0, 0]], memory=64), *[
            oracle_cases.host_cell(cell, [3 + cell]) for cell in range(1, 3)]]
    return {
        'full': ([_state('host0', pinned=range(8))], _spec((1, 1))),
        'broken': ([_Unreadable('host0', 'node', None)], _spec((1, 1))),
        'nova wrong': _of(oracle_cases.uneven_cpus()),
        'nova slow': _of(oracle_cases.case(
            quick, oracle_cases.guest((1, 256), (1, 256)),
            others=[{'host': slow, 'pools': [], 'mapping': {}}])),
        'devices': _of(oracle_cases.case(
            [oracle_cases.host_cell(cell, range(4 * cell, 4 * cell + 4))
             for cell in range(2)], oracle_cases.guest((2, 256)), pci=_NICS)),
        'class unknown': ([_state('host0', shared=range(8))], _spec((1, 1))),
        'order': ([_state('tight', l3_cpus=2, pinned=range(4)),
                   _state('wide', l3_cpus=8)], _spec((4, 1))),
        'neighbours': ([_state('shared', l3_cpus=8, pinned=range(2)),
                        _state('spread', l3_cpus=2)], _spec((4, 1))),
    }


class Judge(service.Service):
    """In the place of nova.service.Service."""

    def __init__(self, connection):
        super().__init__()
        self._connection = connection
        self._scheduler = scheduling.Scheduler(filters.all_filters())
        self._wake = None

    def start(self):
        self._wake = socket.socketpair()
        self.tg.add_thread(self._listen)
        self._say('started')

    def reset(self):
        self._say('reset')

    def stop(self, graceful=False):
        self._wake[1].send(b'.')
        super().stop(graceful)

    def _listen(self):
        while True:
            ready, _, _ = select.select(
                [self._connection, self._wake[0]], [], [])
            if self._wake[0] in ready or not self._connection.recv(1):
                return
            self._say({name: self._judged(states, spec)
                       for name, (states, spec) in _requests().items()})

    def _judged(self, states, spec):
        """Hosts that are left with their weights, best first."""
        for name, value in scheduling.REST.items():
            setattr(spec, name, value)
        return self._scheduler.ordered(states, spec)

    def _say(self, what):
        self._connection.sendall(
            json.dumps([os.getpid(), what]).encode() + b'\n')


def main():
    """Run nova-scheduler's own command."""
    connection = socket.socket(fileno=int(os.environ[VARIABLE]))

    def create(**_options):
        return Judge(connection)

    with mock.patch.object(nova_service.Service, 'create', create):
        nova_scheduler.main()


if __name__ == '__main__':
    sys.exit(main())
