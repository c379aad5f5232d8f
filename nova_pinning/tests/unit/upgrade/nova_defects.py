# SPDX-License-Identifier: Apache-2.0
"""Shows nova's defects by nova's own code, whichever nova that is.

A program for the Python of any release: it imports nova and what comes with
it, and nothing of this project. Each function that :func:`shows` is put on
does what the register (nova_pinning/upgrade/register.yaml) says goes wrong,
and returns whether it did. The program prints a JSON object with nova's
version and what each of them has returned, or the error that it has ended in.
"""

import contextlib
import importlib.metadata
import itertools
import json
import logging
import sys
import traceback
from unittest import mock
import warnings

warnings.simplefilter('ignore')

from lxml import etree  # noqa: E402

from nova.compute import claims  # noqa: E402
from nova.compute import manager  # noqa: E402
from nova.compute import power_state  # noqa: E402
from nova.compute import resource_tracker  # noqa: E402
from nova.conductor.tasks import live_migrate  # noqa: E402
import nova.conf  # noqa: E402
from nova import context as nova_context  # noqa: E402
from nova import exception  # noqa: E402
from nova import objects  # noqa: E402
from nova.objects import fields  # noqa: E402
from nova.objects import service  # noqa: E402
from nova.pci import manager as pci_manager  # noqa: E402
from nova.pci import stats  # noqa: E402
from nova.scheduler.filters import numa_topology_filter  # noqa: E402
from nova.scheduler import host_manager  # noqa: E402
from nova.virt import hardware  # noqa: E402
from nova.virt.libvirt.cpu import api as cpu_api  # noqa: E402
from nova.virt.libvirt import driver  # noqa: E402
from nova.virt.libvirt import migration  # noqa: E402

from nova_samples import device_pools  # noqa: E402
from nova_samples import devices  # noqa: E402
from nova_samples import fit  # noqa: E402
from nova_samples import GIB  # noqa: E402
from nova_samples import guest_cell  # noqa: E402
from nova_samples import guest_of  # noqa: E402
from nova_samples import host_cell  # noqa: E402
from nova_samples import host_of  # noqa: E402
from nova_samples import NIC  # noqa: E402
from nova_samples import page  # noqa: E402
from nova_samples import PINNED  # noqa: E402
from nova_samples import UUID  # noqa: E402

CONF = nova.conf.CONF
#: What nova makes of a file in /sys that the kernel keeps busy.
BUSY = (exception.DeviceBusy(file_path='/sys') if hasattr(
    exception, 'DeviceBusy') else OSError('busy'))
LARGE = hardware.MEMPAGES_LARGE

DEMONSTRATIONS = {}


def shows(function):
    DEMONSTRATIONS[function.__name__] = function
    return function


def claim_of(guest, host, pci_stats=None, requests=()):
    """What nova-compute claims for a guest."""
    tracker = mock.Mock()
    tracker.pci_tracker.stats = pci_stats
    instance = objects.Instance(uuid=UUID, numa_topology=guest, memory_mb=GIB,
                                vcpus=1, root_gb=0, ephemeral_gb=0)
    node = objects.ComputeNode(numa_topology=host._to_json())
    return claims.Claim(
        nova_context.get_admin_context(), instance, 'node', tracker, node,
        objects.InstancePCIRequests(requests=list(requests)),
    ).claimed_numa_topology


@contextlib.contextmanager
def options(group, **values):
    for name, value in values.items():
        CONF.set_override(name, value, group)
    try:
        yield
    finally:
        for name in values:
            CONF.clear_override(name, group)


# Live migration.

def told_by_destination(guest, host):
    """What the host that a guest is moved to tells its source of CPUs."""
    own = driver.LibvirtDriver.__new__(driver.LibvirtDriver)
    own._host = mock.Mock(**{'get_online_cpus.return_value': {7}})
    with mock.patch.multiple(
            own, _has_numa_support=mock.Mock(return_value=True),
            _get_vcpu_available=mock.Mock(return_value={7}),
            _get_host_numa_topology=mock.Mock(return_value=host)):
        return own._get_live_migrate_numa_info(
            guest, objects.Flavor(vcpus=1, extra_specs={}),
            objects.ImageMeta(properties=objects.ImageMetaProps()))


