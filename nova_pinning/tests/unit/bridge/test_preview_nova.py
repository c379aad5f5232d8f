# SPDX-License-Identifier: Apache-2.0
"""What the preview relies on in nova, name by name.

Most of it is private, so a new release of nova may move any of it. When one
of these fails, see what became of the name, and then whether
tests/functional/test_guest_preview*.py still pass.
"""

import sys
import unittest

if sys.version_info < (3, 11):
    raise unittest.SkipTest('only nova-scheduler runs on this Python')

import ast
import importlib
import inspect
import textwrap

from nova.scheduler import request_filter
from oslotest import base

from nova_pinning.bridge.offline import nova_capabilities
from nova_pinning.bridge.offline import placement_queries

#: (module, name, parameters or None for what is not called, why). Others may
#: follow the parameters if they have defaults.
FUNCTIONS = (
    ('nova.virt.libvirt.driver', 'LibvirtDriver._get_guest_xml',
     'self context instance network_info disk_info image_meta rescue '
     'block_device_info',
     "writes the guest's XML"),
    ('nova.virt.libvirt.driver', 'LibvirtDriver._get_host_numa_topology',
     'self', 'the host as nova-compute reports it'),
    ('nova.virt.libvirt.driver',
     'LibvirtDriver.get_instance_driver_metadata', 'instance network_info',
     'the time is taken out of it'),
    ('nova.virt.libvirt.host', 'Host.get_connection', 'self',
     'replaced: there is no libvirt'),
    ('nova.virt.libvirt.host', 'Host.get_capabilities', 'self',
     'answered from the description'),
    ('nova.virt.libvirt.host', 'Host.get_hostname', 'self',
     'answered from the description'),
    ('nova.virt.libvirt.host', 'Host.get_online_cpus', 'self',
     'answered from the description'),
    ('nova.virt.libvirt.host', 'Host.get_available_cpus', 'self',
     'answered from the description'),
    ('nova.virt.libvirt.host', 'Host.has_min_version',
     'self lv_ver hv_ver hv_type', 'replaced: always'),
    ('nova.virt.libvirt.host', 'Host.is_cpu_control_policy_capable', 'self',
     'replaced: always'),
    ('nova.virt.libvirt.host', 'Host._check_machine_type',
     'self caps mach_type', 'replaced: by the name alone'),
    ('nova.virt.libvirt.host', 'Host.supports_uefi', None,
     'replaced: always'),
    ('nova.virt.libvirt.host', 'Host.supports_secure_boot', None,
     'replaced: always'),
    ('nova.virt.libvirt.host', 'Host.supports_vtpm', None,
     'replaced: always'),
    ('nova.virt.libvirt.host', 'Host.supports_amd_sev', None,
     'replaced: never'),
    ('nova.virt.libvirt.imagebackend', 'Backend.__init__', 'self use_cow',
     'finds the class of a disk'),
    ('nova.virt.libvirt.imagebackend', 'Backend.backend', 'self image_type',
     'replaced: our disk'),
    ('nova.virt.libvirt.imagebackend', 'Qcow2.resolve_driver_format', 'self',
     'replaced: it would look for the file'),
    ('nova.virt.libvirt.vif', 'LibvirtGenericVIFDriver.__init__',
     'self host', 'writes the network interface'),
    ('nova.virt.libvirt.vif', 'LibvirtGenericVIFDriver._get_max_tap_queues',
     'self', 'replaced: it would ask the kernel'),
    ('nova.virt.libvirt.blockinfo', 'get_disk_info',
     'virt_type instance image_meta block_device_info rescue '
     'rescue_image_meta', 'names the disks'),
    ('nova.virt.hardware', 'numa_get_constraints', 'flavor image_meta',
     'what the guest asks for'),
    ('nova.virt.hardware', '_get_possible_cpu_topologies',
     'vcpus maxtopology allow_threads', 'replaced: by a quick one'),
    ('nova.virt.hardware', 'numa_get_reserved_huge_pages', '',
     'the reserved pages of the options'),
    ('nova.virt.hardware', 'numa_usage_from_instance_numa',
     'host_topology instance_topology free', 'counts used CPUs'),
    ('nova.virt.hardware', 'get_mem_encryption_constraint',
     'flavor image_meta machine_type', 'checked as in nova-api'),
    ('nova.virt.hardware', 'get_pmu_constraint', 'flavor image_meta',
     'checked as in nova-api'),
    ('nova.virt.hardware', 'get_number_of_serial_ports', 'flavor image_meta',
     'checked as in nova-api'),
    ('nova.virt.hardware', 'get_realtime_cpu_constraint', 'flavor image_meta',
     'checked as in nova-api'),
    ('nova.virt.hardware', 'get_cpu_topology_constraints',
     'flavor image_meta', 'checked as in nova-api'),
    ('nova.virt.hardware', 'get_vif_multiqueue_constraint',
     'flavor image_meta', 'checked as in nova-api'),
    ('nova.virt.hardware', 'get_pci_numa_policy_constraint',
     'flavor image_meta', 'for the PCI requests'),
    ('nova.pci.manager',
     'PciDevTracker.update_devices_from_hypervisor_resources',
     'self devices_json', 'makes the pools of devices'),
    ('nova.pci.stats', 'PciDeviceStats.__init__',
     'self numa_topology stats dev_filter', 'the pools of devices'),
    ('nova.pci.stats', 'PciDeviceStats.support_requests',
     'self requests provider_mapping numa_cells', 'whether devices fit'),
    ('nova.pci.stats', 'PciDeviceStats.consume_requests',
     'self pci_requests numa_cells', 'which devices a guest gets'),
    ('nova.pci.whitelist', 'Whitelist.__init__', 'self whitelist_spec',
     'the devices that guests may have'),
    ('nova.pci.request', 'get_pci_requests_from_flavor',
     'flavor affinity_policy', 'the devices that a flavor asks for'),
    ('nova.pci.request', 'get_alias_from_config.cache_clear', None,
     'nova remembers the aliases'),
    ('nova.scheduler.utils', 'resources_from_request_spec',
     'ctxt spec_obj host_manager enable_pinning_translate',
     'the query to Placement'),
    ('nova.scheduler.utils', 'ResourceRequest.to_querystring', 'self',
     'the query as sent'),
    ('nova.utils', 'get_system_metadata_from_image', 'image_meta flavor',
     'the image as the server remembers it'),
    ('nova.conf.neutron', 'register_dynamic_opts', 'conf',
     'options that nova registers late'),
    ('oslo_config.cfg', 'ConfigOpts._get_opt_info', 'self opt_name group',
     'to put back what an option was before'),
)

