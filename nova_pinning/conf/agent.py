# SPDX-License-Identifier: Apache-2.0
"""The options of nova-pinning agent, which has a file of its own."""

from oslo_config import cfg

agent_group = cfg.OptGroup(
    'agent',
    title='Options of nova-pinning agent',
    help="""
What the daemon on compute hosts takes care of. It reads them when it is
started.
""")

agent_opts = [
    cfg.StrOpt(
        'plan',
        default='/etc/nova-pinning/plan.yaml',
        help="""
The plan of this host, as ``nova-pinning host plan`` has written it.

The agent gives CPUs only as the plan says. Set this if the plan is kept
elsewhere.
"""),
    cfg.StrOpt(
        'libvirt_state',
        default='/run/libvirt/qemu',
        help="""
The directory where libvirt keeps what it knows of guests that run.

Set this where libvirt runs in a container whose ``/run/libvirt`` the host has
elsewhere, such as in ``/run/kolla/libvirt``.
"""),
    cfg.StrOpt(
        'catalogue',
        default='',
        help="""
A catalogue of flavors, from which the agent learns what guests ask for.

From 2025.2 on nova writes that into the XML of each guest, and this is not
needed. Set it for guests of an older nova: only the name of their flavor is
known.
"""),
    cfg.BoolOpt(
        'cache',
        default=True,
        help="""
Whether guests get the ways of caches and the memory bandwidth that their
flavors ask for.

Turn it off where something else divides the caches, such as libvirt's
``cachetune``.
"""),
    cfg.IntOpt(
        'kept_ways',
        default=1,
        min=1,
        help="""
Ways of each L3 cache that no guest gets for itself, at the least.

The host itself and all guests without ways of their own share them, and those
that devices use. Raise it on hosts with many such guests, and reserve as many
of the CUSTOM_L3_WAYS that the host's provider.yaml has, so that Placement does
not give them away.
"""),
    cfg.BoolOpt(
        'interrupts',
        default=True,
        help="""
Whether emulator threads, vhost and the interrupts that serve pinned guests
are kept on CPUs that share the guests' L3 caches.

Turn it off to leave all of them where ``nova-pinning host render`` has put
them.
"""),
    cfg.StrOpt(
        'floating_guests',
        default='auto',
        choices=[
            ('auto', 'Keep them at home, except for what the kernel does'),
            ('on', 'Keep them at home, whatever the kernel does'),
            ('off', 'Leave them to the kernel')],
        help="""
Whether guests that float are kept in some L3 domains, their home.

With ``auto`` guests that fit into one domain are left to the kernel where it
has cache-aware scheduling (Linux 7.2, CONFIG_SCHED_CACHE).
"""),
    cfg.IntOpt(
        'moves_per_hour',
        default=6,
        min=0,
        help="""
How many floating guests may get another home within an hour.

A move costs the guest what it has in caches. Lower it where loads change from
minute to minute.
"""),
    cfg.IntOpt(
        'interval_seconds',
        default=30,
        min=1,
        max=3600,
        help="""
How often the agent looks whether all is as it is to be.

Besides, it looks when guests come, go or change. Lower it where something
else keeps changing affinities.
"""),
    cfg.StrOpt(
        'metrics_file',
        default='',
        help="""
A file for the textfile collector of Prometheus, such as
``/var/lib/node_exporter/textfile/nova-pinning-agent.prom``.

It has the use of caches and memory bandwidth by guest. Set it to learn which
guest disturbs the others.
"""),
    cfg.StrOpt(
        'record',
        default='/run/nova-pinning/agent.json',
        help="""
What the agent has changed, for its next start and for ``nova-pinning host
check``.

It has to be in a directory that is empty after a boot.
"""),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Make the options known to conf."""
    conf.register_group(agent_group)
    conf.register_opts(agent_opts, group=agent_group)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """What oslo-config-generator reads."""
    return [(agent_group, agent_opts)]