def moved_xml(iothreadpin, policy):
    """The XML of a guest with a cell, as its source host adapts it.

    :param policy: None for a guest whose vCPU floats over the cell
    """
    document = etree.fromstring(
        '<domain><cputune><vcpupin vcpu="0" cpuset="2"/>'
        f'<emulatorpin cpuset="2"/>{iothreadpin}</cputune>'
        '<numatune><memory nodeset="0"/><memnode cellid="0" nodeset="0"/>'
        '</numatune></domain>')
    if policy:
        cell = guest_cell(1, pinned={0}, policy=policy)
        cell.cpu_pinning = {0: 7}
    else:
        cell = guest_cell(1, floating={0}, policy=policy)
    host = host_of(host_cell(1, **{
        'dedicated' if policy else 'shared': {7}}))
    data = objects.LibvirtLiveMigrateData(
        dst_numa_info=told_by_destination(guest_of(cell), host))
    return migration._update_numa_xml(document, data)


def both(function):
    """What is so of a pinned guest, and as much of a floating one."""
    pinned, floating = map(function, (PINNED, None))
    assert pinned == floating, (pinned, floating)
    return pinned


@shows
def live_migration_without_iothread():
    def fails(policy):
        try:
            document = moved_xml('', policy)
        except AttributeError as error:
            return "'NoneType' object has no attribute 'set'" in str(error)
        assert document.find('cputune/vcpupin').get('cpuset') == '7'
        return False

    return both(fails)


@shows
def live_migration_of_iothread():
    def stays(policy):
        document = moved_xml('<iothreadpin iothread="1" cpuset="2"/>', policy)
        assert document.find('cputune/emulatorpin').get('cpuset') == '7'
        return document.find('cputune/iothreadpin').get('cpuset') != '7'

    return both(stays)


@shows
def live_migration_limits():
    seen = []
    limits = objects.SchedulerLimits()
    task = live_migrate.LiveMigrationTask.__new__(
        live_migrate.LiveMigrationTask)
    task.context, task.source, task.limits = mock.Mock(), 'source', None
    task.instance = mock.Mock(uuid=UUID)
    task.query_client, task.report_client = mock.Mock(), mock.Mock()
    task.query_client.select_destinations.return_value = [[objects.Selection(
        service_host='destination', nodename='node', limits=limits,
        compute_node_uuid=UUID, cell_uuid=UUID,
        allocation_request='{"mappings": {}}')]]
    request = mock.Mock(requested_resources=[])
    request.get_request_group_mapping.return_value = None
    with mock.patch.multiple(
            task, _get_request_spec_for_select_destinations=mock.Mock(
                return_value=request),
            _check_not_over_max_retries=mock.DEFAULT,
            _check_compatible_with_source_hypervisor=mock.DEFAULT,
            _call_livem_checks_on_host=mock.Mock(
                side_effect=lambda *args: seen.append(task.limits))):
        task._find_destination()
    assert len(seen) == 1, seen
    return seen[0] is not limits


@shows
def live_migration_of_devices():
    task = live_migrate.LiveMigrationTask.__new__(
        live_migrate.LiveMigrationTask)
    task.context = mock.Mock()
    task.instance = objects.Instance(
        uuid=UUID, pci_requests=objects.InstancePCIRequests(
            requests=devices(1)))
    try:
        task._check_can_migrate_pci('source', 'destination')
    except exception.MigrationPreCheckError:
        return True
    return False


@shows
def live_migration_claim_of_devices():
    if not hasattr(stats.PciDeviceStats,
                   '_filter_pools_for_live_migratable_devices'):
        # No device is live_migratable, and the conductor refuses them all.
        return False
    request = devices(1)[0]
    request.spec[0]['live_migratable'] = 'true'
    claim = claims.MoveClaim.__new__(claims.MoveClaim)
    claim._pci_requests = objects.InstancePCIRequests(requests=[request])
    claim.migration = mock.Mock(is_live_migration=True)
    claim.tracker = mock.Mock()
    claim.tracker.pci_tracker.stats.support_requests.return_value = True
    return claim._test_pci() is not None


