#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The options of group [pinning]."""

import math

from oslo_config import cfg
from oslo_config import types

pinning_group = cfg.OptGroup(
    'pinning',
    title='Options of nova-pinning',
    help="""
What nova-pinning's scheduler filters and weighers do. They are read by
nova-scheduler, so set them in its nova.conf.
""")

filter_opts = [
    cfg.StrOpt(
        'unknown_host_class',
        default='allow',
        choices=[
            ('allow', 'Take any guest'),
            ('refuse', 'Take no guest'),
            ('dedicated', 'Treat the host as dedicated'),
            ('shared', 'Treat the host as shared'),
        ],
        help="""
What HostClassFilter does with a host whose class nothing tells: no aggregate
with ``pinning:class``, no trait of a class, and a NUMA topology that allows
both pinned and floating vCPUs on the same CPUs or is missing.

Set this to ``refuse`` once every host is marked, so that a new host takes no
guest before somebody has decided what it is for.
"""),
    cfg.StrOpt(
        'on_error',
        default='by-class',
        choices=[
            ('by-class', 'Refuse the host for dedicated guests, pass it for '
                         'shared ones'),
            ('refuse', 'Refuse the host'),
            ('pass', 'Pass the host'),
        ],
        help="""
What a filter does with a host on which it met an unexpected error. The error
is logged once, with the host's name.

The default keeps a fault from putting a pinned guest where it does not fit
while shared guests go on to be scheduled. Set it to ``pass`` only to get a
cloud going again while a fault is being looked into.
"""),
    cfg.BoolOpt(
        'check_nova_claim',
        default=True,
        help="""
Whether PinnedTopologyFilter also asks nova's own NUMA fit about guests which
that is known to get wrong: guests of several cells that differ or have page
sizes, mixed CPU policy, PCI devices or NUMA-aware networks; any guest with
page size ``small``, ``large`` or ``any``, or with isolated threads and
isolated emulator threads; and hosts with odd sibling lists. Nova-compute
claims CPUs with that function, so a host on which it would go wrong is
refused, with a reason that says so.

Turn this off when the nova of all compute hosts is mended; the guests in
question then get hosts that they were refused before.
``nova_claim_max_permutations`` has no effect then.
"""),
    cfg.IntOpt(
        'nova_claim_max_permutations',
        default=20000,
        min=1,
        help="""
How many permutations of host cells nova-compute's claim may walk through for
a guest of several NUMA cells; the host is refused where it would take more.
Nova walks about 150,000 a second, a few hundred if the guest asks for PCI
devices, and nova-compute does nothing else in the meantime. Of sets of host
cells near PCI devices and networks, no more than this are tried.

Raise this if guests of many cells are refused as taking too long and slow
claims are acceptable.
"""),
]

traits_opts = [
    cfg.IntOpt(
        'traits_refresh_seconds',
        default=60,
        min=0,
        help="""
How long HostClassFilter and CacheLocalityWeigher wait before they read the
CUSTOM_PINNING traits of all hosts from Placement again; 0 if traits are not
to be read at all. Each nova-scheduler process reads in the background, with
the settings of group ``[placement]`` and one query a trait. A query that is
not answered in ``[placement] timeout`` seconds, 30 if that is not set, has
failed; a failed read is tried again after 5 seconds or less.

A trait that is set or taken away counts for Placement's own answers at once,
for the filter after this time, and so do those of a new host. Lower it if
hosts often change their class; set it to 0 where aggregates alone tell the
class of hosts.
"""),
    cfg.IntOpt(
        'traits_max_age_seconds',
        default=3600,
        min=0,
        help="""
How old the traits may be on which dedicated guests are scheduled while
Placement does not answer the queries for them. When they are older, or have
never been read, HostClassFilter refuses dedicated guests on hosts whose class
no aggregate names, and says so; shared guests go on to be scheduled by the
traits that were read last. 0: traits never get too old. Other values must be
at least twice ``traits_refresh_seconds``.

An hour outlasts an upgrade of Placement, and few hosts change their class
in that time. Lower it if hosts often do; set it to 0 if an outage must never
stop dedicated guests.
"""),
    cfg.FloatOpt(
        'traits_first_wait_seconds',
        default=5.0,
        min=0.0,
        max=30.0,
        help="""
How long the first requests of a nova-scheduler process may wait for the first
read of the traits to end, counted from the very first of them. Afterwards no
request waits: not even if that read still goes on, or failed.

Raise it if the first requests after a start find the traits not read yet;
set it to 0 so that no request ever waits.
"""),
]

