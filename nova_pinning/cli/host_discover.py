# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host discover: what a machine is made of."""

import argparse
from collections.abc import Iterator
import re
import sys

from nova_pinning.cli import base_command
from nova_pinning.cli import common_options
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.host import discover
from nova_pinning.host.discover import fabric
from nova_pinning.host.discover import pci_tree
from nova_pinning.host.discover import resctrl
from nova_pinning.host.discover import system
from nova_pinning.host import host_model
from nova_pinning.host import hostfile_writer
from nova_pinning.host import machine_files

_NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,254}', re.ASCII)
_MAX_UNREAD = 5


class DiscoverHost(base_command.FileCommand):
    """Write the host file of a machine.

    It has the machine's CPUs, NUMA nodes, memory, caches and devices, and
    how its kernel was started, read from /sys and /proc. The next step is to
    plan which CPUs are for what (host plan). Nothing is run or changed, and
    no privileges are needed; what could not be read is said.

    Examples::

      nova-pinning host discover --output host.yaml
      ssh compute-1 nova-pinning host discover > compute-1.yaml
      nova-pinning host discover --root /srv/dumps/compute-1
      nvidia-smi topo -m > topo.txt
      nova-pinning host discover --fabric topo.txt --output host.yaml
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--root', default='/', metavar='DIR',
            help="directory with a machine's sys and proc: / by default")
        parser.add_argument(
            '--name', metavar='NAME', type=common_options.accepted(
                str, lambda text: bool(_NAME.fullmatch(text)),
                'a name of letters, digits, dots, dashes and underscores'),
            help="the host's name; if not given, the machine's own")
        parser.add_argument(
            '--fabric', action='append', default=[], metavar='FILE',
            help='what nvidia-smi topo -m printed on the machine, or fmpm -l '
                 'of Fabric Manager: NVLinks and partitions of GPUs, of which '
                 'the kernel knows nothing; may be given several times')
        common_options.add_format(parser, 'yaml', 'json')
        common_options.add_output(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        tree = machine_files.Tree(parsed_args.root)
        host = discover.discover_host(tree, parsed_args.name or '')
        for path in parsed_args.fabric:
            host = fabric.with_fabric(
                host, source.read(path), errors.Location(path))
        text = (hostfile_writer.dump_json(host) if parsed_args.format == 'json'
                else hostfile_writer.dump(host))
        common_options.write_output(parsed_args.output, text)
        for note in _notes(host, tree):
            print(f'note: {note}', file=sys.stderr)
        return base_command.OK


def _notes(host: host_model.HostDescription,
           tree: machine_files.Tree) -> Iterator[str]:
    """What there is to say."""
    if host.description:
        yield host.description
    able = resctrl.unmounted(tree, system.cpu_info(tree))
    if able:
        yield (f'the CPUs can divide caches or bandwidth ({able}), but '
               f'{resctrl.ROOT} is not mounted; to have it in the host file, '
               f'mount -t resctrl resctrl {resctrl.ROOT} and discover again')
    if any(not device.parent for device in host.pci_devices):
        yield (f'where some devices are in the PCIe tree is not told: '
               f'{pci_tree.PCI} has no links to them; a copy of it has to '
               'keep links (tar, rsync -a)')
    unread = list(tree.unread.items())
    for path, reason in unread[:_MAX_UNREAD]:
        yield f'{path} could not be read: {reason}'
    if len(unread) > _MAX_UNREAD:
        yield (f'{len(unread) - _MAX_UNREAD} other files could not be read '
               'either')
