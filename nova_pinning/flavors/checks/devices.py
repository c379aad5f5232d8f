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

"""P3xx: PCI devices and their NUMA affinity, and virtual devices.

What nova does is in nova.pci.stats.PciDeviceStats and nova.virt.hardware
(get_vtpm_constraint, get_vif_multiqueue_constraint).
"""

from collections.abc import Iterator

from nova_pinning.flavors.checks import rule
from nova_pinning.flavors.checks import target
from nova_pinning.flavors.finding import Severity

_KEYS = ('hw:pci_numa_affinity_policy', 'hw_pci_numa_affinity_policy')


@rule.rule(
    'P301', Severity.NOTE, 'PCI affinity policy without a PCI device',
    why='the policy then matters for SR-IOV ports of networks only',
    advice='leave it out unless guests attach to such ports, or ask for the '
           f'device under {rule.ALIAS_KEY}',
    in_catalogue=(
        'leave affinity out unless guests attach to such ports, or '
        'ask for the device under pci_devices'))
def policy_without_device(subject: rule.Subject) -> Iterator[rule.Problem]:
    if subject.pci_policy and rule.ALIAS_KEY not in subject.specs:
        yield rule.Problem(
            f'{subject.shown("pci_numa_affinity_policy")}, but the flavor '
            'asks for no PCI device', _KEYS)


@rule.rule(
    'P302', Severity.WARNING, 'more NUMA cells than have a device near',
    why='with affinity required nova wants each device near one of the '
        "guest's cells, whichever; a cell without one of its own reaches "
        'devices through another, and few sets of host nodes will do',
    advice='ask for as many devices as there are NUMA cells, or for fewer '
           'cells, or say preferred')
def cells_without_device(subject: rule.Subject) -> Iterator[rule.Problem]:
    cells = len(subject.cells)
    if subject.pci_policy != 'required' or cells < 2:
        return
    for alias, count in subject.devices:
        if 0 < count < cells:
            yield rule.Problem(
                f'{cells} NUMA cells, but {count} of the devices "{alias}" '
                'with affinity required', (*_KEYS, rule.ALIAS_KEY))
            continue
        nodes = [_nodes_with(alias, host) for host in subject.candidates]
        if nodes and 0 < max(nodes) < cells:
            yield rule.Problem(
                f'{cells} NUMA cells with affinity required, but no host '
                f'given has devices "{alias}" on more than {max(nodes)} '
                f'{"node" if max(nodes) == 1 else "nodes"}',
                (*_KEYS, rule.ALIAS_KEY))


def _nodes_with(alias: str, host: target.Target) -> int:
    return len({device.numa_node for device in host.description.pci_devices
                if device.alias == alias and device.numa_node is not None})


@rule.rule(
    'P303', Severity.WARNING, 'PCI affinity without a NUMA topology',
    why='nova looks at the affinity of devices only for guests that have a '
        'NUMA topology, so this one gets any',
    advice='set hw:numa_nodes=1, or leave the policy out',
    in_catalogue='write numa_nodes: 1, or leave affinity out')
def affinity_without_numa(subject: rule.Subject) -> Iterator[rule.Problem]:
    if (subject.pci_policy in ('required', 'socket', 'legacy') and
            subject.devices and subject.is_accepted and not subject.guest):
        yield rule.Problem(
            f'{subject.shown("pci_numa_affinity_policy")} does nothing for a '
            'guest without a NUMA topology', _KEYS)


@rule.rule(
    'P304', Severity.WARNING, 'TPM model without a version',
    why='nova gives the guest a TPM only if its version is said',
    advice='set hw:tpm_version=2.0')
def tpm_without_version(subject: rule.Subject) -> Iterator[rule.Problem]:
    if subject.value('tpm_model') and not subject.value('tpm_version'):
        yield rule.Problem(
            f'{subject.shown("tpm_model")} does nothing without '
            'hw:tpm_version', ('hw:tpm_model', 'hw_tpm_model'))


@rule.rule(
    'P305', Severity.NOTE, 'NIC queues for a single vCPU',
    why='nova makes as many queues as there are vCPUs, and ignores the '
        'setting for one',
    advice='leave hw:vif_multiqueue_enabled out',
    in_catalogue='leave nic_multiqueue out')
def queues_for_one(subject: rule.Subject) -> Iterator[rule.Problem]:
    if subject.flavor.vcpus == 1 and (
            rule.is_true(subject.value('vif_multiqueue_enabled'))):
        yield rule.Problem(
            f'{subject.shown("vif_multiqueue_enabled")} does nothing for 1 '
            'vCPU',
            ('hw:vif_multiqueue_enabled', 'hw_vif_multiqueue_enabled'))


RULES = (
    policy_without_device, cells_without_device, affinity_without_numa,
    tpm_without_version, queues_for_one,
)