@shows
def live_migration_of_floating():
    # Nobody could tell the source host which CPUs the destination shares.
    if 'dst_cpu_shared_set_info' not in objects.LibvirtLiveMigrateData.fields:
        return True
    data = objects.LibvirtLiveMigrateData(dst_cpu_shared_set_info={4, 5})
    document = etree.fromstring(
        '<domain><vcpu cpuset="0-1">2</vcpu></domain>')
    document = migration._update_cpu_shared_set_xml(document, data)
    return document.find('vcpu').get('cpuset') != '4-5'


@shows
def live_migration_on_shared_storage():
    own = mock.Mock()
    driver.LibvirtDriver.cleanup(
        own, mock.Mock(), mock.Mock(), None, destroy_disks=False,
        migrate_data=objects.LibvirtLiveMigrateData(
            is_shared_block_storage=True, is_shared_instance_path=True))
    return bool(own._cleanup.call_args.kwargs['cleanup_instance_dir'])


# Placing and moving guests.

@shows
def claim_of_another_cell():
    # Cell 0 has more room, and all devices.
    host = host_of(host_cell(0, dedicated=range(4)),
                   host_cell(1, dedicated=range(4, 7)))
    pools = device_pools(host, {0: 2})

    def guest():
        return guest_of(guest_cell(0, pinned={0}))

    chosen = fit(host, guest(), pci_requests=[], pci_stats=pools)
    claimed = claim_of(guest(), host, pools)
    return chosen.cells[0].id != claimed.cells[0].id


@shows
def fit_too_large():
    host = host_of(*(
        host_cell(cell, dedicated={2 * cell, 2 * cell + 1},
                  memory_mib=8 * GIB) for cell in range(3)))
    got = fit(host, guest_of(
        guest_cell(0, pinned={0}), guest_cell(1, pinned={1}),
        guest_cell(2, pinned={2}, memory_mib=16 * GIB)))
    return got is not None


@shows
def fit_not_found():
    host = host_of(host_cell(0, dedicated={0, 1}),
                   host_cell(1, dedicated={2, 3, 4, 5}),
                   host_cell(2, dedicated={6, 7}))
    return fit(host, guest_of(
        guest_cell(0, pinned={0, 1}),
        guest_cell(1, pinned={2, 3, 4, 5}))) is None


@shows
def fit_page_size():
    host = host_of(
        host_cell(0, shared={3}, memory_mib=4 * GIB, pages=(
            page(4, 1024), page(1048576, 2, reserved=1))),
        host_cell(1, shared={4, 5, 6, 7}, memory_mib=4 * GIB, pages=(
            page(4, 1024), page(2048, 512), page(1048576, 1, reserved=1))))

    def guest(size):
        return guest_of(guest_cell(
            0, floating={0, 1}, size=size, policy=None))

    assert fit(host, guest(2048)) is not None
    with options('compute', packing_host_numa_cells_allocation_strategy=True):
        # The cell that is tried first has the page, but not the CPUs.
        host.cells[1].memory_usage = 0
        host.cells[0].memory_usage = GIB
        return fit(host, guest(LARGE)) is None


@shows
def fit_with_devices():
    host = host_of(*(host_cell(cell, dedicated={cell}) for cell in range(4)))
    pools = device_pools(host, {1: 1, 3: 1})
    # So that devices do not tell which cells to try first.
    pools.pools += [{**pool, 'product_id': '10fb', 'numa_node': cell}
                    for pool, cell in zip(pools.pools, (0, 2))]
    got = fit(host, guest_of(
        guest_cell(0, pinned={0}), guest_cell(1, pinned={1})),
        pci_requests=devices(2), pci_stats=pools)
    # Cell and CPU of a host have the same number here.
    return got is not None and any(
        set(cell.cpu_pinning.values()) != {cell.id} for cell in got.cells)


