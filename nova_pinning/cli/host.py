# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host provider-config: what nova-compute tells Placement."""

import argparse
import sys

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning import errors
from nova_pinning.host import core_division
from nova_pinning.host import host_loader
from nova_pinning.host import provider_config
from nova_pinning.model import hostclass


class ProviderConfig(base_command.FileCommand):
    """Write the provider.yaml of a host, for its nova-compute.

    It has the traits by which hosts are kept apart: CUSTOM_PINNING_DEDICATED
    or CUSTOM_PINNING_SHARED, the number of CPUs that share an L3 cache, and
    the traits of the host file. Put it into /etc/nova/provider_config on the
    host and restart nova-compute. It is for whichever host it is put on.

    Examples::

      nova-pinning host provider-config host.yaml
      nova-pinning host provider-config host.yaml --class dedicated \\
          --output /etc/nova/provider_config/pinning.yaml
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'plan', metavar='PLAN',
            help='host file (YAML or JSON), or what virsh capabilities '
                 'prints')
        parser.add_argument(
            '--class', dest='host_class', metavar='CLASS',
            choices=[str(host_class) for host_class in hostclass.HostClass],
            help='dedicated or shared; if not given, what the traits of the '
                 'host file say, or else its CPUs: with dedicated_cpus it is '
                 'dedicated, with only shared_cpus it is shared')
        common_options.add_output(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        output = parsed_args.output
        if output is not None and not output.endswith(
                provider_config.SUFFIX):
            raise errors.InputError(
                'nova-compute would not read this file',
                errors.Location(output),
                f'let its name end in {provider_config.SUFFIX}')
        host = host_loader.load(parsed_args.plan)
        made = provider_config.make(
            host, parsed_args.host_class and hostclass.HostClass(
                parsed_args.host_class))
        common_options.write_output(
            output, provider_config.text(made, host.name))
        for note in made.notes:
            print(f'note: {note}', file=sys.stderr)
        divided = core_division.of_host(host)
        if divided:
            print(f'warning: {divided}; {core_division.ADVICE}',
                  file=sys.stderr)
        return base_command.OK
