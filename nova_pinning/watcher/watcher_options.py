# SPDX-License-Identifier: Apache-2.0
"""The options in watcher.conf: where the state of the fleet is read from."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'pinning_watcher', 'The strategies of nova-pinning',
    help="Where pinning_defragmentation and pinning_drain read hosts and "
         "guests from, since Watcher's own model has no NUMA cells. If "
         "nothing is set here but host_files, that is the compute API and "
         "Placement, with the user of [watcher_clients_auth].")

OPTIONS = (
    cfg.StrOpt(
        'host_files', metavar='DIR',
        help='Directory with host files, which tell what the compute API does '
             'not: the cells of hosts and their CPUs. A host without one gets '
             'no guests and keeps its own. Set it unless snapshot or '
             'nova_conf is set; with nova_conf they tell L3 domains.'),
    cfg.ListOpt(
        'nova_conf', default=[], metavar='FILE,...',
        help="nova.conf of a controller, with what it reads besides. If set, "
             "hosts and guests are read from nova's databases, which is "
             "faster than the compute API and tells more, such as PCI "
             "devices. Set it where watcher-decision-engine may connect to "
             "these."),
    cfg.StrOpt(
        'snapshot', metavar='FILE',
        help='A snapshot of the fleet to read in place of the cloud. Set it '
             'where something else takes one often, such as nova-pinning '
             'fleet import nova on another machine.'),
    cfg.IntOpt(
        'snapshot_max_age_seconds', default=900, min=1,
        help='How old the snapshot may be; an audit with an older one fails. '
             'Raise it if snapshots are taken less often.'),
    cfg.StrOpt(
        'release', metavar='RELEASE',
        help='The nova, such as 2026.1, of hosts of which what is read does '
             'not tell it. Set it to have guests stay that its known bugs '
             'keep from being moved.'),
    cfg.BoolOpt(
        'isolated_aggregates', default=False,
        help='Have aggregates with trait:NAME=required take only guests that '
             'require the trait. Set it where nova has [scheduler] '
             'enable_isolated_aggregate_filtering.'),
    cfg.BoolOpt(
        'cross_zones', default=False,
        help='Let guests that were asked for in no availability zone leave '
             'that of their host, as nova does. Set it where zones do not '
             'matter to them.'),
    cfg.BoolOpt(
        'restarted', default=False,
        help='All guests were restarted since the last upgrade of nova. Set '
             'it then, and no bug that is about those that were not keeps '
             'guests from being moved.'),
)


def list_opts() -> list[tuple[cfg.OptGroup, tuple[cfg.Opt, ...]]]:
    """For oslo.config's generator and Sphinx extension."""
    return [(GROUP, OPTIONS)]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Have a configuration know them; again does no harm."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, GROUP)
