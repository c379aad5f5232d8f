# SPDX-License-Identifier: Apache-2.0
"""What a cloud reports that a snapshot cannot represent.

A database may have anything in it: a page size of -1, a CPU 70000. One such
row must not be the end of an import of thousands.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
from typing import TypeVar

from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import snapshot

_T = TypeVar('_T')
#: What document.dumps raises for a fleet that could not be read again.
UNSOUND = (errors.InputError, ValueError, ArithmeticError)


def representable(
        fleet: snapshot.Fleet) -> tuple[snapshot.Fleet, Sequence[str]]:
    """The fleet itself where a snapshot can hold it, or else what it can.

    :returns: the fleet, and a sentence for each thing that has changed
    """
    return drop_unrepresentable(fleet) if _trouble(fleet) else (fleet, ())


def drop_unrepresentable(
    fleet: snapshot.Fleet,
) -> tuple[snapshot.Fleet, tuple[str, ...]]:
    """The fleet as a snapshot can hold it, and what was left out of it.

    Of a host that is odd the cells are left out, and of a guest where it
    lies; if that does not do, all of it.

    :returns: the fleet, and a sentence for each that has changed
    """
    notes: list[str] = []
    hosts = _simplified(
        fleet.hosts, lambda some: snapshot.Fleet(hosts=tuple(some)),
        lambda host: dataclasses.replace(host, cells=(), l3_domains=()),
        lambda host: f'host {host.name}', notes)
    guests = _simplified(
        fleet.guests,
        lambda some: snapshot.Fleet(hosts=(), guests=tuple(some)),
        lambda guest: dataclasses.replace(guest, topology=None, fit=None),
        lambda guest: f'server {guest.uuid} on {guest.host}', notes)
    flavors = _simplified(
        fleet.flavors,
        lambda some: snapshot.Fleet(hosts=(), flavors=tuple(some)),
        lambda flavor: flavor, lambda flavor: f'flavor {flavor.name}', notes)
    return dataclasses.replace(
        fleet, hosts=hosts, guests=guests, flavors=flavors), tuple(notes)


def _simplified(
    things: Sequence[_T], fleet: Callable[[Sequence[_T]], snapshot.Fleet],
    lesser: Callable[[_T], _T], name: Callable[[_T], str], notes: list[str],
) -> tuple[_T, ...]:
    """Those that a snapshot can hold, the odd ones with less in them.

    :param fleet: one with these things alone
    :param lesser: a thing without what is odd more often
    """
    trouble = _trouble(fleet(things))
    if not trouble:
        return tuple(things)
    if len(things) > 1:
        # Few are odd, so halves are soon sound.
        middle = len(things) // 2
        return (*_simplified(things[:middle], fleet, lesser, name, notes),
                *_simplified(things[middle:], fleet, lesser, name, notes))
    less = lesser(things[0])
    if not _trouble(fleet([less])):
        notes.append(f'{name(less)}: what nova has of its topology makes no '
                     f'sense and is left out: {trouble}')
        return (less,)
    notes.append(f'{name(less)} is left out: {trouble}')
    return ()


def _trouble(fleet: snapshot.Fleet) -> str:
    """Why a snapshot cannot hold it, '' if it can."""
    try:
        document.dumps(fleet)
    except errors.InputError as error:
        # The place is one in a text that nobody has.
        return error.message
    except UNSOUND as error:
        return str(error)
    return ''
