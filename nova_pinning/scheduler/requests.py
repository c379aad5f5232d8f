# SPDX-License-Identifier: Apache-2.0
"""What the filters and weighers need of a request, read once."""

from __future__ import annotations

import dataclasses
from typing import Any
import weakref

import nova.conf
from nova.virt import hardware
from oslo_config import cfg
from oslo_log import log as logging

from nova_pinning.bridge import nova_claim
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge import numa
from nova_pinning.bridge import pci
from nova_pinning.bridge import topology
from nova_pinning import compat
from nova_pinning import conf
from nova_pinning import fit
from nova_pinning import model
from nova_pinning.model import hostclass
from nova_pinning.scheduler import budget
from nova_pinning.scheduler import claims
from nova_pinning.scheduler import classes
from nova_pinning.scheduler import errorlog
from nova_pinning.scheduler import mix
from nova_pinning.scheduler import tally
from nova_pinning.scheduler import traits_reader

LOG = logging.getLogger(__name__)
_ERRORS = errorlog.ErrorLog()


@compat.dataclass(frozen=True, slots=True)
class PinningOptions:
    """The options of [pinning] that may change while nova-scheduler runs."""

    mode: str
    on_error: str
    check_nova_claim: bool
    nova_claim_max_seconds: float
    request_budget_seconds: float
    unknown_host_class: str
    prefer_exclusive_l3: bool
    fragmentation_weight_multiplier: float
    cache_locality_weight_multiplier: float

    @property
    def observes(self) -> bool:
        """Whether nothing is to be changed, only told."""
        return self.mode == 'observe'


@compat.dataclass(slots=True)
class PinningRequest:
    """A RequestSpec as far as it matters for pinning.

    :param spec_topology: nova.objects.InstanceNUMATopology, None if the
        guest asks for none
    :param guest: the same for the engine; None too if it cannot be read
    :param guest_refusal: why no host will do, if it cannot
    :param guest_class: the class of guest; None if it cannot be told
    :param class_refusal: why no host will do, if it cannot
    :param pci_requests: nova.objects.InstancePCIRequest, none or several
    :param requires_threads: whether the flavor or image wants hosts with
        hardware threads
    :param requires_shared_cpus: whether nova-compute fails to start the guest
        where emulator threads have no shared CPUs to run on
    :param packs_cells: as nova-scheduler is configured
    :param is_move: whether it moves an instance that there is already
    :param left_host: the one that a move leaves, '' if that cannot be told
    :param instances: how many it asks for
    :param group_policy: of the server group that they are in, None without
    :param recent_mix: of pinned guests, this one included, as it was when
        its first instance was noted; None before that
    :param options: group [pinning], read once: to look up an option takes
        about as long as half a fit
    :param budget: the steps that it may take in searches
    :param claims: asks nova what its claim makes of the guest
    :param bounds: how far a host is looked into
    :param left_sizes: page sizes that its claims may leave when they are
        aborted, each with how one on another host would go wrong by that, None
        if none would; None in all if no such sizes matter
    :param hosts: for the shared fits: what is known of each HostState
    :param tallies: for each instance of the request, by filter, which hosts
        that refused and why
    :param placed: instances for which hosts were found, by filter
    :param left_aside: HostStates of the second tier that were not needed
    :param has_alternates: whether others may be tried after a claim on a host
        that has passed was aborted
    """

    spec_topology: Any
    guest: model.Guest | None
    guest_refusal: model.Refusal | None
    guest_class: hostclass.HostClass | None
    class_refusal: model.Refusal | None
    pci_requests: Any
    requires_threads: bool
    requires_shared_cpus: bool
    packs_cells: bool
    is_move: bool
    left_host: str
    instances: int
    group_policy: str | None
    recent_mix: mix.Mix | None
    options: PinningOptions
    budget: budget.RequestBudget
    claims: claims.ClaimPredictor
    bounds: fit.ClaimBounds
    left_sizes: dict[fit.PageSizes, model.Refusal | None] | None
    hosts: dict[Any, Any] = dataclasses.field(default_factory=dict)
    tallies: dict[str, dict[str, tally.RefusalTally]] = dataclasses.field(
        default_factory=dict)
    placed: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    left_aside: list[Any] = dataclasses.field(default_factory=list)
    has_alternates: bool = True
    _traits: traits_reader.TraitsView | None = None

    @property
    def is_several(self) -> bool:
        """Whether it asks for several instances."""
        return self.instances > 1

    @property
    def traits(self) -> traits_reader.TraitsView:
        """The traits of all hosts, the same for the whole request.

        Asked for only by what needs them, since the first request may have
        to wait.
        """
        if self._traits is None:
            self._traits = traits_reader.view()
        return self._traits


