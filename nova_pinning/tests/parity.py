# SPDX-License-Identifier: Apache-2.0
"""Whether two guests' XML say the same, but for what tells guests apart."""

import collections
from xml.etree import ElementTree

from nova_pinning import cpuset

#: What flavor, image and host do not decide: names, ids, files, addresses.
IGNORED = frozenset({
    'domain/uuid',
    'domain/name',
    'domain/metadata',
    'domain/sysinfo',
    'domain/devices/disk/source',
    'domain/devices/serial/log',
    'domain/devices/interface/mac',
    'domain/devices/interface/mtu',
    'domain/devices/interface/target',
    'domain/devices/tpm/backend/encryption',
})

#: Attributes that list CPUs or nodes.
_LISTS = frozenset({'cpuset', 'cpus', 'vcpus', 'nodeset'})
#: Elements that may stand once for a list, or once for each number in it.
_SPREAD = {'vcpusched': 'vcpus', 'page': 'nodeset'}


def differences(first, second, cores=()):
    """What one XML has and the other has not.

    The order of elements does not matter, nor how lists of CPUs are written.

    :param cores: sets of host CPUs; which of the vCPUs that are pinned to a
        core has which of its threads does not matter
    :returns: sentences, none if both say the same
    """
    ours = collections.Counter(_parts(first, cores))
    theirs = collections.Counter(_parts(second, cores))
    return ([f'only the first has {part}' for part in sorted(ours - theirs)] +
            [f'only the second has {part}' for part in sorted(theirs - ours)])


def _parts(xml, cores):
    """The elements below the root's, and those below <devices>, as text.

    These are small enough to be read by themselves.
    """
    domain = ElementTree.fromstring(xml)
    yield from _pinned_cores(domain, cores)
    yield f'domain{_attributes(domain)}'
    for element in domain:
        if element.tag in ('devices', 'cputune'):
            for child in element:
                yield from _texts(child, f'domain/{element.tag}')
        else:
            yield from _texts(element, 'domain')


def _pinned_cores(domain, cores):
    """Take the pins to cores out of a domain: vCPUs and CPUs of each core."""
    cputune = domain.find('cputune')
    pins = collections.defaultdict(lambda: (set(), set()))
    for pin in domain.findall('cputune/vcpupin'):
        cpus = cpuset.CpuSet.parse(pin.get('cpuset'))
        core = [core for core in cores if set(cpus) <= set(core)]
        if core and len(cpus) == 1:
            vcpus, taken = pins[tuple(sorted(core[0]))]
            vcpus.add(int(pin.get('vcpu')))
            taken.update(cpus)
            cputune.remove(pin)
    for core, (vcpus, taken) in pins.items():
        yield f'core {core}: CPUs {sorted(taken)}, vCPUs {sorted(vcpus)}'


def _texts(element, parent):
    """An element with all that is in it, as text in one way of writing it.

    :returns: none if it is ignored, several if it is spread
    """
    path = f'{parent}/{element.tag}'
    if path in IGNORED:
        return
    inner = sorted(
        text for child in element for text in _texts(child, path))
    content = (element.text or '').strip() + ' '.join(inner)
    name = element.tag if '/' in parent.removeprefix('domain') else path
    spread = _SPREAD.get(element.tag)
    numbers = [None]
    if spread and element.get(spread):
        numbers = list(cpuset.CpuSet.parse(element.get(spread)))
    for number in numbers:
        attributes = _attributes(element, spread, number)
        yield f'{name}{attributes}({content})' if content else (
            f'{name}{attributes}')


def _attributes(element, spread=None, number=None):
    shown = []
    for name, value in sorted(element.attrib.items()):
        if name == spread and number is not None:
            value = str(number)
        elif name in _LISTS:
            value = str(cpuset.CpuSet.parse(value))
        shown.append(f'{name}={value}')
    return f'[{" ".join(shown)}]' if shown else ''
