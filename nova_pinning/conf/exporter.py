# SPDX-License-Identifier: Apache-2.0
"""The options of group [pinning_exporter]."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'pinning_exporter', 'nova-pinning exporter',
    help='What nova-pinning exporter reads, counts and serves. It reads them '
         'from the files that it is given with --config-file, which can be '
         'of its own. One of nova_conf, cloud and snapshot says where hosts '
         'and guests are read from.')

read_opts = [
    cfg.ListOpt(
        'nova_conf', default=[], metavar='FILE,...',
        help="nova.conf of a controller, with what it reads besides. If set, "
             "hosts and guests are read from nova's databases, and after the "
             "first time only what has changed there. A user of the database "
             "that may only read is enough. Set it where the exporter may "
             "connect to these; it tells more than the compute API, and "
             "faster."),
    cfg.StrOpt(
        'cloud', metavar='NAME',
        help='The cloud in clouds.yaml whose compute API and Placement are '
             'read, all of it each time, if nova_conf is not set. Set it '
             'where the databases cannot be reached, with host_files and a '
             'longer read_interval_seconds.'),
    cfg.StrOpt(
        'snapshot', metavar='FILE',
        help='A snapshot of the fleet to read in place of the cloud, each '
             'time that it is replaced. Set it where something else takes '
             'one often, such as nova-pinning fleet import nova on another '
             'machine.'),
    cfg.StrOpt(
        'host_files', metavar='DIR',
        help='Directory with host files. With cloud they tell the cells of '
             'hosts and their CPUs, which the API does not; with nova_conf '
             'they tell L3 domains.'),
    cfg.BoolOpt(
        'placement', default=False,
        help="Ask Placement what it has of hosts, as [placement] of nova_conf "
             "says: three requests for each provider, again where guests "
             "change. Set it where flavors ask for more than CPUs, memory "
             "and disk, or traits tell the class of hosts."),
    cfg.BoolOpt(
        'skip_down_cells', default=False,
        help="Go on without the hosts of cells whose database cannot be "
             "read. Without it, all figures stay as they were while one "
             "cell is down; with it they are those of the other cells. Set "
             "it where that is better than nothing."),
    cfg.FloatOpt(
        'read_interval_seconds', default=15.0, min=1.0,
        help='How long to wait between two readings. Lower it to see changes '
             'sooner, raise it to ask the database less often.'),
    cfg.FloatOpt(
        'full_read_interval_seconds', default=3600.0, min=1.0,
        help="How often everything is read from nova's databases again, "
             "traits and server groups too, whatever has changed. Lower it "
             "if hosts often change their traits."),
]

count_opts = [
    cfg.ListOpt(
        'flavors', default=[], metavar='PATTERN,...',
        help='Which flavors are counted, by name, with * for any characters: '
             'enterprise.*,batch.*. If unset, all. Set it where old flavors '
             'are kept that nobody is sold any more.'),
    cfg.IntOpt(
        'max_flavors', default=200, min=1,
        help='How many flavors are counted at most, so that there is an end '
             'to the number of series: those of most guests. How many are '
             'left out is a metric. Raise it if Prometheus can take more.'),
    cfg.FloatOpt(
        'plan_interval_seconds', default=3600.0, min=1.0,
        help='How often the figures are worked out that take long: mix, '
             'defragment and failover. Each runs in a process of its own, '
             'with low priority, on the fleet as it was read last. Raise it '
             'if that takes too much of a controller.'),
    cfg.FloatOpt(
        'plan_max_seconds', default=1800.0, min=1.0,
        help='How long each of them may take; it is ended then, and counts '
             'as an error. Raise it if that is too short for your fleet.'),
    cfg.BoolOpt(
        'mix', default=False,
        help='Count guests in a mix of all flavors as well, in the '
             'proportions of the guests that there are.'),
    cfg.ListOpt(
        'defragment', default=[], metavar='SIZE,...',
        help='Sizes, as nova-pinning rebalance plan --for has them, for '
             'which to tell how many more guests fit after moving '
             'others. Set it to the size that runs out first.'),
    cfg.IntOpt(
        'defragment_moves', default=25, min=1,
        help='How many guests are moved for that at most. Set it to what '
             'you are ready to move in a night.'),
    cfg.BoolOpt(
        'failover', default=False,
        help='Tell whether the fleet survives the loss of any one host, and '
             'how many empty hosts it is short of for that.'),
    cfg.StrOpt(
        'failover_by', default='host', metavar='WHAT',
        help="What is lost together: host, aggregate, or a key of "
             "aggregates' metadata such as rack. Set it to what shares a "
             "switch or a power supply."),
]

web_opts = [
    cfg.HostAddressOpt(
        'listen_address', default='127.0.0.1',
        help='Address to serve on, over plain HTTP and without a password. '
             'Leave it, and have a web server with both in front, where '
             'others than this machine read: the figures tell what the cloud '
             'has left, and the snapshot names guests and projects.'),
    cfg.PortOpt(
        'listen_port', default=9896,
        help='Port to serve on. Change it if something else has it.'),
    cfg.BoolOpt(
        'serve_snapshot', default=True,
        help='Serve the fleet as it was read last under /fleet.json.zst, '
             'for openstack pinning fleet import and rebalance plan. It names '
             'guests '
             'and projects; unset it where those who read the figures '
             'should not know them.'),
]

_OPTS = read_opts + count_opts + web_opts


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Make the options known to conf; registering twice does no harm."""
    conf.register_group(GROUP)
    conf.register_opts(_OPTS, group=GROUP)


def list_opts() -> dict[cfg.OptGroup, list[cfg.Opt]]:
    return {GROUP: _OPTS}