#: The request read from each RequestSpec that is alive.
_known: weakref.WeakKeyDictionary[
    Any, PinningRequest] = weakref.WeakKeyDictionary()


def read(spec_obj: Any) -> PinningRequest:
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


def _read(spec_obj: Any) -> PinningRequest:
    network_metadata = nova_objects.given(spec_obj, 'network_metadata')
    guest_class, class_refusal = _guest_class(spec_obj)
    guest, guest_refusal = _guest(spec_obj.numa_topology, network_metadata)
    pci_requests = spec_obj.pci_requests
    now = current_options()
    is_move = _is_move(spec_obj)
    ids = None
    if is_move and guest is not None and fit.is_changed_by_claims(guest):
        try:
            unshelved = nova_claim.unshelved_topology(spec_obj)
            if unshelved is not None:
                guest, guest_refusal = _guest(unshelved, network_metadata)
                ids = [cell.id for cell in unshelved.cells]
        except Exception as error:
            _ERRORS.report(
                LOG, 'What instance %s was left with cannot be read',
                spec_obj.instance_uuid, error=error)
            guest, guest_refusal = None, model.Refusal(
                model.Reason.ERROR,
                detail=f'whether it is unshelved cannot be told: {error!r}')
    request_budget = budget.RequestBudget(now.request_budget_seconds)
    predictor = claims.ClaimPredictor(guest, network_metadata, ids)
    # Nova tries other hosts with what an aborted claim has left. Not where it
    # tries once only, and not for moves, which have no alternates or make the
    # guest's topology anew.
    is_retried = nova.conf.CONF.scheduler.max_attempts > 1 and not is_move
    return PinningRequest(
        spec_topology=spec_obj.numa_topology or None,
        guest=guest,
        guest_refusal=guest_refusal,
        guest_class=guest_class,
        class_refusal=class_refusal,
        pci_requests=pci_requests.requests if pci_requests else None,
        requires_threads=_requires_threads(spec_obj),
        requires_shared_cpus=_requires_shared_cpus(spec_obj),
        packs_cells=numa.packs_cells(),
        is_move=is_move,
        # Of an evacuation that is all that nova-conductor excludes.
        left_host=''.join((is_move and nova_objects.given(
            spec_obj, 'ignore_hosts') or [])[:1]),
        # Of a move, it is the number that the instance once came with.
        instances=1 if is_move else nova_objects.given(
            spec_obj, 'num_instances', 1),
        group_policy=_group_policy(spec_obj),
        recent_mix=None,
        options=now,
        budget=request_budget,
        claims=predictor,
        bounds=fit.ClaimBounds(
            max_seconds=now.nova_claim_max_seconds,
            is_retried=is_retried,
            is_over=request_budget.is_over,
            ask_nova=predictor.predict if now.check_nova_claim else None,
            forgets_pages=guest is not None and nova_claim.forgets_pages()),
        # Of one cell, nova knows what it asks for, however it came to that.
        left_sizes={} if guest is not None and len(guest.cells) > 1
        and fit.has_open_pages(guest) and is_retried and now.check_nova_claim
        else None)


_OPTION_NAMES = tuple(
    [field.name for field in dataclasses.fields(PinningOptions)])
#: The options as they were good last.
_good_options: PinningOptions | None = None
#: Whether they stand in the place of those in the files.
_is_overridden = False


