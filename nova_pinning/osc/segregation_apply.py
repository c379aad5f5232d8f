# SPDX-License-Identifier: Apache-2.0
"""openstack pinning segregation apply."""

import argparse
from typing import Any

from nova_pinning.cli import base_command
from nova_pinning.osc import applying
from nova_pinning.osc import host
from nova_pinning.osc import show_host
from nova_pinning.segregation import class_change
from nova_pinning.segregation import site_apply
from nova_pinning.segregation import site_file
from nova_pinning.segregation import site_plan


class ApplySegregation(host.ChangeHosts):
    """Bring a cloud's hosts in step with a site file.

    The file says which hosts are dedicated and which are shared. Shows what
    would change, asks, and does it: traits of resource providers, and host
    aggregates. A host stays as it is while servers of the other class are on
    it. Ends in status 1 if something is left to do. Can be run again at any
    time.

    Examples::

      openstack --os-cloud north pinning segregation apply site.yaml \\
          --dry-run
      openstack --os-cloud north pinning segregation apply site.yaml
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('site', metavar='SITE',
                            help='site file (YAML or JSON)')
        applying.add_options(
            parser, 'only show what would change; ends in status 1 if '
                    'anything would')
        super().add_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        site = site_file.load(parsed_args.site)
        made = self._plan(site)
        base_command.tell('warning', made.warnings)
        crowds: show_host.Crowds = {}
        if not parsed_args.yes or parsed_args.dry_run:
            crowds = self.crowds(made.host_changes)
        if parsed_args.format == 'text':
            self._show(made, crowds, parsed_args)
        elif parsed_args.dry_run:
            self.print_document(site=parsed_args.site, changes={
                'aggregates': list(map(_aggregate_as_dict,
                                       made.aggregate_changes)),
                'hosts': [show_host.change_as_dict(change, crowds)
                          | _class_as_dict(change)
                          for change in made.host_changes]})
        if parsed_args.dry_run:
            return base_command.FINDINGS if made.changes else base_command.OK
        if made.changes and not self.is_agreed(
                parsed_args, 'hosts', lambda: self._plan(site) != made):
            return base_command.FINDINGS
        return self.finish(self.carry_out(
            site_apply.apply(made, self.host_cloud,
                             is_forced=parsed_args.force),
            len(made.changes), 'changes', parsed_args.format, _print_result,
            _result_as_dict, site=parsed_args.site), parsed_args.format)

    def _plan(self, site: site_file.Site) -> site_plan.SitePlan:
        return site_plan.plan(site, site_plan.read(site, self.host_cloud))

    def _show(self, made: site_plan.SitePlan, crowds: show_host.Crowds,
              parsed_args: argparse.Namespace) -> None:
        console = base_command.console()
        for change in made.aggregate_changes:
            show_host.print_change(console, _head(change), [
                ('+', f'{key}={value}')
                for key, value in change.metadata.items()])
        show_host.show_changes(made.host_changes, crowds, console,
                               parsed_args.force)
        console.print(
            f'site {parsed_args.site}, cloud {self.cloud.name}: '
            f'{len(made.aggregate_changes)} of {len(made.aggregates)} '
            f'aggregates and {len(made.host_changes)} of {len(made.hosts)} '
            'hosts to change', soft_wrap=True)


def _head(change: site_plan.AggregateChange) -> str:
    return f'{"update" if change.live else "create"} aggregate ' \
           f'{change.kept.name}'


def _print_result(result: site_apply.Result) -> None:
    console = base_command.console()
    if isinstance(result, class_change.ChangeResult):
        # Steps were shown before.
        show_host.show_result(result, console, has_steps=False)
        return
    head = _head(result.change)
    console.print(f'failed to {head}: {result.message}' if result.message
                  else f'{head}: done', soft_wrap=True)


def _aggregate_as_dict(change: site_plan.AggregateChange) -> dict[str, Any]:
    return {'aggregate': change.kept.name, 'create': change.live is None,
            'metadata': dict(change.metadata)}


def _class_as_dict(change: class_change.ClassChange) -> dict[str, Any]:
    return {'class': show_host.class_name(change.host_class)}


def _result_as_dict(result: site_apply.Result) -> dict[str, Any]:
    if isinstance(result, class_change.ChangeResult):
        return show_host.result_as_dict(result) | _class_as_dict(result.change)
    return _aggregate_as_dict(result.change) | {
        'status': str(result.status), 'message': result.message}
