# SPDX-License-Identifier: Apache-2.0
"""Domains that run, from the files in which libvirt keeps what it knows.

There is one for each, with the XML that is in force and the process of its
QEMU. libvirt replaces it as a whole whenever something changes, and reads it
when it is started anew; the guests run on meanwhile. See
qemuDomainObjPrivateXMLFormat() in src/qemu/qemu_domain.c.
"""

from collections.abc import Mapping
import dataclasses
from xml.etree import ElementTree

from nova_pinning.host import domain_xml

#: The directory where libvirt keeps them.
DIRECTORY = '/run/libvirt/qemu'
# VIR_DOMAIN_PAUSED_STARTING_UP, which qemuProcessFinishStartup() ends.
_STARTING = 'starting up'


@dataclasses.dataclass(frozen=True, slots=True)
class RunningDomain:
    """What libvirt keeps of a domain that runs.

    :param number: its id, which is higher for those that were started later
    :param vcpu_tids: vCPUs by the id of their thread
    :param is_starting: whether libvirt has not pinned all of its threads yet;
        those of vCPUs have the name of QEMU until they first run
    """

    number: int
    pid: int
    domain: domain_xml.DomainXml
    vcpu_tids: Mapping[int, int]
    is_starting: bool = False


def parse(text: str) -> RunningDomain | None:
    """None if it is not of a domain: libvirt may be writing it."""
    try:
        root = ElementTree.fromstring(text)
        inner = root.find('domain')
        if inner is None:
            return None
        return RunningDomain(
            int(inner.get('id', '0')), int(root.get('pid', '')),
            domain_xml.read(inner),
            {int(vcpu.get('pid', '')): int(vcpu.get('id', ''))
             for vcpu in root.iterfind('vcpus/vcpu')},
            root.get('reason') == _STARTING)
    except (ElementTree.ParseError, ValueError):
        return None
