# SPDX-License-Identifier: Apache-2.0
"""openstack pinning flavor check, apply, export."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import sys
from typing import Any

import rich.console

from nova_pinning.bridge.offline import standalone
from nova_pinning.checks import check_rule
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import flavor_check
from nova_pinning.cli import select
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import export
from nova_pinning.flavors import flavor_cloud
from nova_pinning.flavors import host_separation
from nova_pinning.flavors import release_support
from nova_pinning.flavors import sync
from nova_pinning.flavors import sync_apply
from nova_pinning.model import nova_release
from nova_pinning.osc import applying
from nova_pinning.osc import base
from nova_pinning.presentation import flavor_changes

#: The rules about extra specs that nova-api does not take.
_REFUSED = ('N001', 'N101')


class ApplyFlavors(base.CloudCommand):
    """Bring a cloud's flavors in step with a catalogue.

    Shows what would change, asks, and does it. Flavors that do not belong to
    the catalogue are never touched. Ends in status 1 if something is left to
    do. Can be run again at any time.

    Examples::

      openstack --os-cloud north pinning flavor apply flavors.yaml --dry-run
      openstack --os-cloud north pinning flavor apply flavors.yaml
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('catalogue', metavar='CATALOGUE',
                            help='catalogue file (YAML or JSON)')
        parser.add_argument('--adopt', action='store_true',
                            help='take over flavors that belong to no '
                            'catalogue and have the name, vCPUs, memory and '
                            'disks of one in this catalogue; their extra '
                            'specs become those of the catalogue')
        parser.add_argument('--keep-unlisted', action='store_true',
                            help='leave flavors of this catalogue that it '
                            'no longer has, instead of deleting them')
        parser.add_argument('--brief', action='store_true',
                            help='a line for each flavor, without the keys '
                            'that differ')
        common_options.add_format(parser, 'text', 'json')
        applying.add_options(
            parser, 'only show what would change; ends in status 1 if '
                    'anything would')

    def _plan(self, differing: Iterable[sync.FlavorChange],
              sold: catalogue.Catalogue) -> tuple[sync.FlavorChange, ...]:
        changes = [sync.with_use(change, self.cloud) for change in differing]
        refusals = self._refusals(changes, sold.release)
        return tuple(
            dataclasses.replace(change, obstacle=refusals[change.name])
            if change.name in refusals and not change.is_cut_off else change
            for change in changes)

    def _differing(
            self, sold: catalogue.Catalogue,
            parsed_args: argparse.Namespace) -> tuple[sync.FlavorChange, ...]:
        live = sync.read(self.cloud, sold.flavors, sold.name)
        return sync.plan(
            sold.flavors, live, sold.name, adopts=parsed_args.adopt,
            retires=not parsed_args.keep_unlisted)

    def _refusals(
        self, changes: Iterable[sync.FlavorChange],
        release: nova_release.NovaRelease | None,
    ) -> dict[str, str]:
        """What nova would refuse of the extra specs that are to be set.

        :param release: the cloud's, None for what its compute API tells
        :returns: the first mistake of each flavor that has any, by its name
        """
        written = [
            dataclasses.replace(change.catalogue_flavor,
                                extra_specs=change.extra_specs_to_set)
            for change in changes
            if change.catalogue_flavor and change.extra_specs_to_set]
        if not written:
            return {}
        cloud = _cloud_release(self.cloud, release)
        # This loads most of nova.
        standalone.prepare()
        from nova_pinning.bridge.offline import nova_judgement
        from nova_pinning.flavors.checks import flavor_check_run
        found = flavor_check_run.make_report(
            flavor_check_run.check(written, nova_judgement.judging,
                                   cloud=cloud),
            written, self.cloud.name, cloud).findings
        return {
            finding.name: f'{finding.code}: {finding.message}'
            for finding in reversed(found)
            if finding.code in _REFUSED
            and finding.severity is check_rule.Severity.ERROR}

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        sold = catalogue.load_own(parsed_args.catalogue)
        differing = self._differing(sold, parsed_args)
        changes = self._plan(differing, sold)
        if parsed_args.format == 'text':
            console = base_command.console()
            diff(changes, console, parsed_args.brief)
            console.print(
                f'catalogue {sold.name}, cloud {self.cloud.name}: '
                f'{plan_totals(changes)}', soft_wrap=True)
        elif parsed_args.dry_run:
            self.print_document(catalogue=sold.name, changes=list(
                map(change_as_dict, changes)))
        if parsed_args.dry_run:
            return _status(changes)
        # Servers come and go while it is asked, and are looked for before
        # each change anyway.
        if any(change.is_to_do for change in changes) and not self.is_agreed(
                parsed_args, 'flavors',
                lambda: self._differing(sold, parsed_args) != differing):
            return base_command.FINDINGS
        return self._apply(changes, sold, parsed_args)

    def _apply(self, changes: Sequence[sync.FlavorChange],
               sold: catalogue.Catalogue,
               parsed_args: argparse.Namespace) -> int:
        to_do = list(filter(_differs, changes))

        def apply() -> Iterator[sync.FlavorResult]:
            done = []
            for result in sync_apply.apply(to_do, self.cloud, sold.name):
                done.append(result)
                yield result
            if to_do:
                yield from sync.lost(done, self._differing(sold, parsed_args))

        results = self.carry_out(
            apply(), len(to_do), 'flavors', parsed_args.format,
            lambda result: print(result_line(result), flush=True),
            result_as_dict, catalogue=sold.name)
        if parsed_args.format == 'text' and to_do:
            print(result_totals(results))
        is_done = all(result.status is sync.FlavorStatus.DONE
                      for result in results)
        return base_command.OK if is_done else base_command.FINDINGS


