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

"""Which flavor is nearest to what is advised."""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_pinning.bench.advise import hosts
from nova_pinning.flavors import guest_class as flavor_class
from nova_pinning.flavors import model as flavor_model
from nova_pinning.model import hostclass

_POLICY = 'hw:emulator_threads_policy'
_MULTIQUEUE = 'hw:vif_multiqueue_enabled'
_REALTIME = 'hw:cpu_realtime'
_DEVICES = 'pci_passthrough:alias'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a flavor is to be like.

    :param low: vCPUs that it should have at least, None for any number
    :param emulator: 'share', 'isolate', or anything else for no policy
    """

    guest_class: hostclass.HostClass
    low: int | None = None
    high: int | None = None
    emulator: str = ''
    has_multiqueue: bool = False
    is_realtime: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The flavor that is nearest.

    :param misses: in what it is not what is wanted, in words
    :param is_in_range: whether it has as many vCPUs as wanted
    """

    flavor: flavor_model.Flavor
    misses: tuple[str, ...]
    is_in_range: bool


def nearest(flavors: Sequence[flavor_model.Flavor], wanted: Wanted,
            room: hosts.Room | None) -> Match | None:
    """The flavor of the class that is nearest, and fits on the host.

    First comes what a flavor does that it should not, or cannot be added to
    it: realtime, devices. Then its size, the smallest in the range, else the
    nearest to it. Then what can be added by an extra spec.

    :returns: None if no flavor of the class fits
    """
    fitting = [one for one in flavors if _class(one) is wanted.guest_class
               and (room is None or room.fits(one, wanted.guest_class))]
    if not fitting:
        return None
    best = min(fitting, key=lambda one: (
        len(list(_foreign(one, wanted))), _distance(one, wanted), one.vcpus,
        len(list(_missing(one, wanted))), one.memory_mib, one.name))
    return Match(
        flavor=best, is_in_range=not _distance(best, wanted),
        misses=(*_foreign(best, wanted), *_missing(best, wanted)))


def _class(flavor: flavor_model.Flavor) -> hostclass.HostClass | None:
    try:
        return flavor_class.guest_class(flavor.extra_specs, None)
    except hostclass.UnknownClass:
        return None


def _distance(flavor: flavor_model.Flavor, wanted: Wanted) -> int:
    """vCPUs that it has too few or too many."""
    if wanted.low is None or wanted.high is None:
        return 0
    return max(wanted.low - flavor.vcpus,
               flavor.vcpus - max(wanted.low, wanted.high), 0)


def _foreign(flavor: flavor_model.Flavor, wanted: Wanted) -> Iterator[str]:
    specs = flavor.extra_specs
    is_realtime = _is_on(specs.get(_REALTIME))
    if is_realtime and not wanted.is_realtime:
        yield f'it has {_REALTIME}=true'
    elif wanted.is_realtime and not is_realtime:
        yield f'it lacks {_REALTIME}=true'
    if _DEVICES in specs:
        yield f'it takes devices: {specs[_DEVICES]}'


def _missing(flavor: flavor_model.Flavor, wanted: Wanted) -> Iterator[str]:
    specs = flavor.extra_specs
    policy = wanted.emulator if wanted.emulator in (
        'share', 'isolate') else ''
    if specs.get(_POLICY, '') != policy:
        yield (f'add {_POLICY}={policy}' if policy
               else f'it has {_POLICY}={specs[_POLICY]}')
    if wanted.has_multiqueue and not _is_on(specs.get(_MULTIQUEUE)):
        yield f'add {_MULTIQUEUE}=true'


def _is_on(text: str | None) -> bool:
    return (text or '').lower() in ('true', 'yes', '1', 'on')
