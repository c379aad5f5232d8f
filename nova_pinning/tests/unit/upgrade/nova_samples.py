# SPDX-License-Identifier: Apache-2.0
"""Hosts, guests and devices in nova's objects, for nova_defects.py."""

from unittest import mock

from nova import objects
from nova.objects import fields
from nova.pci import stats
from nova.virt import hardware

GIB = 1024  # in MiB
UUID = '0a0eea02-d664-48bd-9107-e7d3e4582e5e'
PINNED = fields.CPUAllocationPolicy.DEDICATED
NIC = {'vendor_id': '8086', 'product_id': '1533'}


def page(size_kib, total, used=0, reserved=0):
    return objects.NUMAPagesTopology(
        size_kb=size_kib, total=total, used=used, reserved=reserved)


def host_cell(number, dedicated=(), shared=(), memory_mib=16 * GIB,
              used_mib=0, pages=(), siblings=None, pinned=()):
    cpus = set(dedicated) | set(shared)
    return objects.NUMACell(
        id=number, socket=number, cpuset=set(shared), pcpuset=set(dedicated),
        memory=memory_mib, memory_usage=used_mib, cpu_usage=0,
        pinned_cpus=set(pinned), mempages=list(pages) or [
            page(4, memory_mib * 256, used_mib * 256)],
        siblings=siblings or [{cpu} for cpu in sorted(cpus)],
        network_metadata=objects.NetworkMetadata(
            physnets=set(), tunneled=False))


def host_of(*cells):
    return objects.NUMATopology(cells=list(cells))


def guest_cell(number, pinned=(), floating=(), memory_mib=GIB, size=None,
               policy=PINNED, threads=None):
    return objects.InstanceNUMACell(
        id=number, cpuset=set(floating), pcpuset=set(pinned),
        memory=memory_mib, pagesize=size, cpu_policy=policy,
        cpu_thread_policy=threads)


def guest_of(*cells, emulator=None):
    return objects.InstanceNUMATopology(
        instance_uuid=UUID, cells=list(cells),
        emulator_threads_policy=emulator)


def fit(host, guest, **more):
    return hardware.numa_fit_instance_to_host(
        host, guest, provider_mapping=None, **more)


def device_pools(host, counts):
    """Statistics of devices of the kind NIC, so many near each cell."""
    found = stats.PciDeviceStats(host, dev_filter=mock.Mock())
    found.pools = [
        {**NIC, 'numa_node': cell, 'dev_type': 'type-PCI', 'count': count,
         'devices': [], 'remote_managed': 'false'}
        for cell, count in counts.items() if count]
    return found


def devices(count, policy='required'):
    return [objects.InstancePCIRequest(
        count=count, spec=[dict(NIC)], numa_policy=policy, alias_name='nic',
        request_id=UUID)]
