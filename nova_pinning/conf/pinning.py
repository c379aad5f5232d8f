# SPDX-License-Identifier: Apache-2.0
"""The options of group [pinning]."""

from collections.abc import Iterable
import math
from typing import Any

from oslo_config import cfg
from oslo_config import types

from nova_pinning.model import hostclass

pinning_group = cfg.OptGroup(
    'pinning',
    title='Options of nova-pinning',
    help="""
What nova-pinning's scheduler filters and weighers do. They are read by
nova-scheduler, so set them in its nova.conf.
""")

filter_opts = [
    cfg.StrOpt(
        'mode',
        default='enforce',
        mutable=True,
        choices=[
            ('enforce', 'Refuse hosts, and weigh them'),
            ('observe', 'Refuse none and weigh none; log and count where '
                        'that would have made a difference')],
        help="""
Whether the filters and weighers act, or only say what they would do.

With ``observe`` they can be enabled beside nova's NUMATopologyFilter without
any risk: every host passes, nothing that other filters or nova read is
changed, and all hosts weigh the same. Each request is judged all the same, by
nova's own filter too, and where the two differ the log and the metrics say so
with the host and the reason. That takes as long as nova's filter takes once
more. Set it to begin with, and to ``enforce`` once what is said is as wanted.
"""),
    cfg.StrOpt(
        'unknown_host_class',
        default=hostclass.BY_GUESTS,
        mutable=True,
        choices=[
            (hostclass.BY_GUESTS, 'Treat the host as what its guests are'),
            ('allow', 'Take any guest'),
            ('refuse', 'Take no guest'),
            ('dedicated', 'Treat the host as dedicated'),
            ('shared', 'Treat the host as shared')],
        help="""
What HostClassFilter does with a host whose class is not known from anything:
no aggregate with ``pinning:class``, no trait of a class, and a NUMA topology
that allows both pinned and floating vCPUs on the same CPUs or is missing.

By default such a host is dedicated while guests are pinned to its CPUs, and
shared otherwise, an empty one included. If others are seen to float over CPUs
that guests are pinned to, it takes no guest until it is marked.

Set this to ``refuse`` once every host is marked, so that a new host takes no
guest before somebody has decided what it is for; set it to ``allow`` only
where guests of both classes may share CPUs.
"""),
    cfg.StrOpt(
        'on_error',
        default='by-class',
        mutable=True,
        choices=[
            ('by-class', 'Refuse the host for dedicated guests, pass it for '
                         "shared ones; after a failed self-test, go by nova's "
                         'own NUMATopologyFilter for all'),
            ('refuse', 'Refuse the host'),
            ('pass', 'Pass the host')],
        help="""
What a filter does with a host on which it met an unexpected error, and with
all hosts if its self-test at start-up failed. The error is logged once, with
the host's name, and again every hour with how often it came.

The default keeps a fault from putting a pinned guest where it does not fit
while shared guests go on to be scheduled, and a new nova whose fit is another
from refusing all guests. Set it to ``refuse`` where no guest may be placed by
a fit with known defects, and to ``pass`` only to get a cloud going again while
a fault is being looked into.
"""),
    cfg.BoolOpt(
        'check_nova_claim',
        default=True,
        mutable=True,
        help="""
Whether PinnedTopologyFilter also predicts what nova's own NUMA fit makes of
guests which that is known to get wrong: guests of several cells that differ,
mixed CPU policy, PCI devices or NUMA-aware networks; any guest with page size
``small``, ``large`` or ``any``, or with isolated threads and isolated emulator
threads; and hosts with odd sibling lists. Nova-compute claims CPUs with that
function, so a host on which it would go wrong is refused, with a reason that
says so.

A host on which only a second attempt would go wrong, after a claim elsewhere
was aborted, is used where no other is left. So is one on which the claim
would take longer than ``nova_claim_max_seconds``.

Turn this off when the nova of all compute hosts is fixed; the guests in
question then get hosts that they were refused before.
``nova_claim_max_seconds`` has no effect then.
"""),
    cfg.FloatOpt(
        'nova_claim_max_seconds',
        default=1.0,
        min=0.0,
        mutable=True,
        help="""
How many seconds nova-compute's claim may take for a guest of several NUMA
cells. A host on which it would take longer is used only where no other is
left: nova-compute does nothing else in the meantime.

The time is calculated from the permutations of host cells that nova would walk
through, 450,000 a second, and from how often it would look through the PCI
devices, 0.12 ms for each cell and each free device of the host.

Raise this if guests of many cells find their hosts only among the last and
slow claims are acceptable.
"""),
    cfg.FloatOpt(
        'request_budget_seconds',
        default=5.0,
        min=0.0,
        mutable=True,
        help="""
How many seconds a request may spend in all on what can take long: the search
for sets of host cells near PCI devices and networks, and following nova's own
fit for ``check_nova_claim``. A host that was not looked at to the end by then
is refused, with a reason that says so. If no host is left for that, such
hosts get as many steps again. 0: no limit.

The time is reckoned from the steps of the search, 10,000 a second, so the
answer is the same however busy the machine is. A step is a set of host cells
that is looked at, or up to 64 permutations of them in nova's fit.

Raise it if requests are refused for that reason; nova-conductor waits for an
answer as long as ``rpc_response_timeout`` says.
"""),
]

