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
from nova_pinning.flavors import host_separation

#: What hosts say in cpu_info, as libvirt has it in its CPU maps.
_VENDORS = {vendor.lower(): vendor for vendor in (
    'Intel', 'AMD', 'Hygon', 'ARM', 'IBM')}
# A value without one of these is compared as it stands.
_OPERATORS = ('=', '==', '!=', '>=', '<=', 's==', 's!=', 's<', 's<=', 's>',
              's>=', '<in>', '<all-in>', '<or>')


#: Nova's validators tell, see nova_judgement.
UNREAD = check_rule.Rule[checked.CheckedFlavor](
    'P505', Severity.WARNING, 'extra spec that nobody reads',
    'nova accepts extra specs outside its own namespaces without a word',
    'correct the name, or leave the extra spec out')


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
    has_scoped = any(key.startswith(host_separation.AGGREGATES)
                     for key in subject.specs)
    for key, value in subject.specs.items():
        if ':' in key or not (has_scoped or key in host_separation.OWN_KEYS):
            continue
        advice = ''
        if key == 'hide_hypervisor_id':
            advice = 'write hw:hide_hypervisor_id'
        elif key in host_separation.OWN_KEYS:
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
