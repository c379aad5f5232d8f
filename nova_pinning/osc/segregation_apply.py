# SPDX-License-Identifier: Apache-2.0
"""openstack pinning segregation apply."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent import futures
from typing import Any

import rich.console
import rich.text

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning import errors
from nova_pinning.osc import applying
from nova_pinning.osc import base
from nova_pinning.osc import show_host
from nova_pinning.presentation import flavor_changes
from nova_pinning.presentation import printing
from nova_pinning.segregation import class_change
from nova_pinning.segregation import segregation_model
from nova_pinning.segregation import site_apply
from nova_pinning.segregation import site_file
from nova_pinning.segregation import site_plan

#: Servers on a host that keep it as it is, by its provider's UUID.
_Held = dict[str, tuple[segregation_model.HostedServer, ...]]

#: Hosts that are looked at at a time.
_SIDE_BY_SIDE = 8


class ApplySegregation(base.CloudCommand):
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
        parser.add_argument('--force', action='store_true',
                            help='turn hosts also while servers of the other '
                                 'class are on them')
        common_options.add_format(parser, 'text', 'json')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        site = site_file.load(parsed_args.site)
        made = self._plan(site)
        base_command.tell('warning', made.warnings)
        is_text = parsed_args.format == 'text'
        held: _Held = {}
        if not parsed_args.yes or parsed_args.dry_run:
            held = self._held(made)
        if is_text:
            self._show(made, held, parsed_args)
        elif parsed_args.dry_run:
            self.print_document(site=parsed_args.site,
                                changes=_changes_as_dicts(made, held))
        if parsed_args.dry_run:
            return base_command.FINDINGS if made.changes else base_command.OK
        if made.changes and not parsed_args.yes:
            if not applying.is_agreed(self.cloud.name, parsed_args.format):
                return base_command.FINDINGS
            # The question may have stood there for long.
            if self._plan(site) != made:
                raise errors.CloudError(
                    'its hosts have changed since, so nothing was done; run '
                    'the command again')
        return self._apply(made, parsed_args)

    def _plan(self, site: site_file.Site) -> site_plan.SitePlan:
        return site_plan.plan(site, site_plan.read(site, self.host_cloud))

    def _held(self, made: site_plan.SitePlan) -> _Held:
        """What keeps hosts as they are, unless they are forced."""
        def strangers(
            change: site_plan.HostChange,
        ) -> tuple[str, tuple[segregation_model.HostedServer, ...]]:
            return change.host.provider, class_change.strangers(
                self.host_cloud, change.host, change.turn.host_class)

        changes = made.host_changes
        pool = futures.ThreadPoolExecutor(_SIDE_BY_SIDE, 'hosts')
        try:
            return dict(applying.with_progress(
                pool.map(strangers, changes), len(changes),
                'looking for servers'))
        finally:
            pool.shutdown(cancel_futures=True)

    def _show(self, made: site_plan.SitePlan, held: _Held,
              parsed_args: argparse.Namespace) -> None:
        console = base_command.console()
        for aggregate_change in made.aggregate_changes:
            _print_change(console, _aggregate_head(aggregate_change), [
                ('+', f'{key}={value}')
                for key, value in aggregate_change.metadata.items()])
        for group in _alike(made.host_changes):
            _print_change(console, _group_head(group), _steps(group[0]))
        for host in made.host_changes:
            servers = held.get(host.host.provider)
            if servers:
                what = ('turned all the same' if parsed_args.force
                        else 'left as it is')
                _print_change(console, f'{host.host.name} would be {what}: '
                                       f'{show_host.crowd(servers)}')
                show_host.show_servers(servers, console)
        console.print(
            f'site {parsed_args.site}, cloud {self.cloud.name}: '
            f'{len(made.aggregate_changes)} of {len(made.aggregates)} '
            f'aggregates and {len(made.host_changes)} of {len(made.hosts)} '
            'hosts to change', soft_wrap=True)

    def _apply(self, made: site_plan.SitePlan,
               parsed_args: argparse.Namespace) -> int:
        total = len(made.changes)
        results = self.carry_out(
            site_apply.apply(made, self.host_cloud,
                             is_forced=parsed_args.force),
            total, 'changes', parsed_args.format, _print_result,
            _result_as_dict, site=parsed_args.site)
        left = sum(not result.is_fine for result in results)
        if parsed_args.format == 'text':
            print(f'{total - left} of {total} done' if total
                  else 'nothing to do')
        return base_command.FINDINGS if left else base_command.OK


# For people.

def _aggregate_head(change: site_plan.AggregateChange) -> str:
    does = 'update' if change.live else 'create'
    return f'{does} aggregate {change.kept.name}'


def _alike(
    changes: Sequence[site_plan.HostChange],
) -> Iterator[list[site_plan.HostChange]]:
    """Hosts of one group for which the same is to be done."""
    groups: dict[object, list[site_plan.HostChange]] = {}
    for change in changes:
        groups.setdefault((change.group, *_steps(change)),
                          []).append(change)
    yield from groups.values()


def _group_head(group: Sequence[site_plan.HostChange]) -> str:
    first = group[0]
    names = ', '.join(change.host.name for change in group)
    return f'{first.group}: {_class_text(first)}: {names}'


def _steps(change: site_plan.HostChange) -> list[tuple[str, str]]:
    return show_host.steps(change.turn, change.joins)


def _print_change(console: rich.console.Console, head: str,
                  steps: Iterable[tuple[str, str]] = ()) -> None:
    for line in printing.wrap(head, console.width, '', '  '):
        printing.title(line, console)
    flavor_changes.show_steps(steps, console)


def _print_result(result: site_apply.Result) -> None:
    console = base_command.console()
    console.print(_result_line(result), soft_wrap=True)
    if isinstance(result, site_apply.HostResult):
        show_host.show_servers(
            (*result.result.strangers, *result.result.left), console)


def _result_line(result: site_apply.Result) -> str:
    if isinstance(result, site_apply.AggregateResult):
        head = _aggregate_head(result.change)
        return (f'failed to {head}: {result.message}' if result.message
                else f'{head}: done')
    done = result.result
    name = result.change.host.name
    if done.status is class_change.ChangeStatus.FAILED:
        return f'{name}: failed: {done.message}'
    if done.status is class_change.ChangeStatus.REFUSED:
        return (f'{name}: left as it is, '
                f'{show_host.crowd(done.strangers)}; move '
                f'{"it" if len(done.strangers) == 1 else "them"} first, or '
                'give --force')
    line = f'{name}: {_class_text(result.change)}'
    if done.strangers or done.left:
        line += f', but with {show_host.crowd((*done.strangers, *done.left))}'
    return line


def _class_text(change: site_plan.HostChange) -> str:
    return str(change.turn.host_class or 'no class')


# For machines.

def _changes_as_dicts(made: site_plan.SitePlan,
                      held: _Held) -> dict[str, list[dict[str, Any]]]:
    return {
        'aggregates': [_aggregate_as_dict(aggregate_change)
                       for aggregate_change in made.aggregate_changes],
        'hosts': [
            _host_as_dict(host_change) | {'strangers': [
                show_host.server_as_dict(server)
                for server in held.get(host_change.host.provider, ())]}
            for host_change in made.host_changes]}


def _aggregate_as_dict(change: site_plan.AggregateChange) -> dict[str, Any]:
    return {'aggregate': change.kept.name, 'create': change.live is None,
            'metadata': dict(change.metadata)}


def _host_as_dict(change: site_plan.HostChange) -> dict[str, Any]:
    return show_host.change_as_dict(change.turn) | {
        'provider': change.host.provider,
        'group': change.group,
        'class': show_host.class_name(change.turn.host_class),
        'join_aggregates': list(change.joins)}


def _result_as_dict(result: site_apply.Result) -> dict[str, Any]:
    if isinstance(result, site_apply.AggregateResult):
        return _aggregate_as_dict(result.change) | {
            'status': str(result.status), 'message': result.message}
    return _host_as_dict(result.change) | show_host.outcome_as_dict(
        result.result)
