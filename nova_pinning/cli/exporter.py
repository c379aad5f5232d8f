# SPDX-License-Identifier: Apache-2.0
"""nova-pinning exporter: figures of a fleet for Prometheus."""

import argparse
from collections.abc import Sequence
import signal
import sys
import time
from typing import Any

from oslo_config import cfg

from nova_pinning.bridge.offline import standalone
from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.cli import unit_file
from nova_pinning.conf import exporter as exporter_options
from nova_pinning import errors
from nova_pinning import extras
from nova_pinning import signals

_ABOUT = ('where [pinning_exporter] stands, a file or a directory of files; '
          'may be given several times '
          '(default: /etc/nova-pinning/exporter.conf and the others that '
          'oslo.config looks for)')
#: How often it is looked whether it is to end.
_LOOK_SECONDS = 0.5


class Exporter(base_command.FileCommand):
    """Serve figures of a fleet to Prometheus, kept up to date.

    Reads hosts and guests from nova's databases, the compute API or a
    snapshot, counts what can still be sold and what cannot, and serves it
    under /metrics. After the first time only what has changed is read and
    counted. Nothing is ever written. While hosts and guests cannot be read,
    the last figures are served with the time that they are of.

    Options are read from [pinning_exporter]. It runs until it is ended with
    SIGTERM or Ctrl+C.

    Examples::

      nova-pinning exporter --config-file /etc/nova-pinning/exporter.conf
      OS_PINNING_EXPORTER__SNAPSHOT=fleet.json.zst nova-pinning exporter
      curl http://127.0.0.1:9896/metrics
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        common_options.add_nova_conf(parser, _ABOUT)
        parser.add_argument(
            '--once', action='store_true',
            help='print the figures and end; the exit status is 1 if there '
                 'are none')
        parser.add_argument(
            '--print-unit', action='store_true',
            help='print a unit for systemd that runs this installation with '
                 'these files, and end')

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        settings = load_settings(
            common_options.nova_arguments(parsed_args)).pinning_exporter
        if parsed_args.print_unit:
            print(_unit(parsed_args, settings), end='')
            return base_command.OK
        extras.need('the exporter', 'prometheus_client', 'tornado')
        import prometheus_client
        # When a counter was made is of use to nobody.
        prometheus_client.disable_created_metrics()
        # Only here, for it takes seconds. Nova's part here and not in the
        # thread that reads: the first to import eventlet would never end.
        standalone.prepare()
        from nova_pinning.bridge.offline import flavor_request  # noqa: F401
        from nova_pinning.exporter import exporter_service
        from nova_pinning.exporter import fleet_sources
        service = exporter_service.ExporterService(
            settings, fleet_sources.configured(settings))
        if parsed_args.once:
            service.watch.refresh()
            print(service.metrics(), end='')
            return (base_command.OK if service.watch.text()
                    else base_command.FINDINGS)
        told: list[int] = []
        with signals.handled((signal.SIGTERM, signal.SIGINT),
                             lambda number, _frame: told.append(number)):
            url = service.start()
            print(f'serving {url}metrics', file=sys.stderr, flush=True)
            # Not an Event: its own lock may be held where the handler comes.
            while not told:
                time.sleep(_LOOK_SECONDS)
            service.stop()
        return base_command.OK


def _unit(parsed_args: argparse.Namespace, settings: Any) -> str:
    return unit_file.text(
        'exporter', [path for _option, path in parsed_args.nova_arguments],
        filter(None, [*settings.nova_conf, settings.snapshot,
                      settings.host_files]))


def load_settings(arguments: Sequence[str]) -> Any:
    """The options of the exporter.

    :param arguments: '--config-file' or '--config-dir', each followed by a
        path
    :returns: oslo_config.cfg.ConfigOpts
    :raises errors.InputError: if they cannot be read, or one is wrong
    """
    conf = cfg.ConfigOpts()
    exporter_options.register_opts(conf)
    try:
        conf(list(arguments), project='nova-pinning', prog='exporter')
        for _group, options in exporter_options.list_opts().items():
            for option in options:
                # Looked at only when it is asked for.
                conf.pinning_exporter[option.dest]
    except (cfg.Error, OSError, ValueError) as error:
        raise errors.InputError(
            str(error), errors.Location('[pinning_exporter]')) from error
    return conf
