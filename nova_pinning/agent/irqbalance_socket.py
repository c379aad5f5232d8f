# SPDX-License-Identifier: Apache-2.0
"""irqbalance, told which interrupts to leave alone.

It listens on a socket below /run/irqbalance; see irqbalance(1). What it is
told takes the place of what it was told before, and it reads no more than 255
characters.
"""

from collections.abc import Iterable
import os
import re
import socket
import struct

from nova_pinning.agent import kernel_files
from nova_pinning import cpuset

DIRECTORY = '/run/irqbalance'
_COMMAND = 'settings ban irqs '
_MOST = 255
_SOCKET = re.compile(r'irqbalance(\d+)\.sock')
_SECONDS = 2.0


class IrqbalanceError(Exception):
    """It was not told; says why."""


def running(files: kernel_files.KernelFiles) -> dict[int, str]:
    """The sockets of those that run, by process id."""
    return {int(match[1]): f'{DIRECTORY}/{match[0]}'
            for match in map(_SOCKET.fullmatch, files.names(DIRECTORY))
            if match and files.exists(f'/proc/{match[1]}')}


def own_bans(files: kernel_files.KernelFiles, pid: int) -> frozenset[int]:
    """Interrupts that its command line has it leave alone."""
    arguments = (files.text(f'/proc/{pid}/cmdline') or '').split('\0')
    numbers = set()
    for argument, following in zip(arguments, [*arguments[1:], '']):
        name, _equals, value = argument.partition('=')
        if name in ('--banirq', '-i'):
            text = value or following
            numbers |= {int(text)} if text.isdecimal() else set()
    return frozenset(numbers)


def ban(path: str, numbers: Iterable[int]) -> None:
    """Have it leave these interrupts alone, and no others.

    :param path: of the socket
    :raises IrqbalanceError: if it cannot be told so
    """
    # It takes a list of numbers only, and where the list is short it does not
    # matter in which order.
    text = ' '.join(map(str, cpuset.CpuSet(numbers))) or 'NONE'
    if len(text) > _MOST:
        raise IrqbalanceError(
            f'irqbalance reads no list of {len(text)} characters; stop it, '
            'or restart it with --banirq for each interrupt of the network '
            'cards')
    credentials = struct.pack('3i', os.getpid(), os.getuid(), os.getgid())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as peer:
            peer.settimeout(_SECONDS)
            peer.connect(path)
            peer.sendmsg([(_COMMAND + text).encode()], [
                (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, credentials)])
    except OSError as error:
        raise IrqbalanceError(
            f'irqbalance cannot be told through {path}: '
            f'{(error.strerror or str(error)).lower()}') from error
