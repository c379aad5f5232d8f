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

"""nova-pinning host check: whether a host obeys its plan."""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import sys
import time

import rich.progress

from nova_pinning.cli import base
from nova_pinning.cli import nova_conf as cli_nova_conf
from nova_pinning.cli import options
from nova_pinning.cli import reporting
from nova_pinning import errors
from nova_pinning.host.check import facts
from nova_pinning.host.check import finding
from nova_pinning.host.check import foreign
from nova_pinning.host.check import gather
from nova_pinning.host.check import report
from nova_pinning.host.check import rule
from nova_pinning.host.check import run
from nova_pinning.host.check import watch
from nova_pinning.host import load
from nova_pinning.host import model
from nova_pinning.host import tree as host_tree
from nova_pinning.reports import findings

_MAX_PID = 2 ** 22
_MAX_SECONDS = 24 * 60 * 60


class CheckHost(base.Command):
    """Check whether a host obeys its plan.

    Compares the plan with what is in force: nova.conf as nova-compute loads
    it, the kernel, host services and their threads, interrupts, huge pages,
    and every guest: its vCPUs, its other threads and its memory. Lists what
    differs, what that breaks, and the commands that mend it. With --watch
    also what ran on CPUs that are not for it meanwhile, and for how long.

    Nothing is changed. Whoever is not root is told what could not be looked
    at. Ends in status 1 if anything is found that --fail-on counts.
    """

    epilog = """
        Examples::

          nova-pinning host check plan.yaml
          nova-pinning host check plan.yaml --watch 30
          nova-pinning host check plan.yaml --pid 4711 --fail-on error
          nova-pinning host check plan.yaml --format prometheus \\
            --output /var/lib/node_exporter/textfile/host.prom
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('plan', metavar='PLAN',
                            help='what nova-pinning host plan has written')
        parser.add_argument('--root', metavar='DIR', default='/',
                            help='look at the files of another machine, '
                            'which lie under this directory')
        parser.add_argument('--pid', metavar='PID', action='append',
                            type=options.number(1, _MAX_PID),
                            help='check no guests but those of these QEMU '
                            'processes; may be given several times')
        cli_nova_conf.add_options(
            parser, 'what nova-compute is given under this name; without '
            'either, what the running one was given, or else its defaults')
        parser.add_argument('--watch', metavar='SECONDS',
                            type=options.number(1, _MAX_SECONDS),
                            help='watch for so long what runs on dedicated '
                            'and poll CPUs; Ctrl-C ends it early. What '
                            'starts and ends between two looks is not seen')
        reporting.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        planned = load.load(parsed_args.plan)
        if planned.plan is None:
            raise errors.InputError(
                'there is no plan in it', planned.where,
                'make one with: nova-pinning host plan '
                f'{parsed_args.plan} > plan.yaml')
        tree = host_tree.Tree(parsed_args.root)
        if parsed_args.watch and not tree.is_live:
            raise errors.InputError(
                'nothing runs there that could be watched',
                errors.Location(f'--root {parsed_args.root}'))
        reporting.check_output(parsed_args)
        result = _check(tree, planned, parsed_args)
        reporting.write(
            parsed_args,
            show=lambda console, limit: report.show(
                result, run.RULES, console, limit),
            as_dict=lambda: report.as_dict(result),
            exposition=lambda: _exposition(result))
        return findings.exit_status(
            result.findings, finding.Severity(parsed_args.fail_on))


def _exposition(result: finding.Result) -> str:
    # Only here, for it takes a while to load.
    from nova_pinning.host.check import metrics
    return metrics.exposition(result, run.RULES)


def _check(tree: host_tree.Tree, planned: model.HostDescription,
           parsed_args: argparse.Namespace) -> finding.Result:
    """Look, watch if that was asked for, and judge."""
    started, begun = time.time(), time.monotonic()
    assert planned.plan is not None
    look = functools.partial(
        _look, tree, planned, parsed_args.pid,
        *_nova_conf(tree, planned, parsed_args.nova_arguments))
    watched = None
    # The check itself is not to disturb what it looks at.
    with (watch.keeping_to(planned.plan.host_cpus) if tree.is_live
          else contextlib.nullcontext('')) as trouble:
        view = look()
        found: tuple[finding.Finding, ...] = ()
        if parsed_args.watch and not view.is_other_machine:
            with _progress(parsed_args.watch) as tell:
                watched = watch.watch(tree, view.taken_cpus,
                                      parsed_args.watch, tell=tell)
            if watched.is_cut:
                print('interrupted: here is what was seen until then',
                      file=sys.stderr)
            # Guests may have come and gone meanwhile.
            before, view = view.facts.guests, look()
            judge = foreign.Judge(watched, view, before)
            found = tuple(judge.findings())
    unread = list(view.facts.unread)
    if watched and trouble:
        unread.append(finding.Unread(
            f'CPUs {planned.plan.host_cpus}',
            f'this check cannot keep to them: {trouble}',
            'what of the load on other CPUs is its own'))
    if watched:
        unread += watched.unread
    return finding.Result(
        host=view.facts.host.name, plan=planned.name,
        findings=(*run.findings(view), *found),
        unread=tuple(dict.fromkeys(unread)),
        nova_conf_files=(view.facts.nova_conf.files
                         if view.facts.nova_conf else ()),
        looked_at=_count(view.facts),
        watched_seconds=watched.seconds if watched else 0.0,
        foreign_seconds=judge.foreign_seconds if watched else {},
        free_pages=view.facts.free_pages, started=started,
        duration_seconds=time.monotonic() - begun)


def _look(tree: host_tree.Tree, planned: model.HostDescription,
          pids: list[int] | None, nova_conf: facts.NovaConf | None,
          nova_conf_error: str,
          unread: tuple[finding.Unread, ...]) -> rule.View:
    # What was read before may be read now, or not be there any more.
    seen = gather.gather(host_tree.Tree(tree.root), planned, pids, nova_conf,
                         nova_conf_error)
    running = {guest.qemu.pid for guest in seen.guests}
    for pid in pids or ():
        if pid not in running:
            raise errors.InputError(
                f'process {pid} is no guest', errors.Location('--pid'),
                'name a running QEMU that may be looked at')
    return rule.View(planned, dataclasses.replace(
        seen, unread=(*unread, *seen.unread)))


def _nova_conf(
    tree: host_tree.Tree, planned: model.HostDescription,
    arguments: list[tuple[str, str]],
) -> tuple[facts.NovaConf | None, str, tuple[finding.Unread, ...]]:
    """nova.conf, or what is wrong with it, or why it was not read.

    :raises errors.InputError: if it was named, and cannot be loaded
    """
    # Only here, for it takes a while to load.
    from nova_pinning.bridge import nova_conf
    try:
        source = (nova_conf.named(arguments) if arguments
                  else nova_conf.find(tree))
        others = (finding.Unread(
            f'nova-compute {", ".join(source.others)}',
            f'process {source.pid} was taken', 'what others offer'),
        ) if source.others else ()
        return nova_conf.load(source, planned.pci_devices), '', others
    except errors.InputError as error:
        if arguments:
            raise
        if isinstance(error, nova_conf.UnreadableError):
            return None, '', (finding.Unread(
                str(error.where), error.message, 'what nova-compute offers'),)
        return None, str(error), ()


def _count(seen: facts.Facts) -> dict[str, int]:
    """How many of each thing were looked at."""
    qemus = [guest.qemu for guest in seen.guests]
    return {
        'processes': len(seen.processes) + len(qemus),
        'threads': (sum(len(one.threads) for one in seen.processes)
                    + sum(len(one.threads) for one in qemus)),
        'interrupts': len(seen.interrupts),
        'guests': len(seen.guests)}


@contextlib.contextmanager
def _progress(seconds: int) -> Iterator[Callable[[float], None]]:
    """A bar on the error output for people, told how many have passed."""
    console = base.console(sys.stderr)
    if not sys.stderr.isatty() or console.is_dumb_terminal:
        yield lambda passed: None
        return
    with rich.progress.Progress(console=console, transient=True) as bar:
        task = bar.add_task('watching', total=seconds)
        yield lambda passed: bar.update(task, completed=passed)
