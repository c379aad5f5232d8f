# SPDX-License-Identifier: Apache-2.0
"""N0xx: what nova itself refuses.

The checks are nova's own, see
:mod:`nova_pinning.bridge.offline.nova_judgement`; here is what each of them
means and which keys it is about. Nothing here imports nova.
"""

import dataclasses
import typing

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning import model

_NO_SERVER = 'nova-api refuses every server with this flavor and image'
_NO_START = ('nova refuses every server with this flavor and image, or fails '
             'to start it on the host')

EXTRA_SPEC = check_rule.Rule[typing.Any](
    'N001', Severity.ERROR, 'extra spec that nova-api refuses',
    'nova-api refuses to store it (from microversion 2.86 on), as its '
    'validators do not know the name or do not take the value',
    'correct the name or the value')

CPU_POLICY = check_rule.Rule[typing.Any](
    'N002', Severity.ERROR, 'CPU policies that nova refuses',
    _NO_SERVER,
    'thread, emulator and realtime policies and masks go with '
    'hw:cpu_policy=dedicated or mixed; a mask of dedicated or realtime vCPUs '
    'goes with mixed')

NUMA = check_rule.Rule[typing.Any](
    'N003', Severity.ERROR, 'NUMA topology that nova refuses',
    _NO_SERVER,
    'take a number of cells that divides vCPUs and memory, or give every '
    'cell its hw:numa_cpus.N and hw:numa_mem.N, which together are all vCPUs '
    'and all memory of the flavor')

MEMORY = check_rule.Rule[typing.Any](
    'N004', Severity.ERROR, 'memory settings that nova refuses',
    _NO_SERVER,
    'locked memory needs a page size; an image may choose the page size only '
    'where the flavor says large or any')

TOPOLOGY = check_rule.Rule[typing.Any](
    'N005', Severity.ERROR, 'guest CPU topology that nova refuses',
    _NO_START,
    'raise the hw:cpu_max_* limits, or lower what the image asks for')

PCI = check_rule.Rule[typing.Any](
    'N006', Severity.ERROR, 'PCI request that nova refuses',
    _NO_SERVER,
    'write pci_passthrough:alias as name:count, with names that stand under '
    '[pci] alias in nova.conf')

DEVICE = check_rule.Rule[typing.Any](
    'N007', Severity.ERROR, 'virtual device or feature that nova refuses',
    _NO_START,
    'correct the value, or make the image agree with the flavor')

FAILURE = check_rule.Rule[typing.Any](
    'N008', Severity.ERROR, 'value on which nova fails',
    'nova does not handle it, and answers with an internal error (status '
    '500) where it should say what is wrong',
    'correct the value')


@dataclasses.dataclass(frozen=True, slots=True)
class NovaRefusal:
    """Something that nova refuses in a flavor.

    :param keys: see checked.CheckedFlavor.violation
    :param advice: what to write instead, if the rule's own does not do
    """

    rule: check_rule.Rule[typing.Any]
    message: str
    keys: tuple[str, ...]
    advice: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What nova makes of a flavor.

    :param guest: the NUMA topology that the guest gets; None if it has none,
        or is refused
    :param is_accepted: whether nova would create servers with it
    """

    refusals: tuple[NovaRefusal, ...]
    guest: model.Guest | None
    is_accepted: bool
