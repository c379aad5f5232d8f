# SPDX-License-Identifier: Apache-2.0
"""P505, P510 and P511: what nova's filters make of extra specs, if anything.

Most filters read nothing but their own namespace. Nova's
AggregateInstanceExtraSpecsFilter and ComputeCapabilitiesFilter compare values
as text, or by the operators of nova.scheduler.filters.extra_specs_ops.
"""

import re

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.flavors.checks import checked
from nova_pinning import spelling

_NAMESPACES = (
    'accel', 'aggregate_instance_extra_specs', 'capabilities', 'hw',
    'hw_rng', 'hw_video', 'os', 'pci_passthrough', 'pinning', 'powervm',
    'quota', 'resources', 'trait', 'vmware')
_IMAGE_NAME = re.compile(r'(hw|os)_[a-z0-9_.]+')
#: What nova knows below hw:, but for what it knows without that as well.
HW_NAMES = frozenset((
    'boot_menu', 'cpu_cores', 'cpu_dedicated_mask', 'cpu_max_cores',
    'cpu_max_sockets', 'cpu_max_threads', 'cpu_policy', 'cpu_realtime',
    'cpu_realtime_mask', 'cpu_sockets', 'cpu_thread_policy', 'cpu_threads',
    'emulator_threads_policy', 'ephemeral_encryption',
    'ephemeral_encryption_format', 'locked_memory', 'mem_encryption',
    'mem_encryption_model', 'mem_page_size', 'numa_nodes',
    'pci_numa_affinity_policy', 'pmem', 'pmu', 'redirected_usb_ports',
    'serial_port_count', 'sound_model', 'tpm_model', 'tpm_secret_security',
    'tpm_version', 'usb_model', 'vif_multiqueue_enabled', 'viommu_model',
    'virtio_packed_ring', 'watchdog_action'))
_HW_CELL = re.compile(r'numa_(cpus|mem)\.[0-9]+')
#: Names without a namespace that nova itself reads.
_OWN_NAMES = ('group_policy', 'hide_hypervisor_id')
_AGGREGATES = 'aggregate_instance_extra_specs:'
#: What hosts say in cpu_info, as libvirt has it in its CPU maps.
_VENDORS = {vendor.lower(): vendor for vendor in (
    'Intel', 'AMD', 'Hygon', 'ARM', 'IBM')}
# A value without one of these is compared as it stands.
_OPERATORS = ('=', '==', '!=', '>=', '<=', 's==', 's!=', 's<', 's<=', 's>',
              's>=', '<in>', '<all-in>', '<or>')


@check_rule.rule(
    'P505', Severity.WARNING, 'extra spec that nobody reads',
    why='nova accepts extra specs outside its own namespaces without a word',
    advice='correct the name, or leave the extra spec out')
def unread_key(subject: checked.CheckedFlavor) -> check_rule.Violations:
    for key in subject.specs:
        if key != key.strip():
            # In nova's own namespaces it is refused.
            if key.partition(':')[0].strip() in _NAMESPACES:
                continue
            yield subject.violation(
                f'{checked.shown_name(key)} has a blank at its end, so that '
                'nobody reads it', (key,), f'write {key.strip()}')
            continue
        namespace, colon, rest = key.partition(':')
        if not colon:
            if _IMAGE_NAME.fullmatch(key):
                yield subject.violation(
                    f'{checked.shown_name(key)} is the name of an image '
                    'property, which a flavor cannot have', (key,),
                    f'write {key.replace("_", ":", 1)}')
            elif key in HW_NAMES or _HW_CELL.fullmatch(key):
                yield subject.violation(
                    f'nova knows {key} below hw: only', (key,),
                    f'write hw:{key}')
            continue
        near = _near_namespace(namespace)
        if near:
            yield subject.violation(
                f'nova knows no namespace {checked.shown_name(namespace)!r}, '
                f'so nobody reads {checked.shown_name(key)}', (key,),
                f'perhaps {near}:{checked.shown_name(rest)}')


def _near_namespace(namespace: str) -> str:
    """The namespace that is probably meant, '' if it is right as it is."""
    # Numbered and named request groups: resources1, trait_NIC.
    if namespace in _NAMESPACES or namespace.startswith(
            ('resources', 'trait')):
        return ''
    return next(iter(spelling.nearest(
        namespace.strip(), _NAMESPACES, 1, 0.75)), '')


@check_rule.rule(
    'P510', Severity.WARNING, 'name that aggregates are searched for as well',
    why='AggregateInstanceExtraSpecsFilter looks for each name without a '
        'namespace in the metadata of aggregates, and refuses hosts where it '
        'is missing, whoever else reads the name',
    advice='give it its namespace; what aggregates are meant to have stands '
           'in aggregate_instance_extra_specs:')
def unscoped_beside_aggregates(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.separation.by != 'aggregates':
        return
    # Otherwise it may well be what separates the classes.
    has_scoped = any(key.startswith(_AGGREGATES) for key in subject.specs)
    for key, value in subject.specs.items():
        if ':' in key or not (has_scoped or key in _OWN_NAMES):
            continue
        advice = ''
        if key == 'hide_hypervisor_id':
            advice = 'write hw:hide_hypervisor_id'
        elif key in _OWN_NAMES:
            advice = (f'give all aggregates the metadata {key}='
                      f'{value}: nova reads it under this name only')
        yield subject.violation(
            f'hosts need an aggregate with {checked.shown(key, value)}',
            (key,), advice)


@check_rule.rule(
    'P511', Severity.ERROR, 'capability that no host has',
    why='ComputeCapabilitiesFilter compares it with all that a host says '
        'there, as it stands, and refuses every host',
    advice='write a value as hosts have it, or one of the operators before it')
def impossible_capability(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    for key, value in subject.specs.items():
        words = value.split()
        if not key.startswith('capabilities:cpu_info:') or (
                words and words[0] in _OPERATORS):
            continue
        if key.endswith(':features'):
            yield subject.violation(
                f'{checked.shown(key, value)} is compared with the list of '
                'all features', (key,),
                f'write <all-in> {" ".join(re.split("[, ]+", value))}'
                if re.search('[, ]', value.strip())
                else f'write <in> {value.strip()}')
        elif key.endswith(':vendor') and (
                value not in _VENDORS.values() and
                value.strip().lower() in _VENDORS):
            yield subject.violation(
                f'{checked.shown(key, value)}: no host writes it so', (key,),
                f'write {_VENDORS[value.strip().lower()]}')
