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

"""openstack pinning host list, show, set."""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import functools
import json
from typing import Any

from nova_pinning.cli import base as cli_base
from nova_pinning.cli import options
from nova_pinning import errors
from nova_pinning.model import hostclass
from nova_pinning.osc import applying
from nova_pinning.osc import base
from nova_pinning.osc import show_host
from nova_pinning.segregation import change
from nova_pinning.segregation import model

_CLASSES = (*map(str, hostclass.HostClass), show_host.NONE)


class _HostCommand(base.Command):

    def _print_json(self, **content: Any) -> None:
        print(json.dumps({'version': 1, 'cloud': self.cloud.name, **content},
                         indent=2))


class ListHosts(_HostCommand):
    """List hosts with their class, as each source tells it.

    The class is 'unclear' where the sources do not agree. 'trait' is the one
    of the host's resource provider, 'aggregates' what pinning:class of the
    aggregates says, and 'isolation' what their trait:...=required does. L3
    CPUs is how many CPUs share an L3 cache, if a trait tells.
    """

    epilog = """
        Example::

          openstack --os-cloud north pinning host list --class none
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('--class', dest='host_class',
                            choices=(*_CLASSES, show_host.UNCLEAR),
                            help='only hosts of this class, or of none, or '
                            'on which the sources do not agree')
        options.add_format(parser, 'table', 'json')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        hosts = self.host_cloud.hosts()
        if parsed_args.host_class:
            hosts = tuple(host for host in hosts if show_host.verdict(host)
                          == parsed_args.host_class)
        if parsed_args.format == 'json':
            self._print_json(hosts=list(map(show_host.as_dict, hosts)))
        else:
            show_host.table(hosts, cli_base.console())
        return cli_base.OK


class ShowHost(_HostCommand):
    """Show all that tells a host's class, and whether it agrees.

    With the CPUs that its resource provider offers, its servers by class, and
    what to do about a disagreement.
    """

    epilog = """
        Example::

          openstack --os-cloud north pinning host show cmp-d-1
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('host', metavar='HOST',
                            help="the compute service's name")
        options.add_format(parser, 'table', 'json')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        hosts = change.find_hosts([parsed_args.host],
                                  self.host_cloud.hosts())
        details = [self._detail(host) for host in hosts]
        if parsed_args.format == 'json':
            self._print_json(
                hosts=list(map(show_host.detail_as_dict, details)))
        else:
            for detail in details:
                show_host.show_detail(detail, cli_base.console())
        return cli_base.OK

    def _detail(self, host: model.Host) -> show_host.Detail:
        cloud = self.host_cloud
        return show_host.Detail(
            host,
            None if host.traits is None
            else cloud.placement.inventories(host.provider),
            tuple(change.settled(cloud, one)
                  for one in cloud.servers(host.name)))


class SetHost(_HostCommand):
    """Turn hosts to a class, or to none.

    Sets the trait of each host's resource provider, and takes the host out of
    aggregates that say something else. A host is left as it is while servers
    of the other class run on it. Looks for such servers again afterwards,
    since one may have been on its way.

    Ends in status 1 if anything is left to do. Can be run again at any time.
    """

    epilog = """
        Examples::

          openstack pinning host set --class dedicated cmp-d-1 cmp-d-2
          openstack pinning host set --class shared --aggregate shared cmp-s-1
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('hosts', metavar='HOST', nargs='+',
                            help='names of compute services')
        parser.add_argument('--class', dest='host_class', required=True,
                            choices=_CLASSES, help='what they are to be')
        parser.add_argument('--aggregate', metavar='NAME',
                            help='put them into this aggregate too, which '
                            'must be for hosts of the class')
        parser.add_argument('--no-trait', action='store_true',
                            help='leave traits as they are, where '
                            'provider.yaml or other tools set them')
        parser.add_argument('--force', action='store_true',
                            help='also while servers of the other class run '
                            'on them')
        parser.add_argument('--dry-run', action='store_true',
                            help='only show what would change; status 1 if '
                            'anything would')
        options.add_format(parser, 'text', 'json')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        host_class = _class(parsed_args.host_class)
        hosts = change.find_hosts(parsed_args.hosts, self.host_cloud.hosts())
        aggregate = None
        if parsed_args.aggregate is not None:
            aggregate = self._aggregate(parsed_args.aggregate)
            change.check_aggregate(aggregate, host_class)
        changes = [change.plan(host, host_class, aggregate,
                               keeps_traits=parsed_args.no_trait)
                   for host in hosts]
        if parsed_args.dry_run:
            return self._dry_run(changes, parsed_args)
        return self._apply(changes, parsed_args)

    def _aggregate(self, name: str) -> model.Aggregate:
        known = {one.name: one for one in self.host_cloud.aggregates()}
        if name not in known:
            raise errors.InputError(
                f'there is no aggregate {name}',
                errors.Location('--aggregate'), change.nearest(name, known))
        return known[name]

    def _dry_run(self, changes: Sequence[change.Change],
                 parsed_args: argparse.Namespace) -> int:
        crowds = [change.strangers(self.host_cloud, one.host, one.host_class)
                  for one in changes]
        if parsed_args.format == 'json':
            self._print_json(changes=[
                show_host.change_as_dict(one) | {
                    'strangers': list(map(show_host.server_as_dict, crowd))}
                for one, crowd in zip(changes, crowds, strict=True)])
        else:
            for one, crowd in zip(changes, crowds, strict=True):
                show_host.show_change(one, crowd, cli_base.console(),
                                      parsed_args.force)
        is_done = (parsed_args.force or not any(crowds)) and not any(
            one.is_needed or one.kept for one in changes)
        return cli_base.OK if is_done else cli_base.FINDINGS

    def _apply(self, changes: Sequence[change.Change],
               parsed_args: argparse.Namespace) -> int:
        results: list[change.Result] = []
        is_text = parsed_args.format == 'text'
        turned: Iterator[change.Result] = map(functools.partial(
            change.apply, self.host_cloud, is_forced=parsed_args.force),
            changes)
        try:
            with applying.interruptible(results, len(changes), 'hosts'):
                for result in applying.with_progress(turned, len(changes),
                                                     'hosts'):
                    results.append(result)
                    if is_text:
                        show_host.show_result(result, cli_base.console())
        finally:
            if not is_text:
                self._print_json(
                    results=list(map(show_host.result_as_dict, results)))
        if is_text and len(results) > 1:
            print(show_host.totals(results))
        return show_host.exit_status(results)


def _class(name: str) -> hostclass.HostClass | None:
    return None if name == show_host.NONE else hostclass.HostClass(name)
