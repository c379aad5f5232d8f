# SPDX-License-Identifier: Apache-2.0
"""irqbalance, which takes lists of interrupts that are not too long."""

import pathlib
import re
import socket
import threading

import fixtures
import hypothesis
from hypothesis import strategies

from nova_pinning.agent import irqbalance_socket
from nova_pinning.tests.unit.agent import test_host_agent
from nova_pinning.tests.unit import unit_base

QUEUES = range(1000, 1128)
_COMMAND = b'settings ban irqs '


def understood(data, room, reads_on=False):
    """The interrupts that irqbalance makes of what it reads.

    :param reads_on: whether it goes on behind what it was told, as before
        1.9.0, where whatever was there before stands
    """
    text = data[:room][len(_COMMAND):]
    if reads_on:
        text += b'77777 '
    text = text.partition(b'\0')[0]
    if text.startswith(b'NONE'):
        return []
    numbers = []
    for word in text.split():
        digits = int(re.match(rb'\d*', word)[0] or 0)
        if not digits and numbers:
            break
        numbers.append(digits)
    return numbers


class Irqbalance:
    """One that runs, in a thread.

    :param room: how many bytes it reads
    :ivar held: what it leaves alone
    """

    def __init__(self, test, room=500, reads_on=False):
        directory = pathlib.Path(test.useFixture(fixtures.TempDir()).path)
        self.path = str(directory / 'irqbalance7.sock')
        self.held, self.is_silent = [], False
        self._room, self._reads_on = room, reads_on
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self.path)
        self._server.listen()
        thread = threading.Thread(target=self._serve)
        thread.start()
        test.addCleanup(self._server.close)
        test.addCleanup(thread.join)
        test.addCleanup(self._server.shutdown, socket.SHUT_RDWR)

    def _serve(self):
        while True:
            try:
                peer, _address = self._server.accept()
            except OSError:
                return
            with peer:
                data = peer.recv(self._room)
                if data.startswith(_COMMAND):
                    self.held = understood(data, self._room, self._reads_on)
                elif data.startswith(b'setup') and not self.is_silent:
                    held = ''.join(f'IRQ {number} LOAD 0 DIFF 0 CLASS 0 '
                                   for number in self.held)
                    peer.sendall(f'SLEEP 10 {held}BANNED 0,1'.encode())


class IrqbalanceTestCase(unit_base.TestCase):

    def test_lists(self):
        irqbalance = Irqbalance(self)
        for numbers in [9, 8], []:
            self.assertEqual(frozenset(numbers), irqbalance_socket.ban(
                irqbalance.path, numbers))
            self.assertEqual(numbers, irqbalance.held)

    def test_128_queues(self):
        """All of them from 1.9.5 on, and as many as it reads before."""
        irqbalance = Irqbalance(self, 16384)
        self.assertEqual({*QUEUES}, irqbalance_socket.ban(
            irqbalance.path, QUEUES))
        for reads_on in False, True:
            irqbalance = Irqbalance(self, reads_on=reads_on)
            held = irqbalance_socket.ban(irqbalance.path, QUEUES)
            self.assertEqual({*QUEUES[:96]}, held)
            self.assertEqual([*QUEUES[:96]], irqbalance.held)

    @hypothesis.given(*map(strategies.integers, (1, 1, 1), (70000, 99, 400)))
    def test_no_number_is_cut_in_two(self, first, step, count):
        numbers = [*range(first, first + step * count, step)]
        for text in irqbalance_socket._lists(numbers):
            data = _COMMAND + f'{text}\0'.encode()
            for room in 500, 16384:
                there = understood(data, room)
                self.assertEqual(numbers[:len(there)], there)
        self.assertEqual(numbers, understood(
            _COMMAND + irqbalance_socket._lists(numbers)[0].encode(), 16384))

    def test_it_cannot_be_told(self):
        irqbalance = Irqbalance(self)
        self.assertRaises(irqbalance_socket.IrqbalanceError,
                          irqbalance_socket.ban, f'{irqbalance.path}x', [1])


class BansTestCase(test_host_agent.AgentTestCase):
    """What a round and the end of the agent make of it."""

    def setUp(self):
        super().setUp()
        self.irqbalance = Irqbalance(self)
        self.useFixture(fixtures.MockPatchObject(
            irqbalance_socket, 'running',
            lambda files: {7: self.irqbalance.path}))
        self.own = self.useFixture(fixtures.MockPatchObject(
            irqbalance_socket, 'own_bans', return_value={3})).mock
        self.start('a', '6-7', interfaces=1)

    def test_they_are_remembered_first(self):
        self.agent.reconcile()
        self.assertEqual([3, 24], self.irqbalance.held)
        self.assertEqual({24}, self.record.banned_interrupts)
        self.assertEqual([], self.agent.release().trouble)
        self.assertEqual([3], self.irqbalance.held)
        self.assertIsNone(self.record.banned_interrupts)

    def test_one_of_several_cannot_be_told(self):
        """The others are, such as where a socket is a dead one's."""
        running = {6: f'{self.irqbalance.path}x', 7: self.irqbalance.path}
        self.useFixture(fixtures.MockPatchObject(
            irqbalance_socket, 'running', lambda files: running))
        self.agent.reconcile()
        self.assertEqual([3, 24], self.irqbalance.held)
        self.assertEqual(1, len(self.agent.release().trouble))
        self.assertEqual([3], self.irqbalance.held)
        self.assertEqual({24}, self.record.banned_interrupts)

    def test_what_is_left_out_is_told(self):
        self.own.return_value = {*QUEUES}
        for _time in range(2):
            told = self.agent.reconcile()
            self.assertIn('may move 33 interrupts away: 24,1096-1127',
                          told.trouble[0])
            self.assertEqual(33, len(told.unbanned))

    def test_it_does_not_say_what_it_does(self):
        """So it is not known, and asked again."""
        self.useFixture(fixtures.MockPatchObject(
            irqbalance_socket, 'ban',
            side_effect=irqbalance_socket.IrqbalanceError('mute')))
        told = self.agent.reconcile()
        self.assertEqual((['mute'], {24}), (told.trouble, told.unbanned))
        self.assertEqual(['mute'], self.agent.release().trouble)
        # Whoever comes next has it to tell.
        self.assertEqual({24}, self.record.banned_interrupts)
