# SPDX-License-Identifier: Apache-2.0
"""P4xx: shares of CPU time, and caps on CPU, disk and network.

Nova hands these numbers to libvirt as they are (LibvirtDriver.
_update_guest_cputune, disk_qos of nova.virt.libvirt.imagebackend and
nova.virt.libvirt.designer.set_vif_bandwidth_config), so a wrong one shows
when a guest is started. The limits are those of libvirt's domain XML.
"""

from nova_pinning.checks import check_rule
from nova_pinning.checks.check_rule import Severity
from nova_pinning.flavors.checks import checked

_SHARES = 'quota:cpu_shares'
_PERIOD = 'quota:cpu_period'
_QUOTA = 'quota:cpu_quota'
#: Weights of cgroup v2.
_MAX_SHARES = 10000
_PERIODS_US = range(1000, 1000001)
_MIN_QUOTA_US = 1000

_VMWARE_KEYS = frozenset(
    f'quota:{what}_{kind}'
    for what in ('cpu', 'memory', 'disk_io', 'vif')
    for kind in ('limit', 'reservation', 'shares_level', 'shares_share'))


@check_rule.rule(
    'P401', Severity.ERROR, 'CPU weight out of range',
    why='under cgroup v2 the weight of a guest goes from 1 to 10000; libvirt '
        'refuses to start a guest with any other',
    advice='scale the weights of all flavors down; only their ratio matters')
def shares_out_of_range(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    shares = checked.whole_number(subject.specs.get(_SHARES))
    if shares is not None and not 1 <= shares <= _MAX_SHARES:
        yield subject.about(_SHARES, f'is not in 1 to {_MAX_SHARES}')


@check_rule.rule(
    'P402', Severity.ERROR, 'CPU cap out of range',
    why='libvirt refuses to start a guest with it',
    advice='quota:cpu_period goes from 1000 to 1000000 microseconds, '
           'quota:cpu_quota from 1000 up, or is negative for no cap')
def cap_out_of_range(subject: checked.CheckedFlavor) -> check_rule.Violations:
    # To libvirt, 0 is as good as nothing.
    period = subject.number(_PERIOD)
    if period and period not in _PERIODS_US:
        yield subject.violation(
            f'{_PERIOD}={period} is not in 1000 to 1000000', (_PERIOD,))
    quota = subject.number(_QUOTA)
    if 0 < quota < _MIN_QUOTA_US:
        yield subject.violation(f'{_QUOTA}={quota} is below 1000', (_QUOTA,))


@check_rule.rule(
    'P403', Severity.WARNING, 'CPU period without a quota',
    why='the period alone caps nothing',
    advice='set quota:cpu_quota, the microseconds of each period that one '
           'vCPU may run')
def period_without_quota(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.number(_PERIOD) and not subject.number(_QUOTA):
        yield subject.about(_PERIOD, f'without {_QUOTA}')


@check_rule.rule(
    'P404', Severity.NOTE, 'CPU weight or cap on a dedicated guest',
    why='nobody else runs on the CPUs of a dedicated guest: a weight does '
        'nothing there, and a cap leaves CPUs idle that were paid for',
    advice='leave quota:cpu_shares, quota:cpu_period and quota:cpu_quota out',
    in_catalogue='leave cpu_priority and cpu_cap out')
def quota_on_dedicated(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.cpu_policy != 'dedicated':
        return
    if _SHARES in subject.specs:
        yield subject.about(
            _SHARES, 'does nothing for a guest that shares no CPU')
    if subject.number(_QUOTA) > 0:
        yield subject.about(_QUOTA, 'leaves dedicated CPUs idle')


@check_rule.rule(
    'P405', Severity.WARNING, 'network peak or burst without an average',
    why='nova writes the limits of a direction only if it has an average',
    advice='set the average of this direction, in KB/s',
    in_catalogue=(
        'write network_in or network_out, the average of this '
        'direction'))
def burst_without_average(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    for direction in ('inbound', 'outbound'):
        average = f'quota:vif_{direction}_average'
        if subject.specs.get(average):
            continue
        for kind in ('peak', 'burst'):
            key = f'quota:vif_{direction}_{kind}'
            if key in subject.specs:
                yield subject.about(key, f'does nothing without {average}')


@check_rule.rule(
    'P406', Severity.ERROR, 'total disk limit next to one for reads or writes',
    why='libvirt takes either the total or one for each, and refuses to '
        'start a guest with both',
    advice='leave out one of them')
def total_and_single(subject: checked.CheckedFlavor) -> check_rule.Violations:
    for unit in ('bytes', 'iops'):
        total = f'quota:disk_total_{unit}_sec'
        if not subject.number(total):
            continue
        for kind in ('read', 'write'):
            key = f'quota:disk_{kind}_{unit}_sec'
            if subject.number(key):
                yield subject.violation(
                    f'{total} and {key} exclude each other', (key,))


@check_rule.rule(
    'P407', Severity.WARNING, 'limit that only VMware has',
    why="nova's libvirt driver does not read it",
    advice='use quota:cpu_shares, cpu_period and cpu_quota, '
           'quota:disk_*_sec and quota:vif_*_average')
def vmware_only(subject: checked.CheckedFlavor) -> check_rule.Violations:
    for key in subject.specs:
        if key in _VMWARE_KEYS:
            yield subject.about(key, 'does nothing under libvirt')


@check_rule.rule(
    'P408', Severity.WARNING, 'network peak below the average',
    why='the kernel holds the interface to the peak, so that its guest never '
        'gets the average',
    advice='set a peak above the average, or leave it out')
def peak_below_average(
        subject: checked.CheckedFlavor) -> check_rule.Violations:
    for direction in ('inbound', 'outbound'):
        average, peak = (subject.number(f'quota:vif_{direction}_{kind}')
                         for kind in ('average', 'peak'))
        if average and peak and peak < average:
            key = f'quota:vif_{direction}_peak'
            yield subject.violation(
                f'{key}={peak}, but the average is {average}', (key,))


@check_rule.rule(
    'P409', Severity.WARNING, 'CPU cap above 100%',
    why='the cap is for each vCPU, and no vCPU runs on more than one host '
        'CPU, so that it caps nothing',
    advice='set quota:cpu_quota below quota:cpu_period, or leave both out',
    in_catalogue='write a percent below 100, or leave cpu_cap out')
def cap_above_all(subject: checked.CheckedFlavor) -> check_rule.Violations:
    period = subject.number(_PERIOD) or 100_000
    quota = subject.number(_QUOTA)
    if quota > period > 0:
        yield subject.violation(
            f'{_QUOTA}={quota} of {period} microseconds are '
            f'{quota / period:.0%} of a host CPU for each vCPU', (_QUOTA,))


@check_rule.rule(
    'P410', Severity.WARNING, 'CPU cap on dedicated vCPUs of a mixed guest',
    why='libvirt caps each vCPU alike, so those that were given CPUs of '
        'their own leave them idle',
    advice='leave quota:cpu_quota out; quota:cpu_shares weighs the vCPUs '
           'that float',
    in_catalogue='leave cpu_cap out; cpu_priority weighs the vCPUs that float')
def cap_on_mixed(subject: checked.CheckedFlavor) -> check_rule.Violations:
    if subject.cpu_policy == 'mixed' and subject.number(_QUOTA) > 0:
        yield subject.about(_QUOTA, 'caps the dedicated vCPUs too')