@shows
def fit_again():
    def guest():
        return guest_of(guest_cell(0, pinned={0, 1}),
                        guest_cell(1, pinned={2, 3, 4, 5}))

    def host():
        return host_of(host_cell(0, dedicated=range(4)),
                       host_cell(1, dedicated={4, 5}))

    asked = guest()
    first = fit(host(), asked)
    assert first is not None and all(
        len(cell.cpu_pinning) == len(cell.pcpuset) for cell in first.cells)
    # As ResourceTracker.abort_instance_claim leaves it.
    first.clear_host_pinning()
    second = fit(host(), first)
    return second is None or any(
        len(cell.cpu_pinning or {}) != len(cell.pcpuset)
        for cell in second.cells)


@shows
def fit_of_candidates():
    host = host_of(host_cell(0, dedicated={0, 1}, memory_mib=4 * GIB),
                   host_cell(1, dedicated={2, 3}, memory_mib=4 * GIB))
    state = host_manager.HostState('host', 'node', UUID)
    state.numa_topology, state.pci_stats = host, None
    state.cpu_allocation_ratio = state.ram_allocation_ratio = 1.0
    state.limits = {}
    state.allocation_candidates = [
        {'mappings': {'offer': [str(number)]}} for number in range(2)]
    request = objects.RequestSpec(
        instance_uuid=UUID, image=objects.ImageMeta(
            properties=objects.ImageMetaProps()),
        flavor=objects.Flavor(extra_specs={}),
        pci_requests=objects.InstancePCIRequests(requests=[]),
        numa_topology=guest_of(
            guest_cell(0, pinned={0}, memory_mib=GIB),
            guest_cell(1, pinned={1}, memory_mib=6 * GIB)))
    return numa_topology_filter.NUMATopologyFilter().host_passes(
        state, request)


@shows
def fit_of_fewer_devices():
    host = host_of(*(host_cell(cell, dedicated={cell}) for cell in range(2)))
    providers = ['one', 'other']
    pools = device_pools(host, {0: 2, 1: 2})
    for pool, provider in zip(pools.pools, providers):
        pool.update(rp_uuid=provider, devices=[
            mock.Mock(dev_type=fields.PciDeviceType.STANDARD)] * 2)
    requests = devices(2)
    requests[0].spec[0]['rp_uuids'] = ','.join(providers)
    got = fit(host, guest_of(guest_cell(0, pinned={0})),
              pci_requests=requests, pci_stats=pools)
    return (got is not None
            and len(pools.consume_requests(requests, got.cells)) < 2)


@shows
def fit_of_one_device():
    host = host_of(host_cell(0, dedicated={0}))
    own = stats.PciDeviceStats(host, dev_filter=mock.Mock())
    own.dev_filter.get_devspec.return_value.get_tags.return_value = {}
    types = fields.PciDeviceType.SRIOV_PF, fields.PciDeviceType.SRIOV_VF
    physical, virtual = [
        objects.PciDevice.create(nova_context.get_admin_context(), {
            **NIC, 'address': f'0000:81:00.{number}', 'compute_node_id': 1,
            'dev_type': dev_type, 'numa_node': 0, 'dev_id': 'nic',
            'parent_addr': '0000:81:00.0' if number else None,
            'label': 'nic'}) for number, dev_type in enumerate(types)]
    physical.child_devices, virtual.parent_device = [virtual], physical
    for device in (physical, virtual):
        own.add_device(device)
    requests = [objects.InstancePCIRequest(
        count=1, request_id=UUID, alias_name='nic', numa_policy='legacy',
        spec=[{'dev_type': dev_type}]) for dev_type in types]
    got = fit(host, guest_of(guest_cell(0, pinned={0})),
              pci_requests=requests, pci_stats=own)
    assert got is not None
    try:
        return len(own.consume_requests(requests, got.cells)) < 2
    except exception.PciDeviceRequestFailed:
        return True


