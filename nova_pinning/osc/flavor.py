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

"""openstack pinning flavor check, diff, apply, export."""

import argparse
from collections.abc import Iterable
from collections.abc import Sequence
import json

from nova_pinning.cli import base as cli_base
from nova_pinning.cli import checking
from nova_pinning.cli import options
from nova_pinning.cli import select
from nova_pinning import errors
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import export
from nova_pinning.flavors import sync
from nova_pinning.osc import applying
from nova_pinning.osc import base
from nova_pinning.osc import show


class _SyncCommand(base.Command):
    """A command about a catalogue and a cloud."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
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
        options.add_format(parser, 'text', 'json')
        return parser

    def _plan(self, sold: catalogue.Catalogue,
              parsed_args: argparse.Namespace) -> tuple[sync.Change, ...]:
        live = sync.read(self.cloud, sold.flavors, sold.name)
        changes = sync.plan(
            sold.flavors, live, sold.name, adopts=parsed_args.adopt,
            retires=not parsed_args.keep_unlisted)
        return sync.look_up_use(changes, self.cloud)

    def _show(self, changes: Sequence[sync.Change], sold: catalogue.Catalogue,
              parsed_args: argparse.Namespace) -> int:
        """Print what would change.

        :returns: the exit status
        """
        if parsed_args.format == 'json':
            print(json.dumps({
                **self._head(sold), 'changes': [
                    show.change_as_dict(change) for change in changes],
            }, indent=2))
        else:
            show.diff(changes, cli_base.console(), parsed_args.brief)
            print(f'catalogue {sold.name}, cloud {self.cloud.name}: '
                  f'{show.plan_totals(changes)}')
        return cli_base.FINDINGS if _differ(changes) else cli_base.OK

    def _head(self, sold: catalogue.Catalogue) -> dict[str, object]:
        return {'version': 1, 'catalogue': sold.name,
                'cloud': self.cloud.name}


class DiffFlavors(_SyncCommand):
    """Show how a cloud's flavors differ from a catalogue.

    Ends in status 1 if they do.
    """

    epilog = """
        Example::

          openstack --os-cloud north pinning flavor diff flavors.yaml
        """

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        sold = catalogue.load(parsed_args.catalogue)
        return self._show(self._plan(sold, parsed_args), sold, parsed_args)


class ApplyFlavors(_SyncCommand):
    """Bring a cloud's flavors in step with a catalogue.

    Shows what would change, asks, and does it. Flavors that do not belong to
    the catalogue are never touched. Ends in status 1 if something is left to
    do. Can be run again at any time.
    """

    epilog = """
        Example::

          openstack --os-cloud north pinning flavor apply flavors.yaml
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        applying.add_options(parser, 'only show what would change, as '
                             "'pinning flavor diff' does")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        sold = catalogue.load(parsed_args.catalogue)
        changes = self._plan(sold, parsed_args)
        if parsed_args.dry_run:
            return self._show(changes, sold, parsed_args)
        if parsed_args.format == 'text':
            self._show(changes, sold, parsed_args)
        if not parsed_args.yes and any(map(_is_to_do, changes)):
            if not applying.is_agreed(self.cloud.name, parsed_args.format):
                return cli_base.FINDINGS
            # The question may have stood there for long.
            if self._plan(sold, parsed_args) != changes:
                raise errors.CloudError(
                    'its flavors have changed since, so nothing was done; '
                    'run the command again')
        return self._apply(changes, sold, parsed_args.format)

    def _apply(self, changes: Sequence[sync.Change],
               sold: catalogue.Catalogue, form: str) -> int:
        results: list[sync.Result] = []
        to_do = [change for change in changes
                 if change.action is not sync.Action.UNCHANGED]
        try:
            with applying.interruptible(results, len(to_do), 'flavors'):
                for result in applying.with_progress(
                        sync.apply(to_do, self.cloud, sold.name),
                        len(to_do), 'flavors'):
                    results.append(result)
                    if form == 'text':
                        print(show.result_line(result), flush=True)
        finally:
            if form == 'json':
                print(json.dumps({
                    **self._head(sold), 'results': [
                        show.result_as_dict(result) for result in results],
                }, indent=2))
        if form == 'text' and to_do:
            print(show.result_totals(results))
        is_done = all(result.status is sync.Status.DONE
                      for result in results)
        return cli_base.OK if is_done else cli_base.FINDINGS


def _differ(changes: Iterable[sync.Change]) -> bool:
    return any(change.action is not sync.Action.UNCHANGED
               for change in changes)


def _is_to_do(change: sync.Change) -> bool:
    return not change.is_in_use and change.action not in (
        sync.Action.UNCHANGED, sync.Action.CONFLICT)


class CheckFlavors(base.Command):
    """Check a cloud's flavors, whoever made them.

    The rules are those of 'nova-pinning flavor check'. Ends in status 1 for
    errors and warnings.
    """

    epilog = """
        Example::

          openstack --os-cloud north pinning flavor check --hosts hosts/
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        checking.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        return checking.run(
            lambda: select.flavors(
                self.cloud.flavors(lambda flavor: False), parsed_args.names,
                f'cloud {self.cloud.name}'), parsed_args)


class ExportFlavors(base.Command):
    """Write a catalogue of a cloud's flavors.

    Applied with --adopt, it takes them over as they are.
    """

    epilog = """
        Example::

          openstack pinning flavor export --all --name north > north.yaml
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('names', metavar='NAME', nargs='*',
                            help='flavors or families to export')
        parser.add_argument('--all', action='store_true',
                            help='export all that there are')
        parser.add_argument('--name', metavar='CATALOGUE',
                            help='how the catalogue is to be called')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if bool(parsed_args.names) is parsed_args.all:
            raise errors.InputError(
                'either name the flavors to export or give --all')
        live = self.cloud.flavors(lambda flavor: True)
        flavors = sorted(
            select.flavors(live, parsed_args.names,
                           f'cloud {self.cloud.name}'),
            # A cloud lists them by their ids.
            key=lambda one: (one.vcpus, one.memory_mib, one.name))
        print(export.catalogue_text(flavors, parsed_args.name), end='')
        return cli_base.OK
