# SPDX-License-Identifier: Apache-2.0
"""One flavor for a rule to look at, with all that goes into a check."""

import dataclasses

from nova_pinning.bridge.offline import standalone
from nova_pinning.flavors import host_separation
from nova_pinning.flavors import release_support
from nova_pinning.model import nova_release
from nova_pinning.tests.unit.flavors import check_samples
from nova_pinning.tests.unit.flavors.check_samples import DEDICATED
from nova_pinning.tests.unit.flavors.check_samples import GIB
from nova_pinning.tests.unit.flavors.check_samples import SHARED


@dataclasses.dataclass
class Case:
    """A flavor, and what is found in it.

    :param specs: extra specs
    :param also: codes of other rules that find something as well
    :param releases: that the cloud may run
    """

    specs: dict
    without: tuple = ()
    vcpus: int = 8
    memory_mib: int = 16 * GIB
    image: dict | None = None
    hosts: tuple = ()
    aliases: tuple | None = None
    also: tuple = ()
    severity: str = ''
    releases: tuple = ()
    separation: host_separation.Separation = host_separation.DEFAULT

    def findings(self):
        return check_samples.check(
            [check_samples.flavor(self.specs, self.without, vcpus=self.vcpus,
                                  memory_mib=self.memory_mib)],
            self.hosts, self.image, self.aliases,
            release_support.CloudRelease(
                tuple(map(nova_release.of_name, self.releases)),
                standalone.nova_version()), self.separation)


def dedicated(more=(), **values):
    return Case({**DEDICATED, **dict(more)}, **values)


def shared(more=(), **values):
    return Case({**SHARED, **dict(more)}, **values)


def mixed(mask='2-7', more=(), **values):
    return dedicated({'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': mask,
                      **dict(more)}, **values)


REALTIME = {'hw:cpu_realtime': 'yes', 'hw:cpu_realtime_mask': '^0-1',
            'hw:locked_memory': 'yes', 'hw:pmu': 'no'}
#: No sibling threads.
FLAT = {'hw:cpu_threads': '1', 'hw:cpu_cores': '8'}
#: A socket for each.
TWO_CELLS = {'hw:numa_nodes': '2', 'hw:cpu_sockets': '2', 'hw:cpu_cores': '2'}
#: One NUMA node of 36 dedicated CPUs.
SMALL = check_samples.host(nodes=1)
SHARED_HOST = check_samples.host(traits=('CUSTOM_PINNING_SHARED',))
TOPOLOGY = ('hw:cpu_sockets', 'hw:cpu_cores', 'hw:cpu_threads')
NVME = {'pci_passthrough:alias': 'nvme:1'}

SOUND = {'hw:sound_model': 'virtio'}
SNP = {'hw:mem_encryption_model': 'amd-sev-snp'}
EPOXY = ('2025.1',)
NEWEST = ('2026.2',)
