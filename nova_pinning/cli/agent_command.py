# SPDX-License-Identifier: Apache-2.0
"""nova-pinning agent: keeps caches and interrupts with the guests."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import logging
import os
import sys
from typing import Any

from oslo_config import cfg

from nova_pinning.agent import agent_model
from nova_pinning.agent import agent_service
from nova_pinning.agent import decision
from nova_pinning.agent import home_domains
from nova_pinning.agent import host_agent
from nova_pinning.agent import host_reading
from nova_pinning.agent import kernel_files
from nova_pinning.agent import running_guests
from nova_pinning.cli import base_command
from nova_pinning.cli import unit_file
from nova_pinning.conf import agent as agent_conf
from nova_pinning import errors
from nova_pinning.host import agent_record
from nova_pinning.host import host_loader
from nova_pinning.host import host_model
from nova_pinning.host import words

LOG = logging.getLogger(__name__)


class Agent(base_command.FileCommand):
    """Keep caches, memory bandwidth and interrupts right for guests.

    Runs on a compute host until it is stopped. Guests get the ways of L3
    caches and the memory bandwidth that their flavors ask for; what serves a
    guest runs on CPUs that share its cache; floating guests stay in the L3
    domains that are their home. CPUs are given only as the host's plan says,
    and everything is put back in the end.

    With --once it looks once, and what it has changed stays. --dry-run says
    what would be changed. --undo puts back what an agent has left that
    was killed, by its record alone. --print-unit prints the unit for systemd.

    Examples::

      nova-pinning agent --config-file /etc/nova-pinning/agent.conf
      OS_AGENT__PLAN=plan.yaml nova-pinning agent --dry-run
      nova-pinning agent --undo
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('--config-file', metavar='FILE', action='append',
                            help='options of section [agent]; by default '
                            'none, so that all options have their defaults')
        mode = parser.add_mutually_exclusive_group()
        mode.add_argument('--once', action='store_true',
                          help='look once, and end; changes stay')
        mode.add_argument('--dry-run', action='store_true',
                          help='look once, and say what would be changed')
        mode.add_argument('--undo', action='store_true',
                          help='put back what an agent has changed, and end')
        mode.add_argument('--print-unit', action='store_true',
                          help='print a unit for systemd that runs this '
                          'installation with these files, and end')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        options = _options(parsed_args.config_file or [])
        files = kernel_files.WritableTree('/')
        if parsed_args.print_unit:
            print(_unit(parsed_args, options), end='')
            return base_command.OK
        if parsed_args.undo:
            return _release(options, files)
        planned = _planned(options.plan)
        scheme = _scheme(options, files)
        notes = [*scheme.notes(), *_absent(planned, files)]
        source = running_guests.RunningGuests(
            files, options.libvirt_state, _flavors(options.catalogue))
        with (contextlib.nullcontext() if parsed_args.dry_run
              else agent_service.alone(options.record)):
            agent = _agent(options, files, host_reading.read(files, planned),
                           scheme, source)
            if not (parsed_args.once or parsed_args.dry_run):
                return _serve(agent, source, options, notes)
            try:
                done = agent.reconcile(parsed_args.dry_run)
            except running_guests.GuestsUnknownError as error:
                raise errors.InputError(
                    f'it is not known which guests run: {error}',
                    advice='run this as root where libvirt runs, and name its '
                    'directory in libvirt_state if it has another') from error
            return _show(done, parsed_args.dry_run, notes)


def _unit(parsed_args: argparse.Namespace, options: Any) -> str:
    return unit_file.text(
        'agent', parsed_args.config_file or [],
        [options.plan, options.catalogue],
        [path for path in (options.metrics_file, options.record)
         if path and os.path.dirname(path)
         != os.path.dirname(agent_record.PATH)])


def _agent(
    options: Any, files: kernel_files.WritableTree,
    host: agent_model.AgentHost, scheme: decision.Scheme,
    source: running_guests.RunningGuests,
) -> host_agent.HostAgent:
    return host_agent.HostAgent(
        host, scheme, files, source,
        agent_record.load(files, options.record),
        lambda changed: agent_record.save(changed, options.record),
        home_domains.HomeLimits(moves_per_hour=options.moves_per_hour),
        options.kept_ways)


def _release(options: Any, files: kernel_files.WritableTree) -> int:
    """Put back what the record has, whatever else there is by now."""
    nowhere = agent_model.AgentHost({}, {}, *3 * (agent_model.NO_CPUS,))
    with agent_service.alone(options.record):
        return _show(_agent(
            options, files, nowhere, decision.Scheme(),
            running_guests.RunningGuests(files)).release())


def _serve(agent: host_agent.HostAgent, source: running_guests.RunningGuests,
           options: Any, notes: Iterable[str]) -> int:
    # The journal has times of its own.
    logging.basicConfig(level=logging.INFO, stream=sys.stderr,
                        format='%(levelname)s %(message)s', force=True)
    for note in notes:
        LOG.info('%s', note)
    service = agent_service.AgentService(
        agent, options.interval_seconds, source.changed,
        options.metrics_file)
    return (base_command.FINDINGS if service.serve().trouble
            else base_command.OK)


def _options(files: list[str]) -> Any:
    conf = cfg.ConfigOpts()
    agent_conf.register_opts(conf)
    try:
        conf([], project='nova-pinning', prog='agent',
             default_config_files=files, default_config_dirs=[])
        for option in agent_conf.agent_opts:
            getattr(conf.agent, option.dest)
    except (cfg.Error, OSError, ValueError) as error:
        raise errors.InputError(str(error), errors.Location(
            ', '.join(files) or 'the options')) from error
    return conf.agent


def _planned(path: str) -> host_model.HostDescription:
    if not os.path.exists(path):
        raise errors.InputError(
            'the plan of this host is not there', errors.Location(path),
            'make it with: nova-pinning host discover > host.yaml; '
            f'nova-pinning host plan host.yaml > {path}')
    return host_loader.load_plan(path)


def _absent(planned: host_model.HostDescription,
            files: kernel_files.WritableTree) -> Iterator[str]:
    """What speaks against the plan's being of this host."""
    online = files.cpus('/sys/devices/system/cpu/online')
    absent = planned.cpus - online if online else None
    if absent:
        yield (f'the plan has {words.cpus(absent)}, not online here; if it '
               'is the plan of another host, make one of this')


def _flavors(path: str) -> Mapping[str, Mapping[str, str]]:
    if not path:
        return {}
    # Only where it is needed, for it takes a while to load.
    from nova_pinning.flavors import catalogue
    return {flavor.name: flavor.extra_specs
            for flavor in catalogue.load(path).flavors}


def _scheme(options: Any, files: kernel_files.WritableTree) -> decision.Scheme:
    floating = options.floating_guests
    return decision.Scheme(
        options.cache, options.interrupts, floating != 'off',
        floating == 'auto' and host_reading.knows_caches(files))


def _show(done: host_agent.Round, is_dry_run: bool = False,
          notes: Iterable[str] = ()) -> int:
    for note in notes:
        print(f'note: {note}')
    if is_dry_run and done.done:
        print('would be changed:')
    for text in done.done:
        print(text)
    for text in (*done.waiting, *done.trouble):
        print(f'warning: {text}', file=sys.stderr)
    if not (done.done or done.waiting or done.trouble):
        print('everything is as it is to be')
    return (base_command.FINDINGS if done.waiting or done.trouble
            else base_command.OK)