@shows
def move_of_allotted_devices():
    """What Placement chose is in the guest's requests, not in the claim's."""
    flavor = objects.Flavor(extra_specs={'pci_passthrough:alias': 'nic:1'})
    tracker = mock.Mock(compute_nodes={'node': None})
    tracker.disabled.return_value = False
    requests = devices(1)
    requests[0].spec[0]['rp_uuids'] = UUID
    instance = objects.Instance(
        uuid=UUID, pci_requests=objects.InstancePCIRequests(
            requests=requests))
    CONF.set_override('alias', [json.dumps({
        'name': 'nic', **{key: NIC[key] for key in (
            'vendor_id', 'product_id')}})], 'pci')
    try:
        with mock.patch.object(claims, 'MoveClaim',
                               side_effect=KeyboardInterrupt) as claim:
            resource_tracker.ResourceTracker._move_claim(
                tracker, None, instance, flavor, 'node', mock.Mock(), {})
    except KeyboardInterrupt:
        claimed, = claim.call_args.args[7].requests
        return 'rp_uuids' not in claimed.spec[0]
    finally:
        CONF.clear_override('alias', 'pci')
    raise AssertionError('nothing was claimed')


@shows
def fit_of_many_cells():
    tried = itertools.count()
    permutations = itertools.permutations

    def counted(*args):
        for permutation in permutations(*args):
            next(tried)
            yield permutation

    # Six cells fit, on a host of seven of which one is too small.
    host = host_of(*(host_cell(cell, dedicated=(
        {2 * cell, 2 * cell + 1} if cell < 6 else {2 * cell}))
        for cell in range(7)))
    guest = guest_of(*(guest_cell(cell, pinned={2 * cell, 2 * cell + 1})
                       for cell in range(7)))
    with mock.patch.object(hardware.itertools, 'permutations', counted):
        assert fit(host, guest) is None
    return next(tried) == 5040


@shows
def fit_of_isolated_threads():
    # Under vcpu_pin_set all CPUs are shared and dedicated.
    cpus = {0, 1, 2, 3}
    host = host_of(host_cell(0, dedicated=cpus, shared=cpus,
                             siblings=[{0, 1}, {2, 3}], pinned={0}))
    got = fit(host, guest_of(
        guest_cell(0, pinned={0},
                   threads=fields.CPUThreadAllocationPolicy.ISOLATE),
        emulator=fields.CPUEmulatorThreadsPolicy.ISOLATE))
    if got is None:
        return False
    try:
        hardware.numa_usage_from_instance_numa(host, got)
    except exception.CPUPinningInvalid:
        return True
    return False


@shows
def fit_of_oversold_memory():
    # Of 4 GiB, 3 are in huge pages, and the other one is in use.
    host = host_of(host_cell(
        0, dedicated={0, 1}, memory_mib=4 * GIB, used_mib=GIB,
        pages=(page(4, 256 * GIB, used=256 * GIB), page(1048576, 3))))
    return fit(host, guest_of(guest_cell(0, pinned={0}))) is not None


@shows
def fit_of_huge_pages():
    # Floating guests have more memory than there is; the pages are free.
    host = host_of(host_cell(
        0, dedicated={0, 1}, memory_mib=4 * GIB, used_mib=4 * GIB,
        pages=(page(4, 256 * GIB), page(1048576, 3))))
    return fit(host, guest_of(
        guest_cell(0, pinned={0}, size=1048576))) is None


@shows
def pools_of_a_provider():
    own = device_pools(host_of(host_cell(0)), {0: 1})
    key = {name: value for name, value in own.pools[0].items()
           if name not in ('count', 'devices')}
    assert own._find_pool(key) is own.pools[0]
    # As populate_pools_metadata_from_assigned_devices leaves it.
    own.pools[0]['rp_uuid'] = UUID
    return own._find_pool(key) is None


