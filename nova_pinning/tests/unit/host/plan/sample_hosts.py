# SPDX-License-Identifier: Apache-2.0


"""Hosts for the tests of plans: small ones of every kind."""

import dataclasses
import itertools

from hypothesis import strategies

from nova_pinning import cpuset
from nova_pinning.host import hardware
from nova_pinning.host import host_model
from nova_pinning.host import plan_model
from nova_pinning.tests.unit.host import host_samples

GIB = 1024


def check_uses(test, planned):
    """Check that each CPU has one use, and all threads of a core the same.

    The same goes for the choices that were not taken.
    """
    nova = planned.nova
    taken = plan_model.CpuChoice(
        planned.plan.host_cpus, planned.plan.poll_cpus,
        nova.shared_cpus or cpuset.CpuSet(),
        nova.dedicated_cpus or cpuset.CpuSet())
    cores = [cpuset.CpuSet(core) for node in planned.nodes
             for core in node.cores]
    for choice in (taken, *planned.plan.alternatives):
        uses = [choice.host_cpus, choice.poll_cpus, choice.shared_cpus,
                choice.dedicated_cpus]
        test.assertEqual(len(planned.cpus), sum(map(len, uses)))
        test.assertEqual(planned.cpus, cpuset.union(uses))
        test.assertTrue(choice.host_cpus)
        for core in cores:
            test.assertIn(core, [use & core for use in uses])


@strategies.composite
def any_host(draw, max_cores=7, max_nodes=3):
    """A host that is odd in many ways at once.

    Cores have some of their threads offline, or are of two kinds; nodes may
    have no CPUs, or no memory, and one L3 domain or several, or two of them
    in one socket a part of one (sub-NUMA clustering).
    """
    count = draw(strategies.integers(1, max_nodes))
    cores_of = [draw(strategies.integers(0, max_cores // count))
                for _node in range(count)]
    cores_of[draw(strategies.integers(0, count - 1))] += 2
    sizes = draw(strategies.sampled_from([[1], [2], [2], [1, 2], [3, 4]]))
    widths = [draw(strategies.sampled_from(sizes))
              for _core in range(sum(cores_of))]
    away = {pair: draw(strategies.sampled_from([21, 21, 31]))
            for pair in itertools.combinations(range(count), 2)}
    order = draw(strategies.permutations(range(sum(widths))))
    ids = iter(order if draw(strategies.booleans()) else range(sum(widths)))
    first = draw(strategies.sampled_from([0, 0, 1]))
    cores = [tuple(sorted(first + next(ids) for _thread in range(width)))
             for width in widths]
    nodes = []
    for number, size in enumerate(cores_of):
        own = tuple(sorted(cores[:size]))
        del cores[:size]
        nodes.append(host_model.NumaNode(
            id=2 * number, socket=number, cores=own,
            memory_mib=draw(strategies.sampled_from(
                [64 * GIB, 64 * GIB, 64 * GIB, 1, 0])),
            l3_domains=draw(_domains(own)),
            gpu='' if own else draw(strategies.sampled_from(
                ['', '0000:f0:00.0'])),
            distances=tuple(
                10 if other == number else away[
                    min(number, other), max(number, other)]
                for other in range(count))))
    pair = draw(strategies.permutations([
        number for number, node in enumerate(nodes) if node.cores]))[:2]
    if len(pair) == 2 and draw(strategies.booleans()):
        wide = () if draw(strategies.booleans()) else (cpuset.union(
            nodes[number].cpus for number in pair),)
        for number in pair:
            nodes[number] = dataclasses.replace(
                nodes[number], socket=0,
                l3_domains=wide or nodes[number].l3_domains)
    if not any(node.memory_mib > 1 and node.cores for node in nodes):
        nodes = [host_samples.host().nodes[0]]
    cpus = sorted(cpu for node in nodes for core in node.cores
                  for cpu in core)
    return host_model.HostDescription(
        name='odd', nodes=tuple(nodes),
        pci_devices=tuple(draw(_devices([node.id for node in nodes]))),
        core_kinds=draw(_kinds(nodes)),
        offline_cpus=draw(strategies.sampled_from([
            cpuset.CpuSet(), cpuset.CpuSet([cpus[-1] + 1])])))


@strategies.composite
def _domains(draw, cores):
    size = draw(strategies.sampled_from([0, 1, 2, 3, 8]))
    if not size or not cores:
        return ()
    return tuple(
        cpuset.CpuSet(cpu for core in cores[start:start + size]
                      for cpu in core)
        for start in range(0, len(cores), size))


@strategies.composite
def _devices(draw, nodes):
    for number in range(draw(strategies.integers(0, 3))):
        kind = draw(strategies.sampled_from([
            hardware.PciKind.NIC, hardware.PciKind.NVME,
            hardware.PciKind.GPU, hardware.PciKind.OTHER]))
        yield host_model.PciDevice(
            f'0000:{number:02x}:00.0', '8086', '1572',
            draw(strategies.sampled_from([None, *nodes])), kind=kind,
            alias='gpu' if kind is hardware.PciKind.GPU else '',
            names=(f'dev{number}',),
            speed_mbps=draw(strategies.sampled_from([0, 25000])),
            in_use=draw(strategies.sampled_from(['', 'mounted on /'])))


@strategies.composite
def _kinds(draw, nodes):
    cores = [core for node in nodes for core in node.cores]
    fast = draw(strategies.integers(0, len(cores)))
    if not 0 < fast < len(cores) or draw(strategies.booleans()):
        return ()
    return tuple(
        hardware.CoreKind(name, cpuset.CpuSet(
            cpu for core in some for cpu in core))
        for name, some in (('performance', cores[:fast]),
                           ('efficient', cores[fast:])))
