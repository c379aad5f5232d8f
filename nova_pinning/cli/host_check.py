# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host check: whether a host obeys its plan."""

import argparse
import contextlib
import dataclasses
import sys


from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.cli import base_command
from nova_pinning.cli import checking
from nova_pinning.cli import common_options
from nova_pinning.cli import progress_bars
from nova_pinning import errors
from nova_pinning.host.check import cpu_watch
from nova_pinning.host.check import facts
from nova_pinning.host.check import foreign
from nova_pinning.host.check import gathering
from nova_pinning.host.check import host_check_run
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.host import machine_files
from nova_pinning.host import own_threads

_MAX_PID = 2 ** 22
_MAX_SECONDS = 24 * 60 * 60


class CheckHost(base_command.FileCommand):
    """Check whether a host obeys its plan.

    Compares the plan with what is in force: nova.conf as nova-compute loads
    it, the kernel, host services and their threads, interrupts, huge pages,
    and every guest: its vCPUs, its other threads and its memory. Lists what
    differs, what that breaks, and the commands that put it right. With --watch
    also what ran on CPUs that are not for it meanwhile, and for how long.

    Nothing is changed. Whoever is not root is told what could not be looked
    at. Ends in status 1 if anything is found that --fail-on counts.

    Examples::

      nova-pinning host check plan.yaml
      nova-pinning host check plan.yaml --watch 30
      nova-pinning host check plan.yaml --pid 4711 --fail-on error
      nova-pinning host check plan.yaml --format prometheus > host.prom
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('plan', metavar='PLAN',
                            help='what nova-pinning host plan has written')
        parser.add_argument('--root', metavar='DIR', default='/',
                            help='look at the files of another machine, '
                            'which lie under this directory')
        parser.add_argument('--pid', metavar='PID', action='append',
                            type=common_options.number(1, _MAX_PID),
                            help='check only the guests of these QEMU '
                            'processes; may be given several times')
        common_options.add_nova_conf(
            parser, 'what nova-compute is given under this name, or a '
            'directory of such files; may be given several times; without, '
            'what the running one was given, or else its defaults')
        parser.add_argument('--watch', metavar='SECONDS',
                            type=common_options.number(1, _MAX_SECONDS),
                            help='watch what runs on dedicated and poll '
                            'CPUs for this long; Ctrl-C ends it early. What '
                            'starts and ends between two looks is not seen')
        checking.add_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        planned = host_loader.load_plan(parsed_args.plan)
        tree = machine_files.Tree(parsed_args.root)
        if parsed_args.watch and not tree.is_live:
            raise errors.InputError(
                'nothing runs there that could be watched',
                errors.Location(f'--root {parsed_args.root}'))
        return checking.run(
            parsed_args, lambda: _check(tree, planned, parsed_args))


def _check(tree: machine_files.Tree, planned: host_model.HostDescription,
           parsed_args: argparse.Namespace) -> report.CheckReport:
    """Look, watch if that was asked for, and judge."""
    assert planned.plan is not None
    nova_conf, nova_conf_error, others = _nova_conf(
        tree, planned, parsed_args.nova_arguments)

    def look() -> facts.CheckedHost:
        # What was read before may be read now, or not be there any more.
        seen = gathering.gather(
            machine_files.Tree(tree.root), planned, parsed_args.pid, nova_conf,
            nova_conf_error)
        running = {guest.qemu.pid for guest in seen.guests}
        for pid in parsed_args.pid or ():
            if pid not in running:
                raise errors.InputError(
                    f'process {pid} is not a guest', errors.Location('--pid'),
                    'name a running QEMU that may be looked at')
        return facts.CheckedHost(planned, dataclasses.replace(
            seen, unread=(*others, *seen.unread)))

    watched = None
    # The check itself is not to disturb what it looks at.
    with (own_threads.keeping_to(planned.plan.host_cpus) if tree.is_live
          else contextlib.nullcontext('')) as trouble:
        view = look()
        findings: tuple[check_rule.Finding, ...] = ()
        if parsed_args.watch and not view.is_other_machine:
            with progress_bars.progress_bars() as bar:
                task = bar.add_task('watching', total=parsed_args.watch)
                watched = cpu_watch.watch(
                    tree, view.taken_cpus, parsed_args.watch,
                    tell=lambda passed: bar.update(task, completed=passed))
            if watched.is_cut:
                print('interrupted: here is what was seen until then',
                      file=sys.stderr)
            # Guests may have come and gone meanwhile.
            before, view = view.facts.guests, look()
            judge = foreign.ForeignWorkJudge(watched, view, before)
            findings = tuple(judge.findings())
    unread = list(view.facts.unread)
    if watched and trouble:
        unread.append(facts.Unread(
            f'CPUs {planned.plan.host_cpus}',
            f'this check cannot keep to them: {trouble}',
            'what of the load on other CPUs is its own'))
    if watched:
        unread += watched.unread
    return host_check_run.make_report(
        view, (*host_check_run.findings(view), *findings),
        tuple(dict.fromkeys(unread)),
        *((watched.seconds, judge.foreign_seconds) if watched else ()))


def _nova_conf(
    tree: machine_files.Tree, planned: host_model.HostDescription,
    arguments: list[tuple[str, str]],
) -> tuple[facts.NovaConf | None, str, tuple[facts.Unread, ...]]:
    """nova.conf, or what is wrong with it, or why it was not read.

    :raises errors.InputError: if it was named, and cannot be loaded
    """
    # Only here, for it takes a while to load.
    from nova_pinning.bridge.offline import nova_conf_reader
    try:
        source = (nova_conf_reader.named(arguments) if arguments
                  else nova_conf_reader.find(tree))
        others = (facts.Unread(
            f'nova-compute {", ".join(source.others)}',
            f'process {source.pid} was taken', 'what others offer'),
        ) if source.others else ()
        return nova_conf_reader.load(
            source, planned.pci_devices, tree.root), '', others
    except errors.InputError as error:
        if arguments:
            raise
        if isinstance(error, nova_conf_reader.UnreadableError):
            return None, '', (facts.Unread(
                str(error.where), error.message, 'what nova-compute offers'),)
        return None, str(error), ()
