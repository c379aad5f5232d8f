# SPDX-License-Identifier: Apache-2.0
"""Whether the engine and the nova that it runs in agree, seen at start-up.

A few hosts and guests that nova is known to get right are given to both.
Nova's own fit may change with a release, or with what a distribution has put
into it, and then what the filter predicts would not come true.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from nova import objects
from nova.virt import hardware
from oslo_log import log as logging

from nova_pinning.bridge import claim
from nova_pinning.bridge import nova_objects
from nova_pinning.bridge import numa
from nova_pinning import cpuset
from nova_pinning import model
from nova_pinning.model import nova_release
from nova_pinning.scheduler import metrics
from nova_pinning.scheduler import metrics_recorder

LOG = logging.getLogger(__name__)

_MIB_PER_VCPU = 512


class SelfTestResult(NamedTuple):
    """What the self-test found.

    :param checked: how many cases there are
    :param failures: what is wrong, a sentence each
    """

    checked: int
    failures: tuple[str, ...]


class SelfTestFailed(Exception):
    """The self-test failed, so that nothing is known for sure."""


@functools.cache
def at_start_up() -> SelfTestResult:
    """Run it once in this process, and say in the log how it went."""
    version, is_tested = nova_version()
    known = 'tested with' if is_tested else 'not tested with'
    result = run()
    metrics.recorder().self_test(not result.failures)
    if not result.failures:
        LOG.log(
            logging.INFO if is_tested else logging.WARNING,
            'nova-pinning %s on nova %s, which it is %s: self-test passed, %d '
            'cases', metrics_recorder.package_version('nova-pinning'),
            version, known, result.checked)
        return result
    LOG.error(
        'nova-pinning %s on nova %s, which it is %s: self-test failed in %d '
        'of %d cases. Its NUMA fit differs from that of this nova, so '
        "nova's own NUMATopologyFilter judges hosts, with all that it gets "
        'wrong, unless [pinning] on_error says otherwise. Install a version '
        'that is tested with this nova, and report these: %s',
        metrics_recorder.package_version('nova-pinning'), version, known,
        len(result.failures), result.checked, '; '.join(result.failures))
    return result


def nova_version() -> tuple[str, bool]:
    """The version of nova, and whether this one is tested with it."""
    version = metrics_recorder.package_version('nova')
    release = nova_release.of_nova_version(version)
    return version, release in nova_release.TESTED


def run() -> SelfTestResult:
    """Give all cases to the engine and to nova."""
    objects.register_all()
    failures = [
        f'{name}: {problem}' for name, (host, guest) in _CASES.items()
        if (problem := _problem(host, guest))]
    return SelfTestResult(len(_CASES), tuple(failures))


def _problem(host: model.Host, guest: model.Guest) -> str:
    """How nova's answer differs from the engine's, '' if it does not."""
    host_topology = nova_objects.host_topology(host)
    limits = objects.NUMATopologyLimits(
        cpu_allocation_ratio=2.0, ram_allocation_ratio=1.0)
    try:
        ours = numa.fit_or_refusal(
            host_topology, nova_objects.instance_topology(guest), None, limits)
        with claim.LOG_SILENCER.silenced():
            answer = hardware.numa_fit_instance_to_host(
                host_topology, nova_objects.instance_topology(guest), None,
                limits)
        theirs = claim.fit_from_nova(answer) if answer is not None else None
    except Exception as error:
        return f'{type(error).__name__}: {error}'
    if isinstance(ours, model.Refusal):
        return '' if theirs is None else f'nova has {theirs}, we: {ours}'
    return '' if ours == theirs else f'nova has {theirs}, we have {ours}'


def _host(*pinned: str, pages: tuple[model.PagePool, ...] = (),
          shared: str = '') -> model.Host:
    """A host with 4 cores of 2 threads a cell, one cell for each argument."""
    cells = []
    for number, taken in enumerate(pinned):
        first = 8 * number
        cells.append(model.HostCell(
            id=number, shared_cpus=cpuset.CpuSet.parse(shared),
            dedicated_cpus=cpuset.CpuSet(range(first, first + 8)),
            pinned_cpus=cpuset.CpuSet.parse(taken),
            cores=tuple((cpu, cpu + 1)
                        for cpu in range(first, first + 8, 2)),
            memory_mib=16384, pages=pages))
    return model.Host(tuple(cells), 2.0, 1.0)


def _guest(
    *vcpus: int, thread_policy: model.ThreadPolicy = model.ThreadPolicy.PREFER,
    page_size_kib: int | None = None, emulator_isolated: bool = False,
) -> model.Guest:
    """A dedicated guest with so many vCPUs in each cell."""
    cells = []
    first = 0
    for count in vcpus:
        cells.append(model.GuestCell(
            tuple(range(first, first + count)), (), count * _MIB_PER_VCPU,
            page_size_kib))
        first += count
    return model.Guest(
        tuple(cells), model.CpuPolicy.DEDICATED, thread_policy,
        emulator_isolated)


#: Names with a host and a guest each.
_CASES = {
    'the emptiest cell': (_host('0-3', ''), _guest(4)),
    'single threads': (_host('0,2,4,6'), _guest(3)),
    'no room': (_host('0-5', '8-13'), _guest(4)),
    'whole cores': (
        _host('0,2', ''), _guest(
            4, thread_policy=model.ThreadPolicy.REQUIRE)),
    'emulator threads': (_host(''), _guest(4, emulator_isolated=True)),
    'two cells': (_host('0-3', '', '16-19'), _guest(4, 4)),
    'huge pages': (
        _host('', '', pages=(model.PagePool(4, 1048576),
                             model.PagePool(2048, 4096))),
        _guest(2, 2, page_size_kib=2048)),
    'floating vCPUs': (
        _host('', shared='0-7'), model.Guest(
            (model.GuestCell((), (0, 1), 1024),))),
}
