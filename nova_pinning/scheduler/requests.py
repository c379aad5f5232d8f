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

"""What the filters and weighers need of a request, read once."""

import dataclasses
from typing import Any
import weakref

from nova import objects

from nova_pinning.bridge import numa
from nova_pinning.bridge import topology
from nova_pinning import conf
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.scheduler import classes
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import tally
from nova_pinning.scheduler import traits

CONF = conf.CONF


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The options of [pinning] that are needed for each host."""

    check_nova_claim: bool
    nova_claim_max_permutations: int
    unknown_host_class: str
    exclusive_l3: bool


@dataclasses.dataclass(slots=True)
class Request:
    """A RequestSpec as far as it matters for pinning.

    :param spec_topology: nova.objects.InstanceNUMATopology, None if the
        guest asks for none
    :param guest: the same for the engine; None too if it cannot be read
    :param guest_refusal: why no host will do, if it cannot
    :param guest_class: the class of guest; None if it cannot be told
    :param class_refusal: why no host will do, if it cannot
    :param pci_requests: nova.objects.InstancePCIRequest, none or several
    :param network_metadata: nova.objects.NetworkMetadata or None
    :param requires_threads: whether the flavor or image wants hosts with
        hardware threads
    :param packs_cells: as nova is configured
    :param recent_mix: of pinned guests, this one included
    :param options: group [pinning], read once: to look up an option takes
        about as long as half a fit
    :param placements: for the shared fits: what was found for each HostState,
        with the host topology that it was found for
    :param tallies: for each instance of the request, by filter, which hosts
        that refused and why
    """

    spec_topology: Any
    guest: model.Guest | None
    guest_refusal: model.Refusal | None
    guest_class: hostclass.HostClass | None
    class_refusal: model.Refusal | None
    pci_requests: Any
    network_metadata: Any
    requires_threads: bool
    packs_cells: bool
    recent_mix: mix.Mix
    options: Options
    placements: dict[Any, tuple[Any, Any]] = dataclasses.field(
        default_factory=dict)
    tallies: dict[str, dict[str, tally.Tally]] = dataclasses.field(
        default_factory=dict)
    _limits: dict[tuple[float, float], Any] = dataclasses.field(
        default_factory=dict)
    _traits: traits.View | None = None

    @property
    def traits(self) -> traits.View:
        """The traits of all hosts, the same for the whole request.

        Asked for only by what needs them, since the first request may have
        to wait.
        """
        if self._traits is None:
            self._traits = traits.view()
        return self._traits

    def limits(self, ratios: tuple[float, float]) -> Any:
        """nova.objects.NUMATopologyLimits; hosts with like ratios share it.

        Nova only ever reads it, and making one takes as long as a fit.

        :param ratios: the host's CPU and RAM allocation ratios
        """
        limits = self._limits.get(ratios)
        if limits is None:
            cpu_ratio, ram_ratio = ratios
            limits = objects.NUMATopologyLimits(
                cpu_allocation_ratio=cpu_ratio, ram_allocation_ratio=ram_ratio)
            if self.network_metadata:
                limits.network_metadata = self.network_metadata
            self._limits[ratios] = limits
        return limits


#: The request read from each RequestSpec that is alive.
_known: weakref.WeakKeyDictionary[Any, Request] = weakref.WeakKeyDictionary()


def read(spec_obj: Any) -> Request:
    """Read a nova.objects.RequestSpec; the answer is kept with the spec.

    It is never read again. Nova-scheduler gets a new spec with each request,
    and in one for several instances it replaces the topology in the spec
    after each of them by what its own fit made of it: with other ids, pages
    of a certain size instead of any large ones, or None where that went
    wrong. The next instance asks for what the first one did all the same.
    """
    request = _known.get(spec_obj)
    if request is None:
        request = _known[spec_obj] = _read(spec_obj)
    return request


def _read(spec_obj: Any) -> Request:
    network_metadata = None
    if 'network_metadata' in spec_obj:
        network_metadata = spec_obj.network_metadata
    guest_class, class_refusal = _guest_class(spec_obj)
    guest, guest_refusal = _guest(spec_obj.numa_topology, network_metadata)
    recent_mix: mix.Mix = ()
    if guest is not None and guest.is_pinned:
        mix.recent().add(guest)
        recent_mix = mix.recent().mix()
    pci_requests = spec_obj.pci_requests
    options = CONF.pinning
    return Request(
        spec_topology=spec_obj.numa_topology or None,
        guest=guest,
        guest_refusal=guest_refusal,
        guest_class=guest_class,
        class_refusal=class_refusal,
        pci_requests=pci_requests.requests if pci_requests else None,
        network_metadata=network_metadata,
        requires_threads=_requires_threads(spec_obj),
        packs_cells=numa.packs_cells(),
        recent_mix=recent_mix,
        options=Options(
            options.check_nova_claim, options.nova_claim_max_permutations,
            options.unknown_host_class, options.exclusive_l3))


def _guest_class(
    spec_obj: Any,
) -> tuple[hostclass.HostClass | None, model.Refusal | None]:
    try:
        return classes.guest_class(spec_obj), None
    except hostclass.UnknownClass as error:
        return None, model.Refusal(
            model.Reason.CLASS_UNKNOWN, detail=str(error))


def _guest(
    spec_topology: Any, network_metadata: Any,
) -> tuple[model.Guest | None, model.Refusal | None]:
    if not spec_topology:
        return None, None
    try:
        guest = topology.guest_from_nova(spec_topology, network_metadata)
    except topology.BrokenTopology as error:
        return None, model.Refusal(
            model.Reason.BROKEN_TOPOLOGY, detail=str(error))
    return guest, None


def _requires_threads(spec_obj: Any) -> bool:
    """Whether a dedicated guest wants thread siblings.

    As nova's NUMATopologyFilter asks it: of the flavor and of the image,
    whichever says so.
    """
    extra_specs = spec_obj.flavor.extra_specs
    policies = (extra_specs.get('hw:cpu_policy'),
                classes.image_property(spec_obj, 'hw_cpu_policy'))
    thread_policies = (
        extra_specs.get('hw:cpu_thread_policy'),
        classes.image_property(spec_obj, 'hw_cpu_thread_policy'))
    return 'dedicated' in policies and 'require' in thread_policies
