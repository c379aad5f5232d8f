# SPDX-License-Identifier: Apache-2.0
"""Which flavor is nearest to what is advised."""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_pinning.flavors import flavor_model
from nova_pinning.instance_bench.advise import hosts
from nova_pinning.model import hostclass

_POLICY = 'hw:emulator_threads_policy'
_MULTIQUEUE = 'hw:vif_multiqueue_enabled'
_REALTIME = 'hw:cpu_realtime'
_DEVICES = 'pci_passthrough:alias'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedFlavor:
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
class FlavorMatch:
    """The flavor that is nearest.

    :param misses: in what it is not what is wanted, in words
    :param is_in_range: whether it has as many vCPUs as wanted
    """

    flavor: flavor_model.Flavor
    misses: tuple[str, ...]
    is_in_range: bool


def nearest(flavors: Sequence[flavor_model.Flavor], advised: AdvisedFlavor,
            room: hosts.BareHost | None) -> FlavorMatch | None:
    """The flavor of the class that is nearest, and fits on the host.

    First comes what a flavor does that it should not, or cannot be added to
    it: realtime, devices. Then its size, the smallest in the range, else the
    nearest to it. Then what can be added by an extra spec.

    :returns: None if no flavor of the class fits
    """
    fitting = [
        flavor for flavor in flavors
        if _class(flavor) is advised.guest_class and (
            room is None or room.fits(flavor, advised.guest_class))]
    if not fitting:
        return None
    best = min(fitting, key=lambda flavor: (
        len(list(_foreign(flavor, advised))), _distance(flavor, advised),
        flavor.vcpus, len(list(_missing(flavor, advised))), flavor.memory_mib,
        flavor.name))
    return FlavorMatch(
        flavor=best, is_in_range=not _distance(best, advised),
        misses=(*_foreign(best, advised), *_missing(best, advised)))


def _class(flavor: flavor_model.Flavor) -> hostclass.HostClass | None:
    try:
        return hostclass.class_of_guest(flavor.extra_specs)
    except hostclass.UnknownClass:
        return None


def _distance(flavor: flavor_model.Flavor, advised: AdvisedFlavor) -> int:
    """vCPUs that it has too few or too many."""
    if advised.low is None or advised.high is None:
        return 0
    return max(advised.low - flavor.vcpus,
               flavor.vcpus - max(advised.low, advised.high), 0)


def _foreign(flavor: flavor_model.Flavor,
             advised: AdvisedFlavor) -> Iterator[str]:
    specs = flavor.extra_specs
    is_realtime = _is_on(specs.get(_REALTIME))
    if is_realtime and not advised.is_realtime:
        yield f'it has {_REALTIME}=true'
    elif advised.is_realtime and not is_realtime:
        yield f'it lacks {_REALTIME}=true'
    if _DEVICES in specs:
        yield f'it takes devices: {specs[_DEVICES]}'


def _missing(flavor: flavor_model.Flavor,
             advised: AdvisedFlavor) -> Iterator[str]:
    specs = flavor.extra_specs
    policy = advised.emulator if advised.emulator in (
        'share', 'isolate') else ''
    if specs.get(_POLICY, '') != policy:
        yield (f'add {_POLICY}={policy}' if policy
               else f'it has {_POLICY}={specs[_POLICY]}')
    if advised.has_multiqueue and not _is_on(specs.get(_MULTIQUEUE)):
        yield f'add {_MULTIQUEUE}=true'


def _is_on(text: str | None) -> bool:
    return (text or '').lower() in ('true', 'yes', '1', 'on')
