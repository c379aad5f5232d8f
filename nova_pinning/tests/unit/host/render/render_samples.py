# SPDX-License-Identifier: Apache-2.0
"""Planned hosts for tests: one by hand, and any number by hypothesis."""

import dataclasses
import random

import hypothesis
from hypothesis import strategies as st

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import plan_model
from nova_pinning.host.render import options
from nova_pinning.tests.unit.host import host_samples

PARSE = cpuset.CpuSet.parse
NIC = '0000:3b:00.0'
DISK = '0000:d8:00.0'
CARD = '0000:5e:00.0'

# Aliases may be any text; these mean something to somebody on the way.
ALIASES = st.sampled_from(
    ['gpu', 'a b', '$DEFAULT.my_ip', '$$', '{{ x }}', '{%', '{#', '"', "'",
     '\\', '#', ';', ' x', 'Grüße', 'line\nbreak', '%(x)s', '- a: b', '7'])


def plan(**values):
    return plan_model.HostPlan(**{
        'purpose': plan_model.Purpose.DEDICATED,
        'host_cpus': PARSE('0,4'),
        'offer': plan_model.Offer((), {}),
        'page_size_kib': host_samples.MIB_PAGES,
        'interrupts': (
            plan_model.Interrupts(NIC, 'eth0', PARSE('0,4')),
            plan_model.Interrupts(DISK, 'nvme0n1', PARSE('4'))),
    } | values)


def planned(pages=(1024, 1024), plan_values=(), **values):
    """Two nodes of two cores: core (0, 4) for the host, (3, 7) shared.

    :param pages: of 2 MiB for each node
    """
    host = host_samples.host()
    nodes = tuple(
        dataclasses.replace(node, huge_pages={host_samples.MIB_PAGES: count})
        for node, count in zip(host.nodes, pages))
    return dataclasses.replace(host, **{
        'nodes': nodes,
        'nova': host_samples.settings(
            dedicated='1,2,5,6', shared='3,7', cpu_allocation_ratio=4.0,
            reserved_memory_mib=2048),
        'pci_devices': (
            host_model.PciDevice(NIC, '8086', '1572', 0),
            host_model.PciDevice(CARD, '10de', '1db6', 1, 'gpu'),
            host_model.PciDevice(DISK, '144d', 'a80a', 1)),
        'traits': frozenset({'CUSTOM_PINNING_DEDICATED'}),
        'cpu_model': host_model.CpuModel(vendor='Intel'),
        'system': hardware.System(kernel='6.1.0-18-amd64'),
        'plan': plan(**dict(plan_values)),
    } | values)


def polling(**values):
    """The same host, with core (1, 5) for OVS-DPDK."""
    return planned(
        plan_values={'poll_cpus': PARSE('1,5'), 'poll_pages': {0: 0, 1: 512}},
        nova=host_samples.settings(
            dedicated='2,6', shared='3,7',
            reserved_huge_pages={(1, host_samples.MIB_PAGES): 512}), **values)


@st.composite
def any_planned(draw):
    """A host with a plan that can be true."""
    host = draw(host_samples.any_host())
    cores = [core for node in host.nodes for core in node.cores]
    random.Random(draw(st.integers(0, 10 ** 6))).shuffle(cores)
    ends = sorted(draw(st.lists(
        st.integers(1, len(cores)), min_size=3, max_size=3)))
    uses = [cpuset.CpuSet(cpu for core in part for cpu in core)
            for part in (cores[:ends[0]], cores[ends[0]:ends[1]],
                         cores[ends[1]:ends[2]], cores[ends[2]:])]
    host_cpus, poll, shared, dedicated = uses
    hypothesis.assume(shared or dedicated)
    purpose = draw(st.sampled_from(plan_model.Purpose))
    devices = tuple(
        dataclasses.replace(pci_device, alias=draw(st.just('') | ALIASES),
                            product_id=draw(st.sampled_from(['0953', 'a80a'])),
                            # A plan has classes for all of them or for none.
                            resource_class='', traits=(), mdev_type='')
        for pci_device in host.pci_devices)
    # Those of one alias are of one type.
    types = draw(st.fixed_dictionaries({
        alias: st.sampled_from([{'physical_function': NIC},
                                {'sriov_totalvfs': 8}, {}])
        for alias in dict.fromkeys(device.alias for device in devices)}))
    devices = tuple(
        dataclasses.replace(device, **{
            'physical_function': '', 'sriov_totalvfs': None,
        } | types[device.alias])
        for device in devices)
    page_size = draw(st.sampled_from([0, host_samples.MIB_PAGES,
                                      host_samples.GIB_PAGES]))
    poll_pages = {
        node.id: draw(st.integers(0, node.huge_pages[page_size]))
        for node in host.nodes if node.huge_pages.get(page_size)}
    return dataclasses.replace(
        host, pci_devices=devices,
        nova=dataclasses.replace(
            host.nova, dedicated_cpus=dedicated or None,
            shared_cpus=shared or None),
        traits=host.traits - {'CUSTOM_PINNING_DEDICATED'} | (
            {'CUSTOM_PINNING_DEDICATED'} if dedicated and
            purpose is not plan_model.Purpose.BOTH
            else {'CUSTOM_PINNING_SHARED'} if shared else set()),
        system=hardware.System(
            kernel=draw(st.sampled_from(['', '5.10.0-28-amd64', '6.1.0'])),
            command_line=draw(st.sampled_from(['', 'quiet isolcpus=1'])),
            isolated_cpus=draw(st.sampled_from([PARSE(''), PARSE('1,700')])),
            virtualization=draw(st.sampled_from(['', 'vmx', 'svm']))),
        plan=plan(
            purpose=purpose, host_cpus=host_cpus, poll_cpus=poll,
            page_size_kib=page_size, poll_pages=poll_pages,
            interrupts=tuple(
                plan_model.Interrupts(
                    device.address, 'eth0', cpuset.CpuSet(list(host_cpus)[:2]))
                for device in devices if not device.alias)))


@st.composite
def any_options(draw, host):
    """Options that suit a host."""
    quiet = host.plan.poll_cpus or host.nova.dedicated_cpus
    isolations = list(options.Isolation if quiet else [options.Isolation.NONE])
    if quiet and not _can_have_partition(host):
        isolations.remove(options.Isolation.PARTITION)
    ways = [way for way in (None, *options.Confinement)
            if quiet or way is not options.Confinement.TUNED]
    return options.RenderOptions(
        services=draw(st.sampled_from(
            [(), ('ceph-osd@1.service', 'nova-compute.service')])),
        confinement=draw(st.sampled_from(ways)),
        isolation=draw(st.sampled_from(isolations)),
        **draw(st.sampled_from([{'hosts': ('compute-1', 'compute-2')},
                                {'group': 'pinned'}])))


def _can_have_partition(host):
    # Linux has them since 6.1; see any_planned() for what there is.
    return (host.nova.dedicated_cpus and not host.nova.shared_cpus
            and not host.system.kernel.startswith('5.'))


@st.composite
def any_case(draw):
    """A planned host, and options for it."""
    host = draw(any_planned())
    return host, draw(any_options(host))