def current_options() -> PinningOptions:
    """The options as they are now.

    They may be changed while nova-scheduler runs; where one is wrong then,
    all go on to apply as they were good last. Filters and weighers ask when
    they are made, so that there are such.

    :raises ValueError: if one is wrong, and none have been good
    """
    try:
        return _now()
    except (ValueError, cfg.Error) as error:
        if _good_options is None:
            raise
        _ERRORS.report(
            LOG, 'An option of [pinning] is wrong; those that were right last '
            'still apply: %s', error, error=error)
        return _good_options


def last_options() -> PinningOptions:
    """The options as they were when they were last asked for.

    This takes no time, so it may be asked for each host.
    """
    return _good_options or current_options()


def _now() -> PinningOptions:
    global _good_options
    _good_options = PinningOptions(*conf.values(_OPTION_NAMES))
    return _good_options


def _note_change(reloaded: cfg.ConfigOpts, _changed: Any) -> None:
    """See to the options when nova-scheduler has read its files again.

    That may be in a process that serves no requests: with native threads,
    those that do end on SIGHUP, and their parent forks new ones. Where an
    option is wrong, those that were good last are put in the place of all of
    them: oslo.service logs every option of a process with eventlet threads,
    which would end on it.
    """
    global _is_overridden
    if _is_overridden:
        _is_overridden = False
        for name in _OPTION_NAMES:
            reloaded.clear_override(name, 'pinning')
    try:
        _now()
    except (ValueError, cfg.Error) as error:
        LOG.error('nova-scheduler has read its configuration again, but an '
                  'option of [pinning] is wrong; those that were right last '
                  'still apply: %s', error)
        good = _good_options
        if good is not None:
            for name in _OPTION_NAMES:
                reloaded.set_override(name, getattr(good, name), 'pinning')
            _is_overridden = True


conf.CONF.register_mutate_hook(_note_change)


def _is_move(spec_obj: Any) -> bool:
    """Whether the instance is there already.

    Told by the cell that nova-conductor restricts it to
    (nova.conductor.tasks.migrate.MigrationTask.
    _set_requested_destination_cell, and the like for other moves).
    """
    destination = nova_objects.given(spec_obj, 'requested_destination')
    return bool(destination and nova_objects.given(destination, 'cell'))


def _group_policy(spec_obj: Any) -> str | None:
    group = nova_objects.given(spec_obj, 'instance_group')
    return nova_objects.given(group, 'policy') if group else None


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
    return 'require' in (
        extra_specs.get('hw:cpu_thread_policy'),
        classes.image_property(spec_obj, 'hw_cpu_thread_policy'),
    ) and 'dedicated' in (
        extra_specs.get('hw:cpu_policy'),
        classes.image_property(spec_obj, 'hw_cpu_policy'))


def _requires_shared_cpus(spec_obj: Any) -> bool:
    """Whether the guest starts only where cpu_shared_set is set.

    So do real-time guests with hw:emulator_threads_policy=share
    (nova.virt.libvirt.driver.LibvirtDriver._get_guest_memory_backing_config).
    """
    flavor = spec_obj.flavor
    return (flavor.extra_specs.get('hw:emulator_threads_policy') == 'share'
            and bool(hardware.is_realtime_enabled(flavor)))


def note_instance(spec_obj: Any, request: PinningRequest) -> None:
    """Count the instance that is scheduled now into the recent mix.

    An instance counts once, so filters and weighers may all say so. One that
    is moved has been asked for before, perhaps long ago.

    :param spec_obj: nova.objects.RequestSpec; for each instance of a request
        for several, nova sets its instance_uuid
    :param request: what was read from it
    """
    if request.guest is None or not request.guest.is_pinned:
        return
    recent = mix.recent()
    instance = nova_objects.given(spec_obj, 'instance_uuid')
    if instance and not request.is_move:
        recent.add(instance, request.guest,
                   pci.demands(request.pci_requests))
    if request.recent_mix is None:
        request.recent_mix = recent.mix()