@shows
def removed_device():
    node = objects.ComputeNode(id=1, uuid=UUID, numa_topology=None)
    device = objects.PciDevice.create(nova_context.get_admin_context(), {
        **NIC, 'address': '0000:81:00.0', 'compute_node_id': 1,
        'dev_type': 'type-PCI', 'numa_node': 0, 'parent_addr': None,
        'dev_id': 'pci_0000_81_00_0', 'label': 'nic',
        'status': fields.PciDeviceStatus.AVAILABLE})
    device.id = 1
    instance = objects.Instance(
        uuid=UUID, pci_devices=objects.PciDeviceList(objects=[]))
    tracker = pci_manager.PciDevTracker.__new__(pci_manager.PciDevTracker)
    tracker.stale = {}
    tracker.to_be_removed_when_freed = {}
    tracker.node_id = node.id
    tracker.pci_devs = objects.PciDeviceList(objects=[device])
    tracker.stats = stats.PciDeviceStats(None, dev_filter=mock.Mock())
    tracker.stats.dev_filter.get_devspec.return_value.get_tags.return_value = (
        {})
    device.claim(UUID)
    device.allocate(instance)
    # The device is not in device_spec any more.
    tracker._set_hvdevs([])
    tracker._free_device(device, instance)
    return device in tracker.stats.get_free_devs()


# Start of nova-compute, and CPU power.

@shows
def start_with_evacuated_guests():
    own = mock.MagicMock()
    done = []
    own._validate_pinning_configuration.side_effect = (
        lambda *args: done.append('pins'))
    own.driver.process_instances_at_startup.side_effect = (
        lambda *args: done.append('pins') or [])
    own._destroy_evacuated_instances.side_effect = (
        lambda *args: done.append('evacuated') or {})
    own._get_nodes.return_value = {}
    with mock.patch.object(
            objects.InstanceList, 'get_by_host',
            return_value=objects.InstanceList(objects=[])) as read:
        manager.ComputeManager.init_host(own, None)
    # Flavors that are not read with the guests are read one by one.
    is_slow = 'flavor' not in read.call_args.kwargs['expected_attrs']
    assert sorted(done) == ['evacuated', 'pins'], done
    assert is_slow == (done[0] == 'pins')
    return is_slow


def validate(instance):
    """What nova-compute finds wrong with its guests when it starts."""
    own = mock.Mock(capabilities={'supports_pcpus': True})
    own.driver.capabilities = own.capabilities
    owner = (manager.ComputeManager
             if hasattr(manager.ComputeManager,
                        '_validate_pinning_configuration')
             else driver.LibvirtDriver)
    owner._validate_pinning_configuration(own, [instance])


@shows
def start_without_cpus():
    pinned = objects.Instance(
        uuid=UUID, deleted=False, numa_topology=guest_of(
            guest_cell(0, pinned={0})))
    floating = objects.Instance(
        uuid=UUID, deleted=False, numa_topology=None)
    for instance, cpus in ((pinned, 'cpu_shared_set'),
                           (floating, 'cpu_dedicated_set')):
        with options('compute', **{cpus: '0-3'}):
            try:
                validate(instance)
            except exception.InvalidConfiguration:
                continue
            return False
    return True


@shows
def pins_outside():
    guest = guest_of(guest_cell(0, pinned={0}))
    guest.cells[0].cpu_pinning = {0: 9}
    with options('compute', cpu_dedicated_set='0-3'):
        validate(objects.Instance(
            uuid=UUID, deleted=False, numa_topology=guest))
    try:
        hardware.numa_usage_from_instance_numa(
            host_of(host_cell(0, dedicated={0, 1, 2, 3})), guest)
    except exception.CPUPinningUnknown:
        return True
    return False


@shows
def busy_cpu():
    from nova.virt.libvirt.cpu import core
    with mock.patch.object(core, 'exists', return_value=True), \
            mock.patch.object(core.filesystem, 'write_sys',
                              side_effect=BUSY), \
            mock.patch.object(core.nova.privsep.sys_admin_pctxt,
                              'client_mode', False):
        try:
            core.set_offline(3)
        except type(BUSY):
            return True
    return False


