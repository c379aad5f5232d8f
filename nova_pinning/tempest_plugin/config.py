# SPDX-License-Identifier: Apache-2.0
"""The options of the plugin, in group ``[pinning]`` of tempest.conf."""

from oslo_config import cfg

from nova_pinning.tempest_plugin import hosts

GROUP = cfg.OptGroup('pinning', title='Pinning of guests to host CPUs')

OPTIONS = [
    cfg.StrOpt(
        'host_command',
        default='ssh {host}',
        help="""
How commands are run on a compute host. ``{host}`` becomes the name of the
nova-compute service, or what ``host_addresses`` has for it. What is to be run
is added as one more argument, quoted for a shell, as ssh takes it.

The commands read files below /proc and /sys and call virsh. Where that takes
root, say so here: ``ssh {host} sudo``.
"""),
    cfg.DictOpt(
        'host_addresses',
        default={},
        help="""
Addresses of compute hosts by name, for hosts that are not reached under the
name of their nova-compute service.
"""),
    cfg.StrOpt(
        'virsh_command',
        default='virsh -c qemu:///system',
        help="""
How virsh is called on a compute host, for example
``docker exec nova_libvirt virsh``.
"""),
    cfg.MultiOpt(
        'cpu_sets',
        item_type=hosts.CpuSetsType(),
        help="""
Which CPUs nova-compute was given on a host, one option a host::

    cpu_sets = compute-1 dedicated=2-7,10-15 shared=0-1
    cpu_sets = compute-2 shared=0-15

These are ``[compute] cpu_dedicated_set`` and ``cpu_shared_set`` in nova.conf
of the host. Hosts that are not named are not tested on.
"""),
    cfg.StrOpt(
        'scheduler_log_command',
        default='',
        help="""
A shell command that prints the log of nova-scheduler to the test, for example
``cat /var/log/nova/nova-scheduler.log`` or ``journalctl -u devstack@n-sch
--since -1h``. Without it, the reasons of refused boots are not looked at.
"""),
    cfg.StrOpt(
        'pci_alias',
        default='',
        help="""
The alias, in ``[pci] alias`` of nova.conf, of a PCI device that may be passed
through to guests. Without it, tests with PCI devices are skipped.
"""),
    cfg.BoolOpt(
        'may_mark_hosts',
        default=False,
        help="""
Whether tests may change the traits and aggregates of compute hosts, and
disable one, while they run. They put everything back, but guests that others
boot meanwhile may be refused.
"""),
    cfg.IntOpt(
        'traits_seconds',
        default=90,
        min=0,
        help="""
How long nova-scheduler may take to hear of a trait that has changed, somewhat
more than ``[pinning] traits_refresh_seconds`` in its nova.conf. A guest that a
changed host is to take is booted again for so long.
"""),
    cfg.BoolOpt(
        'isolated_aggregates',
        default=False,
        help="""
Whether ``[scheduler] enable_isolated_aggregate_filtering`` is on in nova.conf
of nova-scheduler.
"""),
]
