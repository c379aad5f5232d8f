# SPDX-License-Identifier: Apache-2.0
"""flavor check: the mistakes in a catalogue, or in a cloud's flavors."""

import argparse
from collections.abc import Callable
from collections.abc import Sequence

from nova_pinning.bridge.offline import standalone
from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning.cli import base_command
from nova_pinning.cli import checking
from nova_pinning.cli import common_options
from nova_pinning.cli import select
from nova_pinning.flavors import catalogue
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import host_separation
from nova_pinning.flavors import release_support
from nova_pinning.host import host_model


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what a check of flavors can be told, wherever they are from."""
    parser.add_argument('names', metavar='NAME', nargs='*',
                        help='flavors or families to check; all if none is '
                             'named')
    common_options.add_image_properties(parser)
    common_options.add_host_files(parser, 'on which hosts flavors have to fit')
    common_options.add_release(
        parser, 'the release of nova that the cloud runs, such as 2025.1: '
        'what it does not have is told as well')
    parser.add_argument('--standard', choices=('scs',),
                        help="hold them to Sovereign Cloud Stack's naming "
                        'and mandatory flavors as well')
    parser.add_argument('--severity',
                        choices=list(map(str, check_rule.Severity)),
                        default='note',
                        help='the least severity that the table tells in '
                        'full; of what is less severe it has the number '
                        '(default: %(default)s)')
    checking.add_options(parser)


#: Flavors, the release that they are for, and what keeps the classes apart.
ToCheck = tuple[Sequence[flavor_model.Flavor], release_support.CloudRelease,
                host_separation.Separation]


def run(
    read_flavors: Callable[[], ToCheck],
    source: str, parsed_args: argparse.Namespace,
) -> int:
    """Check flavors and print what was found.

    :param read_flavors: called once the options are known to be good
    :param source: what they are from, a catalogue or a cloud
    :returns: the exit status
    """
    def check() -> report.CheckReport:
        properties = common_options.image_properties(parsed_args) or None
        hosts: tuple[host_model.HostDescription, ...] = ()
        if parsed_args.host_files:
            from nova_pinning.host import host_loader
            hosts = host_loader.load_directory(parsed_args.host_files)
        flavors, cloud, separation = read_flavors()
        # This loads most of nova, so not before all files are known to be
        # good.
        standalone.prepare()
        from nova_pinning.bridge.offline import nova_judgement
        from nova_pinning.flavors.checks import flavor_check_run
        from nova_pinning.flavors.checks import scs_rules
        has_scs = parsed_args.standard == 'scs'
        findings = flavor_check_run.check(
            flavors, nova_judgement.judging, hosts, properties, cloud=cloud,
            separation=separation, has_scs=has_scs)
        # Of some flavors nobody can say which are missing.
        if has_scs and not parsed_args.names:
            findings += tuple(scs_rules.missing(flavors))
        return flavor_check_run.make_report(findings, flavors, source, cloud,
                                            hosts)

    return checking.run(parsed_args, check)


class CheckCatalogue(base_command.FileCommand):
    """Look for mistakes in a catalogue's flavors.

    Nova's own validators and constraints, and rules for what nova takes
    without a word. With --release, or nova_release in the catalogue, also
    what that release of nova does not have, whichever is installed. Ends in
    status 1 if anything is found that --fail-on counts.

    Examples::

      nova-pinning flavor check flavors.yaml --host-files hosts/
      nova-pinning flavor check flavors.yaml --release 2025.1
      nova-pinning flavor check flavors.yaml --format json > known.json
      nova-pinning flavor check flavors.yaml --ignore known.json
      nova-pinning flavor check flavors.yaml enterprise \\
          --image-property hw_cpu_policy=shared
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('catalogue', metavar='CATALOGUE',
                            help='catalogue, or another file of flavors: '
                            'see flavor show')
        add_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        path = parsed_args.catalogue

        def read() -> ToCheck:
            sold = catalogue.load(path)
            return (
                select.named_flavors(sold.flavors, parsed_args.names, path),
                release_support.CloudRelease.of(
                    parsed_args.release or sold.release,
                    standalone.nova_version()), sold.separation)

        return run(read, path, parsed_args)