@shows
def governor_of_offline_cpu():
    class OfflineCore:
        online = False

        def __init__(self, ident):
            self.ident = ident

        @property
        def governor(self):
            raise BUSY

    cpus = cpu_api.API()
    cpus.core = OfflineCore
    with options('libvirt', cpu_power_management=True), \
            options('compute', cpu_dedicated_set='2-3'):
        try:
            cpus.validate_all_dedicated_cpus()
        except type(BUSY):
            return True
    return False


@shows
def start_with_pinned_guests():
    states = {2: True, 3: True}

    class SwitchedCore:
        governor = 'performance'

        def __init__(self, ident):
            self.ident = ident

        def __str__(self):
            return str(self.ident)

        @property
        def online(self):
            return states[self.ident]

        @online.setter
        def online(self, state):
            states[self.ident] = state

    guest = guest_of(guest_cell(0, pinned={0}))
    guest.cells[0].cpu_pinning = {0: 2}
    instance = objects.Instance(
        uuid=UUID, host='host', vm_state='active', task_state=None,
        power_state=power_state.RUNNING, deleted=False, info_cache=None,
        numa_topology=guest)
    compute = mock.MagicMock(host='host')
    compute._get_power_state.return_value = power_state.RUNNING
    compute._retry_reboot.return_value = False, None
    own = compute.driver
    own.cpu_api = cpu_api.API()
    own.cpu_api.core = SwitchedCore
    with options('libvirt', cpu_power_management=True), \
            options('compute', cpu_dedicated_set='2-3'):
        driver.LibvirtDriver.init_host(own, 'host')
        if hasattr(driver.LibvirtDriver, 'process_instances_at_startup'):
            driver.LibvirtDriver.process_instances_at_startup(
                own, nova_context.get_admin_context(), [instance])
        manager.ComputeManager._init_instance(
            compute, nova_context.get_admin_context(), instance)
        was_off = not states[2]
        # What switches it on is a start of the guest.
        own.cpu_api.power_up_for_instance(instance)
    assert states == {2: True, 3: False}, states
    return was_off


# Guests that an old nova has made.

def loaded(version, left_out=(), policy=PINNED):
    """A topology as nova reads what an older one has stored."""
    is_pinned = policy == PINNED
    guest = guest_of(guest_cell(
        0, pinned={0} if is_pinned else (), floating=() if is_pinned else {0},
        policy=policy))
    primitive = guest.obj_to_primitive()
    cell = primitive['nova_object.data']['cells'][0]
    cell['nova_object.version'] = version
    data = cell['nova_object.data']
    # Before 1.5 pinned vCPUs stood among the others.
    data['cpuset'] = data['cpuset'] or data['pcpuset']
    del data['pcpuset']
    for name in left_out:
        data.pop(name, None)
    with mock.patch('nova.db.main.api.instance_extra_update_by_uuid'):
        return objects.InstanceNUMATopology.obj_from_db_obj(
            nova_context.get_admin_context(), UUID, json.dumps(primitive))


@shows
def record_that_stays_old():
    cell = loaded('1.4').cells[0]
    return cell.pcpuset == {0} and cell.VERSION == '1.4'


@shows
def record_without_pcpuset():
    cell = loaded('1.4', policy=None).cells[0]
    try:
        return bool(cell.pcpuset)
    except (NotImplementedError, exception.NovaException):
        return True


@shows
def record_too_old():
    cell = loaded('1.3', ('cpuset_reserved',)).cells[0]
    return cell.VERSION == '1.3' and 'pcpuset' not in cell


def main():
    logging.disable(logging.CRITICAL)
    objects.register_all()
    CONF([], project='nova', default_config_files=[],
         default_config_dirs=[])
    shown = {}
    for name, function in DEMONSTRATIONS.items():
        try:
            shown[name] = bool(function())
        except Exception:
            shown[name] = traceback.format_exc()
    json.dump({
        'version': importlib.metadata.version('nova'),
        'oldest_supported': service.OLDEST_SUPPORTED_SERVICE_VERSION,
        'shown': shown}, sys.stdout, indent=1)


if __name__ == '__main__':
    main()
