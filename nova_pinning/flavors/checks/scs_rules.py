# SPDX-License-Identifier: Apache-2.0
"""S0xx: what the names of Sovereign Cloud Stack's standards promise.

Of https://docs.scs.community/standards: the syntax of names and what they mean
is scs-0100 from version 3 on, the extra specs and the mandatory flavors are
scs-0103-v1. Names that do not begin with SCS- are free.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import re

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.flavors.checks import checked
from nova_pinning.flavors import flavor_model
from nova_pinning import model

_PREFIX = 'SCS-'
_NAME = re.compile(
    r'SCS-(?P<vcpus>[1-9]\d*)(?P<kind>[CTVL])i?-(?P<gib>\d+(\.5)?)u?(?P<over>'
    r'o?)(-(([1-9]\d*)x)?(?P<disk>\d*)[nhsp]?)?(_(kvm|chy|xen|vmw|hyv|bms))?'
    r'(_hwv)?(_[izar]\d?h{0,3})?(_[gG][NAI][0-9a-z.]*(-\d+h*(-\d+h*)?)?)?'
    r'(_ib)?', re.ASCII)
_NAME_KEY = re.compile(r'scs:name-v[1-9]\d*')
_TYPE_KEY = 'scs:cpu-type'
_TYPES = {'C': 'dedicated-core', 'T': 'dedicated-thread',
          'V': 'shared-core', 'L': 'crowded-core'}
#: The most vCPUs for a host CPU that is a thread, and for one that is a core.
_PER_THREAD, _PER_CORE = 3, 5
#: scs-0103-v1, "Mandatory".
_MANDATORY = (
    'SCS-1V-4', 'SCS-2V-8', 'SCS-4V-16', 'SCS-4V-16-100s', 'SCS-8V-32',
    'SCS-1V-2', 'SCS-2V-4', 'SCS-2V-4-20s', 'SCS-4V-8', 'SCS-8V-16',
    'SCS-16V-32', 'SCS-1V-8', 'SCS-2V-16', 'SCS-4V-32', 'SCS-1L-1')


def _names(flavor: flavor_model.Flavor) -> Iterator[tuple[str, str]]:
    """(property, name) of all that a flavor is called under the standard.

    Where a name has colons, as before version 2, dashes stand for them.
    """
    if flavor.name.startswith(_PREFIX):
        yield 'name', flavor.name
    for key, name in flavor.extra_specs.items():
        if _NAME_KEY.fullmatch(key):
            yield key, name.replace(':', '-')


def _promises(subject: checked.CheckedFlavor,
              ) -> Iterator[tuple[str, re.Match[str]]]:
    for key, name in _names(subject.flavor) if subject.has_scs else ():
        match = _NAME.fullmatch(name)
        if match:
            yield key, match


@check_rule.rule(
    'S001', Severity.ERROR, 'name that is not of the SCS standard',
    why='a name that begins with SCS- has to follow scs-0100, "Naming policy '
        'compliance"',
    advice='name it as SCS-4V-16-100s: vCPUs with C, T, V or L, GiB of '
           'memory, GB of disk, extensions in the order of the standard; or '
           'without SCS-')
def bad_name(subject: checked.CheckedFlavor) -> check_rule.Violations:
    name = subject.flavor.name
    if subject.has_scs and name.startswith(_PREFIX) and (
            not _NAME.fullmatch(name)):
        yield subject.violation('its name does not follow the syntax',
                                ('name',))


@check_rule.rule(
    'S002', Severity.ERROR, 'flavor with less than its SCS name promises',
    why='a flavor has to provide at least what its name says (scs-0100, '
        '"Naming policy compliance")',
    advice='correct the name or the size')
def less_than_promised(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    flavor = subject.flavor
    for key, name in _promises(subject):
        for what, promised, given, unit in (
                ('vcpus', int(name['vcpus']), flavor.vcpus, 'vCPUs'),
                ('ram', int(float(name['gib']) * 1024), flavor.memory_mib,
                 'MiB of memory'),
                ('disk', int(name['disk'] or 0), flavor.disk_gib,
                 'GB of disk')):
            if given < promised:
                yield subject.violation(
                    f'{name[0]} promises {promised} {unit}, but it has '
                    f'{given}', (key, what))


@check_rule.rule(
    'S003', Severity.WARNING, 'CPUs other than its SCS name promises',
    why='C and T promise dedicated cores and threads (scs-0100, "CPU '
        f'Suffixes"), and {_TYPE_KEY} says the same as the letter '
        '(scs-0103)',
    advice='set hw:cpu_policy=dedicated, or correct the name and '
           f'{_TYPE_KEY}')
def other_cpus(subject: checked.CheckedFlavor) -> check_rule.Violations:
    for key, name in _promises(subject):
        told = subject.specs.get(_TYPE_KEY)
        if told and told != _TYPES[name['kind']]:
            yield subject.violation(
                f'{name[0]} is {_TYPES[name["kind"]]}, but it has '
                f'{checked.shown(_TYPE_KEY, told)}', (_TYPE_KEY, key))
        elif name['kind'] in 'CT' and (
                subject.cpu_policy is not model.CpuPolicy.DEDICATED):
            yield subject.violation(
                f'{name[0]} promises dedicated CPUs, but the CPU policy is '
                f'{subject.cpu_policy}', (key,))


@check_rule.rule(
    'S004', Severity.WARNING, 'hosts more oversubscribed than SCS names say',
    why='V promises at least 20% of a core, by no more than 5 vCPUs a core or '
        '3 a thread or by other management of the load (scs-0100, '
        '"Baseline"); without o memory is not oversubscribed',
    advice='lower the allocation ratios of the hosts, or use L for V and o '
           'behind the memory')
def oversubscribed(subject: checked.CheckedFlavor) -> check_rule.Violations:
    for key, name in _promises(subject):
        for host in subject.candidates:
            told = host.description.nova
            most = _PER_THREAD if any(
                len(core) > 1 for node in host.description.nodes
                for core in node.cores) else _PER_CORE
            for option, ratio, limit in (
                    ('cpu', told.cpu_allocation_ratio,
                     most if name['kind'] == 'V' else None),
                    ('ram', told.ram_allocation_ratio,
                     None if name['over'] else 1)):
                if limit and ratio > limit:
                    yield subject.violation(
                        f'{host.title}: {option}_allocation_ratio is '
                        f'{ratio:g}, where its name allows {limit}', (key,))


MISSING = check_rule.Rule[checked.CheckedFlavor](
    'S005', Severity.ERROR, 'mandatory SCS flavor that is missing',
    'clouds of the standard offer all of scs-0103, "Mandatory"',
    'create it, or name a flavor so with scs:name-v2')


def missing(
    flavors: Iterable[flavor_model.Flavor],
) -> Iterator[check_rule.Finding]:
    """The mandatory flavors that are not among all of a cloud's."""
    there = {name for flavor in flavors for _key, name in _names(flavor)}
    for name in _MANDATORY:
        if name not in there:
            yield MISSING.finding(check_rule.Violation(
                subject=f'flavor {name}', kind='flavor', name=name,
                message='no flavor has this name', details={'flavor': name}))