weigher_opts = [
    cfg.FloatOpt(
        'fragmentation_weight_multiplier',
        default=2.0,
        help="""
Weight of FragmentationWeigher, which prefers the host on which placing the
guest strands the fewest CPUs that could otherwise still be sold. Weights are
relative to those of nova's weighers (1.0 for most).

Nova's RAM weigher spreads guests, which works against it: set
``ram_weight_multiplier`` to 0 where dedicated hosts are to be sold in full.

Raise it if dedicated hosts fill up with CPUs that fit nothing; 0 switches the
weigher off, a negative value turns it round. A host aggregate's metadata key
of the same name overrides it for its hosts.
"""),
    cfg.MultiOpt(
        'fragmentation_mix',
        item_type=types.Dict(value_type=types.String()),
        help="""
The guests that are expected to be sold, one option a size, for
FragmentationWeigher. Keys: ``vcpus`` and ``memory_mib`` of the guest in one
NUMA cell (required), ``cells`` (how many such cells it has; default 1),
``thread_policy`` (prefer, require or isolate; default prefer),
``page_size_kib`` (a size, small, large or any; default: none asked for),
``weight`` (how many guests of this size are sold, relative to the others;
default 1; sizes count by their vCPUs). For example::

    fragmentation_mix = vcpus:8,memory_mib:16384,thread_policy:require,weight:3
    fragmentation_mix = vcpus:16,memory_mib:32768,thread_policy:require

Unset, the mix is that of the most recent requests. Set it where the sizes on
sale are known, or several schedulers should decide alike.
"""),
    cfg.IntOpt(
        'fragmentation_recent_requests',
        default=256,
        min=1,
        max=100000,
        help="""
How many recent requests make up the mix if ``fragmentation_mix`` is not set.
Each nova-scheduler process counts its own.

Lower it where what customers ask for changes within hours.
"""),
    cfg.FloatOpt(
        'cache_locality_weight_multiplier',
        default=1.0,
        help="""
Weight of CacheLocalityWeigher, which prefers hosts on which the guest's CPUs
lie in the fewest L3 domains.

Raise it where guests are sensitive to cache and L3 domains are small; 0
switches the weigher off. A host aggregate's metadata key of the same name
overrides it for its hosts.
"""),
    cfg.BoolOpt(
        'exclusive_l3',
        default=False,
        help="""
Whether CacheLocalityWeigher also avoids L3 domains in which another guest has
CPUs. Domains of the guest that are shared then count three times.

Turn it on where neighbours that trash the cache are a worse problem than
hosts that fill unevenly.
"""),
]

_OPTS = filter_opts + traits_opts + weigher_opts


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Make the options known to conf; registering twice does no harm."""
    conf.register_group(pinning_group)
    conf.register_opts(_OPTS, group=pinning_group)


def check(conf: cfg.ConfigOpts) -> None:
    """Read each option once, so that a wrong one ends the start-up.

    oslo.config looks at a value in a file only when it is asked for.

    :raises oslo_config.cfg.ConfigFileValueError: naming the option
    """
    for opt in _OPTS:
        value = getattr(conf.pinning, opt.dest)
        if isinstance(value, float) and not math.isfinite(value):
            raise cfg.ConfigFileValueError(
                f'[pinning] {opt.name} = {value}: a number is needed')
    refresh = conf.pinning.traits_refresh_seconds
    max_age = conf.pinning.traits_max_age_seconds
    if 0 < max_age < 2 * refresh:
        raise cfg.ConfigFileValueError(
            f'[pinning] traits_max_age_seconds = {max_age}: must be 0 or at '
            f'least twice traits_refresh_seconds, which is {refresh}')


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    return {pinning_group: _OPTS}
