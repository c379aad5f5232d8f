# SPDX-License-Identifier: Apache-2.0
"""openstack pinning rebalance apply."""

import argparse
from collections.abc import Iterator
import contextlib
import dataclasses
import functools
import hashlib
import os
import signal
import sys
import threading
import types
from typing import Any

import rich.console
import rich.progress

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import progress_bars
from nova_pinning.document import packed
from nova_pinning.document import quantities
from nova_pinning import errors
from nova_pinning.host import words
from nova_pinning.osc import applying
from nova_pinning.osc import base
from nova_pinning.presentation import printing
from nova_pinning.presentation import rebalance_report
from nova_pinning.rebalance import apply_journal
from nova_pinning.rebalance import migration_cloud
from nova_pinning.rebalance import move_run
from nova_pinning.rebalance import plan_document
from nova_pinning.rebalance import plan_execution
from nova_pinning.rebalance import plan_model
from nova_pinning import signals
from nova_pinning import units

#: Migrations at once; nova-compute does one a host unless it is told to do
#: more (max_concurrent_live_migrations).
_MOST_PARALLEL = 100


class ApplyPlan(base.CloudCommand):
    """Move guests as a plan says.

    The plan is one of 'rebalance plan', of either program. Shows it, asks,
    and moves one guest after the other. Before each move it looks
    whether hosts and guests are as planned, and begins no other one if they
    are not; after each, whether the guest got the CPUs of the plan.

    What is done is written to PLAN.journal. After Ctrl-C, an error or a crash
    the same command goes on where it was. Ends in status 1 if something is
    left to do, or a guest did not get its CPUs.

    Examples::

      openstack --os-cloud north pinning rebalance apply plan.json \\
          --dry-run
      openstack --os-cloud north pinning rebalance apply plan.json \\
          --parallel 4
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('plan', metavar='PLAN', help='the plan, a file')
        applying.add_options(
            parser, 'only show what would be moved, and whether the cloud is '
                    'as planned; ends in status 1 if anything would be moved')
        parser.add_argument(
            '--parallel', metavar='N', default=1,
            type=common_options.number(1, _MOST_PARALLEL),
            help='moves at a time, of those that do not depend on each other '
                 '(default: %(default)s)')
        parser.add_argument(
            '--timeout', metavar='SECONDS',
            type=common_options.number(1, 1_000_000),
            default=int(plan_execution.TIMEOUT_SECONDS),
            help='give a move up after so long, and abort it if it is a live '
                 'migration (default: %(default)s)')
        common_options.add_format(parser, 'text', 'json')

    @functools.cached_property
    def fleet_cloud(self) -> migration_cloud.MigrationCloud:
        """The cloud to read, and to move guests in."""
        return migration_cloud.MigrationCloud(
            self.app.client_manager.sdk_connection, self.cloud.name)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.plan == packed.STANDARD:
            raise errors.InputError(
                'there is no place for a journal beside the standard input',
                advice='write the plan to a file')
        self._results: list[move_run.MoveResult] = []
        try:
            return self._apply(parsed_args.plan, parsed_args)
        finally:
            if parsed_args.format == 'json' and not parsed_args.dry_run:
                self.print_document(
                    plan=parsed_args.plan, results=list(
                        map(_result_as_dict, self._results)))

    def _apply(self, path: str, parsed_args: argparse.Namespace) -> int:
        """Carry the plan out; returns the exit status."""
        text = packed.read(path)
        plan = plan_document.loads(text, path)
        with contextlib.ExitStack() as stack:
            journal = None
            journal_path = path + apply_journal.SUFFIX
            if not parsed_args.dry_run or os.path.exists(journal_path):
                journal = stack.enter_context(apply_journal.ApplyJournal(
                    journal_path, _digest(text)))
            execution = self._prepared(plan, journal, parsed_args)
            if parsed_args.dry_run:
                return self._show_only(execution, parsed_args)
            if execution.left and not execution.problems and (
                    not self._agreed(execution, parsed_args)):
                return base_command.FINDINGS
            if not execution.problems:
                self._run(execution, parsed_args)
            self._tell_problems(execution)
            return self._status(execution, parsed_args)

    def _prepared(
        self, plan: plan_model.RebalancePlan,
        journal: apply_journal.ApplyJournal | None,
        parsed_args: argparse.Namespace,
    ) -> plan_execution.PlanExecution:
        self._is_stopping = threading.Event()
        execution = plan_execution.PlanExecution(
            self.fleet_cloud, plan, journal, parallel=parsed_args.parallel,
            timeout_seconds=parsed_args.timeout,
            poll_seconds=plan_execution.POLL_SECONDS,
            is_stopping=self._is_stopping.is_set)
        execution.prepare()
        if parsed_args.format == 'text':
            _show(execution, base_command.console())
        return execution

    def _show_only(self, execution: plan_execution.PlanExecution,
                   parsed_args: argparse.Namespace) -> int:
        if parsed_args.format == 'json':
            self.print_document(
                plan=parsed_args.plan, problems=execution.problems,
                moves=[_move_as_dict(position, execution.plan.moves[position])
                       for position in execution.left])
        else:
            self._tell_problems(execution)
        return (base_command.FINDINGS if execution.left or execution.problems
                else base_command.OK)

    def _agreed(self, execution: plan_execution.PlanExecution,
                parsed_args: argparse.Namespace) -> bool:
        if parsed_args.yes:
            return True
        if not applying.is_agreed(self.cloud.name, parsed_args.format):
            return False
        # The question may have stood there for long. A move is looked at
        # again anyway, but nothing shall be begun of a plan that is stale.
        execution.prepare()
        return True

    def _run(self, execution: plan_execution.PlanExecution,
             parsed_args: argparse.Namespace) -> None:
        total = len(execution.left)
        is_text = parsed_args.format == 'text'
        with (_stopping(self._is_stopping),
              applying.interruptible(execution.results, total, 'moves'),
              progress_bars.progress_bars(
                  rich.progress.TextColumn('{task.description}'),
                  rich.progress.BarColumn(),
                  rich.progress.DownloadColumn(binary_units=True),
                  rich.progress.TransferSpeedColumn(),
                  rich.progress.TimeElapsedColumn()) as bars):
            shown = _MoveBars(bars)
            try:
                for outcome in execution.run():
                    shown.tell(outcome)
                    if isinstance(outcome, move_run.MoveResult):
                        self._results.append(outcome)
                        if is_text:
                            print(_result_line(outcome), flush=True)
            except (KeyboardInterrupt, errors.CloudError):
                for move in execution.under_way:
                    print(f'the move of {_name(move)} to {move.target} goes '
                          'on in nova; to end it: openstack server migration '
                          f'abort {move.guest} MIGRATION', file=sys.stderr)
                raise

    def _tell_problems(self,
                       execution: plan_execution.PlanExecution) -> None:
        base_command.tell('error', execution.problems)
        if execution.problems:
            print('the cloud is not as the plan takes it to be, so nothing '
                  'was moved; rebalance plan --request makes a new plan for '
                  'the same goal', file=sys.stderr)
        if execution.halted:
            print(f'stopped: {execution.halted}', file=sys.stderr)
        if execution.halted or execution.problems:
            for move in execution.parked:
                print(f'{_name(move)} is parked on {move.target}; to take it '
                      f'back: openstack server migrate --live-migration '
                      f'--host {move.source} {move.guest}', file=sys.stderr)

    def _status(self, execution: plan_execution.PlanExecution,
                parsed_args: argparse.Namespace) -> int:
        left = len(execution.left)
        if parsed_args.format == 'text':
            total = len(execution.plan.moves)
            print(f'{total - left} of {words.count(total, "move")} done'
                  if execution.results or left else 'nothing to do')
        is_fine = all(result.status is move_run.MoveStatus.DONE
                      for result in self._results)
        return (base_command.OK if is_fine and not left
                and not execution.problems else base_command.FINDINGS)


def _digest(text: str) -> str:
    return f'sha256:{hashlib.sha256(text.encode()).hexdigest()}'


@contextlib.contextmanager
def _stopping(event: threading.Event) -> Iterator[None]:
    """Let Ctrl-C end it after what is under way, and a second one at once."""
    def stop(_number: int, _frame: types.FrameType | None) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()
        print('\nno more moves will be begun; press Ctrl-C once more not to '
              'wait for those under way', file=sys.stderr, flush=True)

    with signals.handled([signal.SIGINT], stop):
        yield


class _MoveBars:
    """A bar for each move under way."""

    def __init__(self, bars: rich.progress.Progress) -> None:
        self._bars = bars
        self._tasks: dict[int, rich.progress.TaskID] = {}

    def tell(self, outcome: plan_execution.Outcome) -> None:
        """Show how far a move is, or no longer that it is under way."""
        task = self._tasks.get(outcome.position)
        if isinstance(outcome, move_run.MoveResult):
            if task is not None:
                self._bars.remove_task(self._tasks.pop(outcome.position))
            return
        move = outcome.move
        text = f'{_name(move)} to {move.target}: {outcome.doing}'
        total = (outcome.copied + outcome.left if outcome.left is not None
                 else max(outcome.copied,
                          move.memory_mib * units.BYTES_PER_MIB))
        if task is None:
            task = self._tasks[outcome.position] = self._bars.add_task(
                text, total=total)
        self._bars.update(task, description=text, total=total,
                          completed=outcome.copied)


# For people.


def _show(execution: plan_execution.PlanExecution,
          console: rich.console.Console) -> None:
    table = rebalance_report.moves(execution.plan)
    dataclasses.replace(table, rows=[
        row for row in table.rows if row['move'] in execution.left],
    ).show(console)
    printing.say(_summary(execution), console)


def _summary(execution: plan_execution.PlanExecution) -> str:
    plan = execution.plan
    left = [plan.moves[position] for position in execution.left]
    memory = quantities.shown_memory(sum(move.memory_mib for move in left))
    text = f'{words.count(len(left), "move")} to make, {memory} to copy'
    done = len(plan.moves) - len(left)
    if done:
        text += f'; {done} of {len(plan.moves)} done already'
    return text


def _name(move: plan_model.PlannedMove) -> str:
    return move.name or move.guest


def _result_line(result: move_run.MoveResult) -> str:
    move = result.move
    line = (f'{result.position}: {_name(move)} from {move.source} to '
            f'{move.target}: {result.status}')
    if result.status is move_run.MoveStatus.DONE and result.cells:
        line += f', on {move_run.cells_text(result.cells)}'
    if result.copied:
        line += f', {result.copied / units.BYTES_PER_MIB:,.0f} MiB copied'
    return f'{line}: {result.message}' if result.message else line


# For machines.

def _move_as_dict(position: int,
                  move: plan_model.PlannedMove) -> dict[str, Any]:
    return {'position': position, 'guest': move.guest, 'name': move.name,
            'source': move.source, 'target': move.target,
            'kind': str(move.kind), 'is_parking': move.is_parking}


def _result_as_dict(result: move_run.MoveResult) -> dict[str, Any]:
    return _move_as_dict(result.position, result.move) | {
        'status': str(result.status), 'message': result.message,
        'copied_bytes': result.copied,
        'cells': [{'cell': host_cell, 'vcpus': [vcpu for vcpu, _cpu in pins],
                   'cpus': [cpu for _vcpu, cpu in pins]}
                  for host_cell, pins in result.cells]}
