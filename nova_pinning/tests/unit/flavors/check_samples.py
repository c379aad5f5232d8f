# SPDX-License-Identifier: Apache-2.0
"""Flavors in which nothing is found, and hosts for them."""

from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.flavors.checks import flavor_check_run
from nova_pinning.flavors import flavor_model
from nova_pinning.host import host_model

GIB = 1024  # in MiB

DEDICATED = {
    'hw:cpu_policy': 'dedicated',
    'hw:cpu_thread_policy': 'require',
    'hw:cpu_sockets': '1',
    'hw:cpu_cores': '4',
    'hw:cpu_threads': '2',
    'hw:mem_page_size': 'large',
    'trait:CUSTOM_PINNING_DEDICATED': 'required',
}
SHARED = {
    'hw:cpu_policy': 'shared',
    'trait:CUSTOM_PINNING_DEDICATED': 'forbidden',
}


def flavor(specs, without=(), **values):
    """A flavor of 8 vCPUs and 16 GiB.

    :param without: extra specs to leave out
    :param values: override fields
    """
    specs = {key: value for key, value in specs.items()
             if key not in without}
    return flavor_model.Flavor(**{
        'name': 'large', 'vcpus': 8, 'memory_mib': 16 * GIB,
        'extra_specs': specs,
        'where': errors.Location('flavors.yaml', 7, 3, 'families.a')} | values)


def host(name='host1', nodes=2, cores=18, threads=2, memory_gib=192,
         huge_pages=None, dedicated='all', shared=None, devices=(),
         traits=('CUSTOM_PINNING_DEDICATED',), **settings):
    """A host; all but 16 GiB of each node are in pages of 1 GiB.

    :param dedicated: CPUs in the kernel's list syntax, all, or None
    :param devices: (alias, NUMA node) each
    """
    made = []
    for node in range(nodes):
        first = node * cores * threads
        made.append(host_model.NumaNode(
            id=node, socket=node,
            cores=tuple(
                tuple(range(cpu, cpu + threads))
                for cpu in range(first, first + cores * threads, threads)),
            memory_mib=memory_gib * GIB,
            huge_pages={1048576: memory_gib - 16}
            if huge_pages is None else huge_pages))
    if dedicated == 'all':
        dedicated = f'0-{nodes * cores * threads - 1}'
    return host_model.HostDescription(
        name=name, nodes=tuple(made), traits=frozenset(traits),
        pci_devices=tuple(
            host_model.PciDevice(f'0000:{number:02x}:00.0', '8086', '0a54',
                                 node, alias)
            for number, (alias, node) in enumerate(devices)),
        nova=host_model.NovaSettings(
            dedicated_cpus=_cpus(dedicated), shared_cpus=_cpus(shared),
            **settings))


def _cpus(text):
    return cpuset.CpuSet.parse(text) if text else None


def check(flavors, *arguments, **options):
    """What the rules and nova's own checks find."""
    # Here, since it takes seconds and not all tests need it.
    from nova_pinning.bridge.offline import nova_judgement
    return list(flavor_check_run.check(flavors, nova_judgement.judging,
                                       *arguments, **options))