#: (module, class, attributes that its __init__ sets): ours sets them instead,
#: or they are read.
ATTRIBUTES = (
    ('nova.virt.libvirt.driver', 'LibvirtDriver', (
        '_host', 'vif_driver', 'image_backend', 'disk_cachemodes',
        '_disk_cachemode', '_supported_perf_events', '_reserved_hugepages',
        '_sysinfo_serial_func', 'cpu_models_mapping',
        'cpu_model_flag_mapping', '_vpmems_by_name', '_vpmems_by_rc')),
    ('nova.virt.libvirt.host', 'Host', ('_caps', '_has_hyperthreading')),
    ('nova.pci.manager', 'PciDevTracker', (
        'stale', 'to_be_removed_when_freed', 'node_id', 'dev_filter',
        'stats', '_context', 'pci_devs')),
    ('nova.scheduler.utils', 'ResourceRequest', (
        '_rg_by_id', '_root_required', '_root_forbidden',
        'cpu_pinning_requested')),
)

#: (object, fields): read by bridge.topology from where oslo keeps them.
FIELDS = (
    ('NUMACell', ('id', 'socket', 'cpuset', 'pcpuset', 'pinned_cpus',
                  'cpu_usage', 'memory', 'memory_usage', 'mempages',
                  'siblings', 'network_metadata')),
    ('NUMAPagesTopology', ('size_kb', 'total', 'used', 'reserved')),
    ('NetworkMetadata', ('physnets', 'tunneled')),
    ('NUMATopology', ('cells',)),
)


def find(module, name):
    """What a dotted name stands for."""
    found = importlib.import_module(module)
    for part in name.split('.'):
        found = getattr(found, part)
    return found


class TestNova(base.BaseTestCase):

    def test_functions(self):
        moved = []
        for module, name, parameters, why in FUNCTIONS:
            try:
                found = find(module, name)
            except AttributeError:
                moved.append(f'{module}.{name} is gone ({why})')
                continue
            if parameters is None:
                continue
            there = list(inspect.signature(found).parameters.values())
            known = len(parameters.split())
            if (' '.join(one.name for one in there[:known]) != parameters or
                    any(one.default is one.empty for one in there[known:])):
                moved.append(f'{module}.{name} takes {there} ({why})')
        self.assertEqual([], moved)

    def test_attributes(self):
        moved = []
        for module, name, attributes in ATTRIBUTES:
            source = textwrap.dedent(
                inspect.getsource(find(module, name).__init__))
            there = {
                node.attr for node in ast.walk(ast.parse(source))
                if isinstance(node, ast.Attribute) and
                isinstance(node.ctx, ast.Store)}
            moved += [f'{module}.{name}.{attribute}'
                      for attribute in attributes if attribute not in there]
        self.assertEqual([], moved)

    def test_fields(self):
        from nova import objects
        objects.register_all()
        for name, fields in FIELDS:
            found = getattr(objects, name)
            self.assertLessEqual(set(fields), set(found.fields), name)
            for field in fields:
                # Where oslo.versionedobjects keeps it.
                one = found()
                setattr(one, f'_obj_{field}', 'kept')
                self.assertEqual('kept', getattr(one, field))

    def test_request_filters(self):
        # A new one may add to what is asked of Placement.
        cloud_filters = nova_capabilities.functions(request_filter, (
            'require_tenant_aggregate', 'map_az_to_placement_aggregate',
            'isolate_aggregates', 'routed_networks_filter',
            'remote_managed_ports_filter', 'owner_nova_filter'))
        self.assertEqual(
            {*cloud_filters, *placement_queries.FILTERS},
            set(request_filter.ALL_REQUEST_FILTERS))
