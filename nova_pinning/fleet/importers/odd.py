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

"""What a cloud says that no snapshot can hold.

A database may have anything in it: a page size of -1, a CPU 70000. One such
row must not be the end of an import of thousands.
"""

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
from typing import TypeVar

from nova_pinning import errors
from nova_pinning.fleet import document
from nova_pinning.fleet import model as fleet_model

_T = TypeVar('_T')
#: What document.dumps raises for a fleet that could not be read again.
UNSOUND = (errors.InputError, ValueError, ArithmeticError)


def without(
    fleet: fleet_model.Fleet,
) -> tuple[fleet_model.Fleet, tuple[str, ...]]:
    """The fleet as a snapshot can hold it, and what was left out of it.

    Of a host that is odd the cells are left out, and of a guest where it
    lies; if that does not do, all of it.

    :returns: the fleet, and a sentence for each that has changed
    """
    notes: list[str] = []
    hosts = _mended(
        fleet.hosts, lambda some: fleet_model.Fleet(hosts=tuple(some)),
        lambda host: dataclasses.replace(host, cells=(), l3_domains=()),
        lambda host: f'host {host.name}', notes)
    guests = _mended(
        fleet.guests,
        lambda some: fleet_model.Fleet(hosts=(), guests=tuple(some)),
        lambda guest: dataclasses.replace(guest, topology=None, fit=None),
        lambda guest: f'server {guest.uuid} on {guest.host}', notes)
    flavors = _mended(
        fleet.flavors,
        lambda some: fleet_model.Fleet(hosts=(), flavors=tuple(some)),
        lambda flavor: flavor, lambda flavor: f'flavor {flavor.name}', notes)
    return dataclasses.replace(
        fleet, hosts=hosts, guests=guests, flavors=flavors), tuple(notes)


def _mended(
    things: Sequence[_T], fleet: Callable[[Sequence[_T]], fleet_model.Fleet],
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
        return (*_mended(things[:middle], fleet, lesser, name, notes),
                *_mended(things[middle:], fleet, lesser, name, notes))
    less = lesser(things[0])
    if not _trouble(fleet([less])):
        notes.append(f'{name(less)}: what nova has of its topology makes no '
                     f'sense and is left out: {trouble}')
        return (less,)
    notes.append(f'{name(less)} is left out: {trouble}')
    return ()


def _trouble(fleet: fleet_model.Fleet) -> str:
    """Why a snapshot cannot hold it, '' if it can."""
    try:
        document.dumps(fleet)
    except errors.InputError as error:
        # The place is one in a text that nobody has.
        return error.message
    except UNSOUND as error:
        return str(error)
    return ''
