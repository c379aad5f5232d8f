# SPDX-License-Identifier: Apache-2.0
"""openstack pinning host list, set."""

import argparse
from collections.abc import Sequence
from concurrent import futures

import rich.console

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import display
from nova_pinning import errors
from nova_pinning.host import words
from nova_pinning.model import hostclass
from nova_pinning.osc import applying
from nova_pinning.osc import base
from nova_pinning.osc import show_host
from nova_pinning.presentation import printing
from nova_pinning.segregation import class_change
from nova_pinning.segregation import segregation_model
from nova_pinning.segregation import site_apply
from nova_pinning import spelling

_CLASSES = (*map(str, hostclass.HostClass), show_host.NONE)
#: Hosts that are looked at at a time.
_SIDE_BY_SIDE = 8


class ListHosts(base.CloudLister):
    """List hosts with their class, as each source tells it.

    The class is 'unclear' where the sources do not agree. 'trait' is the one
    of the host's resource provider, 'aggregates' what pinning:class of the
    aggregates says, and 'isolation' what their trait:...=required does. L3
    CPUs is how many CPUs share an L3 cache, if a trait tells.

    Examples::

      openstack --os-cloud north pinning host list --class none
      openstack pinning host list --class dedicated -f value -c name
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('--class', dest='host_class',
                            metavar='CLASS',
                            choices=(*_CLASSES, show_host.UNCLEAR),
                            help='only hosts of this class: dedicated, '
                            'shared, none, or unclear where the sources do '
                            'not agree')

    def answer(self, parsed_args: argparse.Namespace) -> display.Answer:
        hosts = self.host_cloud.hosts()
        if parsed_args.host_class:
            hosts = tuple(host for host in hosts if show_host.verdict(host)
                          == parsed_args.host_class)
        table = show_host.hosts_table(hosts)

        def page(console: rich.console.Console) -> None:
            table.show(console)
            printing.say(show_host.host_totals(hosts), console)

        return display.Answer(
            table, page,
            lambda: self.document(hosts=list(map(show_host.as_dict, hosts))))


class ChangeHosts(base.CloudCommand):
    """A command that turns hosts to a class."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('--force', action='store_true',
                            help='turn hosts also while servers of the other '
                                 'class are on them')
        common_options.add_format(parser, 'text', 'json')

    def crowds(
        self, changes: Sequence[class_change.ClassChange],
    ) -> show_host.Crowds:
        """What keeps hosts as they are, unless they are forced."""
        def strangers(
            change: class_change.ClassChange,
        ) -> tuple[str, Sequence[segregation_model.HostedServer]]:
            return change.host.provider, class_change.strangers(
                self.host_cloud, change.host, change.host_class)

        pool = futures.ThreadPoolExecutor(_SIDE_BY_SIDE, 'hosts')
        try:
            return dict(applying.with_progress(
                pool.map(strangers, changes), len(changes),
                'looking for servers'))
        finally:
            pool.shutdown(cancel_futures=True)

    def finish(self, results: Sequence[site_apply.Result], form: str) -> int:
        """Tell how it went in all; returns the exit status."""
        if form == 'text' and len(results) != 1:
            print(show_host.totals(results))
        return (base_command.OK if all(result.is_fine for result in results)
                else base_command.FINDINGS)


class SetHost(ChangeHosts):
    """Turn hosts to a class, or to none.

    Sets the trait of each host's resource provider, and takes the host out of
    aggregates that say something else. A host is left as it is while servers
    of the other class run on it. Looks for such servers again afterwards,
    since one may have been on its way.

    Ends in status 1 if anything is left to do. Can be run again at any time.

    Examples::

      openstack pinning host set --class dedicated cmp-d-1 cmp-d-2
      openstack pinning host set --class shared --aggregate shared cmp-s-1
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('hosts', metavar='HOST', nargs='+',
                            help='names of compute services')
        parser.add_argument('--class', dest='host_class', required=True,
                            metavar='CLASS', choices=_CLASSES,
                            help='class that the hosts are to have: '
                            'dedicated, shared or none')
        parser.add_argument('--aggregate', metavar='NAME',
                            help='put them into this aggregate too, which '
                            'must be for hosts of the class')
        parser.add_argument('--no-trait', action='store_true',
                            help='leave traits as they are, where '
                            'provider.yaml or other tools set them')
        parser.add_argument('--dry-run', action='store_true',
                            help='only show what would change; status 1 if '
                            'anything would')
        super().add_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        host_class = (None if parsed_args.host_class == show_host.NONE
                      else hostclass.HostClass(parsed_args.host_class))
        hosts = class_change.find_hosts(parsed_args.hosts,
                                        self.host_cloud.hosts())
        aggregates = {}
        if parsed_args.aggregate is not None:
            aggregate = self._aggregate(parsed_args.aggregate)
            class_change.check_aggregate(aggregate, host_class)
            aggregates[aggregate.name] = aggregate
        changes = [class_change.plan_change(host, host_class, aggregates,
                                            keeps_traits=parsed_args.no_trait)
                   for host in hosts]
        if parsed_args.dry_run:
            return self._dry_run(changes, parsed_args)
        results = self.carry_out(
            (class_change.apply(self.host_cloud, change, aggregates,
                                is_forced=parsed_args.force)
             for change in changes),
            len(changes), 'hosts', parsed_args.format,
            lambda result: show_host.show_result(
                result, base_command.console(), has_steps=True),
            show_host.result_as_dict)
        return self.finish(results, parsed_args.format)

    def _aggregate(self, name: str) -> segregation_model.HostAggregate:
        known = {
            aggregate.name: aggregate
            for aggregate in self.host_cloud.aggregates()}
        if name not in known:
            raise errors.InputError(f'there is no aggregate {name}',
                                    errors.Location('--aggregate'),
                                    spelling.did_you_mean(name, known))
        return known[name]

    def _dry_run(self, changes: Sequence[class_change.ClassChange],
                 parsed_args: argparse.Namespace) -> int:
        crowds = self.crowds(changes)
        needed = sum(change.is_needed for change in changes)
        if parsed_args.format == 'json':
            self.print_document(changes=[
                show_host.change_as_dict(change, crowds)
                for change in changes])
        else:
            console = base_command.console()
            show_host.show_changes(changes, crowds, console,
                                   parsed_args.force)
            printing.say(f'{needed} of {words.count(len(changes), "host")} to '
                         'change', console)
        is_left = (needed or any(change.kept for change in changes)
                   or any(crowds.values()) and not parsed_args.force)
        return base_command.FINDINGS if is_left else base_command.OK
