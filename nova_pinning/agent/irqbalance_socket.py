# SPDX-License-Identifier: Apache-2.0
"""irqbalance, told which interrupts to leave alone.

It listens on a socket below /run/irqbalance; see irqbalance(1). What it is
told replaces what it was told before. Up to 1.9.4 it reads 500 bytes of a
command and ignores the rest, so that the last number of a longer list may be
cut short. Before 1.9.0 it does not end a command where it ends: what the
buffer held before is read as part of it, unless there is a NUL.
"""

from collections.abc import Sequence
import contextlib
import os
import re
import socket
import struct

from nova_pinning.agent import kernel_files

DIRECTORY = '/run/irqbalance'
_COMMAND = 'settings ban irqs '
_READ = 500
_HELD = re.compile(r'IRQ (\d+) LOAD')
_SOCKET = re.compile(r'irqbalance(\d+)\.sock')
_SECONDS = 2.0


class IrqbalanceError(Exception):
    """It was not told; says why."""


def running(files: kernel_files.WritableTree) -> dict[int, str]:
    """The sockets of those that run, by process id."""
    return {int(match[1]): f'{DIRECTORY}/{match[0]}'
            for match in map(_SOCKET.fullmatch, files.names(DIRECTORY))
            if match and files.exists(f'/proc/{match[1]}')}


def own_bans(files: kernel_files.WritableTree, pid: int) -> frozenset[int]:
    """Interrupts that its command line has it leave alone."""
    arguments = (files.text(f'/proc/{pid}/cmdline') or '').split('\0')
    numbers = set()
    for argument, following in zip(arguments, [*arguments[1:], '']):
        name, _equals, value = argument.partition('=')
        if name in ('--banirq', '-i'):
            text = value or following
            numbers |= {int(text)} if text.isdecimal() else set()
    return frozenset(numbers)


def ban(path: str, numbers: Sequence[int]) -> frozenset[int]:
    """Have it leave these interrupts alone, and no others.

    :param path: of the socket
    :param numbers: those first that matter most, if not all can be told
    :returns: those that it says it leaves alone
    :raises IrqbalanceError: if it cannot be told so, or does not say
    """
    wanted = frozenset(numbers)
    try:
        for text in _lists(numbers):
            _ask(path, f'{_COMMAND}{text}\0')
            held = frozenset(map(int, _HELD.findall(_ask(path, 'setup'))))
            if held == wanted:
                break
    except OSError as error:
        raise IrqbalanceError(
            f'irqbalance cannot be told through {path}, or does not say what '
            'it leaves alone, so it may move interrupts away: '
            f'{(error.strerror or str(error)).lower()}') from error
    return held


def _lists(numbers: Sequence[int]) -> list[str]:
    """What to try: all of them, and as many as any irqbalance reads."""
    whole = ' '.join(map(str, numbers)) or 'NONE'
    room = _READ - len(_COMMAND) - 1
    if len(whole) <= room:
        return [whole]
    # Padded, so that what is read of it ends between two numbers.
    short = whole[:whole.rindex(' ', 0, room + 1)]
    return [short.ljust(room + 1) + whole[len(short):], short]


def _ask(path: str, command: str) -> str:
    credentials = struct.pack('3i', os.getpid(), os.getuid(), os.getgid())
    answer = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
        peer.settimeout(_SECONDS)
        peer.connect(path)
        peer.sendmsg([command.encode()], [
            (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)])
        # It closes the connection when it has answered. If it has not read
        # all of the command, that resets it.
        with contextlib.suppress(ConnectionResetError):
            while part := peer.recv(65536):
                answer.append(part)
    return b''.join(answer).decode()
