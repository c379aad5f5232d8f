# SPDX-License-Identifier: Apache-2.0
"""The link between a guest and this host: a tap device, and nothing behind it.

No bridge, no routes, no address translation: a guest reaches its host, and
nobody else. The addresses are of the network that is set aside for benchmarks
of network devices (RFC 2544).
"""

from collections.abc import Collection
from collections.abc import Iterator
import contextlib
import ipaddress
import os
import pathlib

from nova_pinning import cpuset
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench.platforms import domain
from nova_pinning.instance_bench.platforms import process

_PREFIX = 'npbench'
_NETWORK = ipaddress.IPv4Network('198.18.0.0/15')
_VHOST = pathlib.Path('/dev/vhost-net')


def choose(taken: Collection[str]) -> domain.TapLink:
    """A link that is not there yet.

    :param taken: names of network devices
    :raises bench_errors.InstanceError: if there are all that can be
    """
    for number, network in enumerate(_NETWORK.subnets(new_prefix=30)):
        if f'{_PREFIX}{number}' not in taken:
            host, guest = network.hosts()
            return domain.TapLink(
                device=f'{_PREFIX}{number}', host=str(host),
                guest=str(guest), vhost=_VHOST.exists())
    raise bench_errors.InstanceError(
        f'devices from {_PREFIX}0 on have taken all of {_NETWORK}',
        'see which are left over: ip link')


def bring_up(link: domain.TapLink) -> None:
    """Give this host its address on a link that libvirt has made."""
    process.run(['ip', 'address', 'add', f'{link.host}/{link.prefix}', 'dev',
                 link.device])
    process.run(['ip', 'link', 'set', link.device, 'up'])


def vhost_threads(tree: machine_files.Tree, pid: int) -> list[int]:
    """The threads that move packets for a QEMU.

    Processes of the kernel, or from Linux 6.4 on threads of QEMU.
    """
    own = [int(tid) for tid in tree.names(f'/proc/{pid}/task')
           if (tree.text(f'/proc/{pid}/task/{tid}/comm') or '').startswith(
               'vhost-')]
    return own or [int(name) for name in tree.names('/proc')
                   if name.isdigit()
                   and tree.text(f'/proc/{name}/comm') == f'vhost-{pid}']


def steer(tree: machine_files.Tree, link: domain.TapLink, pid: int,
          cpus: cpuset.CpuSet) -> None:
    """Have packets handled on some CPUs.

    What the link receives (a tap device has no interrupt, but can steer what
    comes in as if it had: Documentation/networking/scaling.rst), and the
    vhost threads.

    :param pid: of the guest's QEMU
    :raises bench_errors.InstanceError: if that cannot be done
    """
    try:
        for path in pathlib.Path('/sys/class/net', link.device,
                                 'queues').glob('rx-*/rps_cpus'):
            path.write_text(cpus.kernel_mask)
    except OSError as error:
        raise bench_errors.InstanceError(
            f'what {link.device} receives cannot be steered to CPUs {cpus}: '
            f'{error.strerror}') from None
    for tid in vhost_threads(tree, pid):
        # One that must stay is told of by affinities().
        with contextlib.suppress(OSError):
            os.sched_setaffinity(tid, cpus)


def affinities(tree: machine_files.Tree, pid: int,
               expected_cpus: cpuset.CpuSet) -> Iterator[bench_model.Affinity]:
    """Where the vhost threads may run."""
    for tid in vhost_threads(tree, pid):
        with contextlib.suppress(OSError):
            yield bench_model.Affinity(
                thread='vhost', asked=expected_cpus,
                seen=cpuset.CpuSet(os.sched_getaffinity(tid)))