def _status(changes: Iterable[sync.FlavorChange]) -> int:
    return base_command.FINDINGS if any(map(_differs,
                                            changes)) else base_command.OK


def _differs(change: sync.FlavorChange) -> bool:
    return change.action is not sync.FlavorAction.UNCHANGED


class CheckFlavors(base.CloudCommand):
    """Check a cloud's flavors, whoever made them.

    The rules are those of 'nova-pinning flavor check'. What the cloud's
    release of nova does not have is told as far as its compute API tells the
    release; --release tells it better. Ends in status 1 if anything is found
    that --fail-on counts.

    Examples::

      openstack --os-cloud north pinning flavor check --host-files hosts/
      openstack pinning flavor check --release 2025.2
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        flavor_check.add_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        source = f'cloud {self.cloud.name}'
        return flavor_check.run(
            lambda: (select.named_flavors(
                self.cloud.flavors(lambda flavor: False), parsed_args.names,
                source), self._release(parsed_args),
                host_separation.DEFAULT), source, parsed_args)

    def _release(
            self, parsed_args: argparse.Namespace,
    ) -> release_support.CloudRelease:
        told = _cloud_release(self.cloud, parsed_args.release)
        if not told.releases:
            for remark in told.remarks:
                print(f'warning: {remark}', file=sys.stderr)
        return told


def _cloud_release(
    cloud: flavor_cloud.FlavorCloud, named: nova_release.NovaRelease | None,
) -> release_support.CloudRelease:
    """The release that somebody named, or what the compute API tells."""
    installed = standalone.nova_version()
    if named:
        return release_support.CloudRelease.of(named, installed)
    return release_support.of_compute_api(
        cloud.name, cloud.microversion(), installed)


class ExportFlavors(base.CloudCommand):
    """Write a catalogue of a cloud's flavors.

    Applied with --adopt, it takes them over as they are.

    Example::

      openstack pinning flavor export --name north > north.yaml
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('names', metavar='NAME', nargs='*',
                            help='flavors or families to export; all if none '
                            'is named')
        parser.add_argument('--name', metavar='NAME',
                            help='name of the catalogue')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        live = self.cloud.flavors(lambda flavor: True)
        flavors = sorted(
            select.named_flavors(live, parsed_args.names,
                                 f'cloud {self.cloud.name}'),
            # A cloud lists them by their ids.
            key=lambda flavor: (flavor.vcpus, flavor.memory_mib, flavor.name))
        print(export.catalogue_text(flavors, parsed_args.name), end='')
        return base_command.OK