metrics_opts = [
    cfg.StrOpt(
        'metrics_directory',
        help="""
Directory in which each nova-scheduler process keeps a file about itself,
``nova-pinning-PID.prom``: metrics as Prometheus text for the textfile
collector of a node exporter. The directory must exist and nova-scheduler must
be able to write to it. It takes nova-pinning[metrics], without which
nova-scheduler does not start. If unset, there are no metrics; set it to learn
of trouble before your customers do.
"""),
    cfg.IntOpt(
        'metrics_interval_seconds',
        default=15,
        min=1,
        help="""
How often that file is written, if anything has changed. Lower it where
what reads it does so more often.
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
Placement does not answer the queries for them. When they are older,
HostClassFilter refuses dedicated guests on hosts whose class no aggregate
names, and says so; shared guests go on to be scheduled by the traits that were
read last. Where none have been read since the start, the NUMA topology of a
host has to tell its class instead; and where no host had any when they were
read last, there is nothing that could get too old. 0: traits never get too
old. Other values must be at least twice ``traits_refresh_seconds``.

An hour outlasts an upgrade of Placement, and few hosts change their class
in that time. Lower it if hosts often do; set it to 0 if an outage must never
stop dedicated guests.
"""),
]

weigher_opts = [
    cfg.FloatOpt(
        'fragmentation_weight_multiplier',
        default=8.0,
        mutable=True,
        help="""
Weight of FragmentationWeigher, which prefers the host on which placing the
guest strands the fewest CPUs that could otherwise still be sold. Weights are
relative to those of nova's weighers, most of which have 1.0: by default this
one outweighs those of them that spread guests. They still choose among hosts
that are alike to it, so set ``ram_weight_multiplier`` to 0 where dedicated
hosts are to be sold in full.

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
default 1; sizes count by the square of their vCPUs). For example::

    fragmentation_mix = vcpus:8,memory_mib:16384,thread_policy:require,weight:3
    fragmentation_mix = vcpus:16,memory_mib:32768,thread_policy:require

If unset, the mix is that of the most recent requests. Set it where the sizes
on sale are known, or several schedulers should decide alike.
"""),
    cfg.FloatOpt(
        'cache_locality_weight_multiplier',
        default=4.0,
        mutable=True,
        help="""
Weight of CacheLocalityWeigher, which prefers hosts on which the guest's CPUs
lie in the fewest L3 domains.

Raise it where guests are sensitive to cache and L3 domains are small; 0
switches the weigher off. A host aggregate's metadata key of the same name
overrides it for its hosts.
"""),
    cfg.BoolOpt(
        'prefer_exclusive_l3',
        default=False,
        mutable=True,
        deprecated_name='exclusive_l3',
        help="""
Whether CacheLocalityWeigher also avoids L3 domains in which others run:
guests that have CPUs there, or vCPUs and emulator threads that float over
shared CPUs there. Domains of the guest in which others run then count three
times. It is a preference: a guest gets such domains where nothing better is
left, and nothing keeps others from coming later.

Turn it on where neighbours that trash the cache are a worse problem than
hosts that fill unevenly.
"""),
]

_OPTS = filter_opts + metrics_opts + traits_opts + weigher_opts


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Make the options known to conf; registering twice does no harm."""
    conf.register_group(pinning_group)
    conf.register_opts(_OPTS, group=pinning_group)


def values(conf: cfg.ConfigOpts, names: Iterable[str]) -> list[Any]:
    """Options as they are now.

    :raises oslo_config.cfg.ConfigFileValueError: if one is wrong, naming it
    """
    # To look the group up takes as long as to look up an option.
    group = conf.pinning
    found = []
    for name in names:
        value = getattr(group, name)
        if isinstance(value, float) and not math.isfinite(value):
            raise cfg.ConfigFileValueError(
                f'[pinning] {name} = {value}: a number is needed')
        found.append(value)
    return found


def check(conf: cfg.ConfigOpts) -> None:
    """Read each option once, so that a wrong one ends the start-up.

    oslo.config looks at a value in a file only when it is asked for.

    :raises oslo_config.cfg.ConfigFileValueError: naming the option
    """
    values(conf, [opt.dest for opt in _OPTS])
    refresh = conf.pinning.traits_refresh_seconds
    max_age = conf.pinning.traits_max_age_seconds
    if 0 < max_age < 2 * refresh:
        raise cfg.ConfigFileValueError(
            f'[pinning] traits_max_age_seconds = {max_age}: must be 0 or at '
            f'least twice traits_refresh_seconds, which is {refresh}')


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    return {pinning_group: _OPTS}