_STYLES = {
    sync.FlavorAction.CREATE: 'green', sync.FlavorAction.UPDATE: 'yellow',
    sync.FlavorAction.ADOPT: 'yellow', sync.FlavorAction.REPLACE: 'yellow',
    sync.FlavorAction.RETIRE: 'red', sync.FlavorAction.CONFLICT: 'magenta'}

_DONE = {
    sync.FlavorAction.CREATE: 'created',
    sync.FlavorAction.UPDATE: 'updated',
    sync.FlavorAction.ADOPT: 'adopted',
    sync.FlavorAction.REPLACE: 'replaced',
    sync.FlavorAction.RETIRE: 'retired',
    sync.FlavorAction.UNCHANGED: 'unchanged'}


def diff(changes: Iterable[sync.FlavorChange], console: rich.console.Console,
         is_brief: bool = False) -> None:
    """Print what would change, a block for each flavor.

    :param is_brief: a line for each, without the keys
    """
    for change in changes:
        if change.action is sync.FlavorAction.UNCHANGED:
            continue
        style = _STYLES[change.action]
        stays = f'{change.obstacle}, so it stays as it is'
        reasons = [reason for reason in (
            change.reason, stays if change.obstacle else change.advice)
            if reason]
        head = f'{change.action} {change.name}'
        if reasons:
            head += f': {"; ".join(reasons)}'
        has_keys = (change.action is not sync.FlavorAction.CONFLICT
                    and not is_brief)
        flavor_changes.show(console, head, f'bold {style}',
                            change.differences if has_keys else ())


def plan_totals(changes: Sequence[sync.FlavorChange]) -> str:
    """One line: how many flavors are to be created and so on."""
    words = {sync.FlavorAction.CONFLICT: 'in conflict',
             sync.FlavorAction.UNCHANGED: 'unchanged'}
    counts = [(words.get(action, f'to {action}'), sum(
        change.action is action and not change.obstacle
        for change in changes)) for action in sync.FlavorAction]
    counts.append(('left as they are',
                   sum(bool(change.obstacle) for change in changes)))
    return ', '.join(f'{count} {word}' for word, count in counts
                     if count) or 'no flavors'


def result_line(result: sync.FlavorResult) -> str:
    """What became of a """
    change = result.change
    if result.status is sync.FlavorStatus.DONE:
        message = f': {result.message}' if result.message else ''
        return f'{_DONE[change.action]} {change.name}{message}'
    if result.status is sync.FlavorStatus.LOST:
        return f'lost {change.name}: {result.message}'
    if result.status is sync.FlavorStatus.SKIPPED:
        return f'left {change.name} as it is: {result.message}'
    return f'failed to {change.action} {change.name}: {result.message}'


def result_totals(results: Sequence[sync.FlavorResult]) -> str:
    """One line: how many flavors were created and so on."""
    done = [result.change.action for result in results
            if result.status is sync.FlavorStatus.DONE]
    counts = [(word, done.count(action)) for action, word in _DONE.items()]
    counts += [(word, sum(result.status is status
                          for result in results))
               for status, word in ((sync.FlavorStatus.SKIPPED,
                                     'left as they are'),
                                    (sync.FlavorStatus.FAILED, 'failed'),
                                    (sync.FlavorStatus.LOST, 'lost'))]
    return ', '.join(f'{count} {word}' for word, count in counts
                     if count) or 'no flavors'


def change_as_dict(change: sync.FlavorChange) -> dict[str, Any]:
    """A change for machines."""
    return {
        'action': str(change.action),
        'name': change.name,
        'id': change.live.id if change.live else None,
        'new_id': (change.catalogue_flavor.id if change.catalogue_flavor
                   and change.action in (sync.FlavorAction.CREATE,
                                         sync.FlavorAction.REPLACE) else None),
        'reason': change.reason,
        'in_use': bool(change.servers),
        'servers': list(change.servers),
        'obstacle': change.obstacle,
        'differences': [
            difference.as_dict() for difference in change.differences]}


def result_as_dict(result: sync.FlavorResult) -> dict[str, Any]:
    """A change and what became of it, for machines."""
    return change_as_dict(result.change) | {
        'status': str(result.status), 'message': result.message}
