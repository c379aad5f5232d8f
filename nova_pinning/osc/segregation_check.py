# SPDX-License-Identifier: Apache-2.0
"""openstack pinning segregation check."""

import argparse
import functools
import sys

from nova_pinning.checks import report
from nova_pinning.cli import checking
from nova_pinning.cli import common_options
from nova_pinning.host import host_loader
from nova_pinning.osc import applying
from nova_pinning.osc import base
from nova_pinning.segregation.audit import audit_run
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import scheduler_options


class CheckSegregation(base.CloudCommand):
    """Check that a cloud's shared and dedicated guests are kept apart.

    Looks at hosts, resource providers, traits, inventories, aggregates,
    flavors and servers, and lists what is wrong, what that breaks, and the
    commands that put it right. Nothing is changed. Ends in status 1 if
    anything is found that --fail-on counts.

    Examples::

      openstack --os-cloud north pinning segregation check
      openstack pinning segregation check --host-files hosts/ cmp-d-1 cmp-d-2
      openstack pinning segregation check --format prometheus > all.prom
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument('names', metavar='HOST', nargs='*',
                            help='compute services to check, with their '
                            'servers; the whole cloud, with its flavors, if '
                            'none is named')
        common_options.add_host_files(
            parser, 'how many CPUs each host sets aside for emulator '
            'threads, and in which order it takes NUMA cells')
        parser.add_argument('--emulator-cpus', metavar='N',
                            type=common_options.number(0, 10 ** 6),
                            help='VCPU that a dedicated host may offer where '
                            'no host file tells (default: '
                            f'{audited.EMULATOR_CPUS} if any flavor has '
                            'hw:emulator_threads_policy=share, else 0)')
        common_options.add_nova_conf(
            parser, 'what nova-scheduler is given under this name, or a '
            'directory of such files, which '
            'tells the order of NUMA cells that it expects of hosts, and '
            'which filters it runs; may be given several times; without, '
            'only aggregates tell of the former, and nothing of the latter')
        parser.add_argument('--release', metavar='RELEASE', default='',
                            help='the nova of the hosts, such as 2026.1 or '
                            '33.0.2, which no API tells; servers in the '
                            'wrong place are then shown with what keeps nova '
                            'from live-migrating them')
        checking.add_options(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        return checking.run(parsed_args, lambda: self._check(parsed_args))

    def _check(self, parsed_args: argparse.Namespace) -> report.CheckReport:
        scheduler_arguments = common_options.nova_arguments(parsed_args)
        settings = audited.AuditSettings(
            hosts=frozenset(parsed_args.names),
            descriptions=host_loader.by_name(parsed_args.host_files),
            emulator_cpus=parsed_args.emulator_cpus,
            scheduler=(scheduler_options.read(scheduler_arguments)
                       if scheduler_arguments
                       else audited.SchedulerOptions()),
            known=common_options.defects(parsed_args))
        audit = audit_run.run_audit(
            self.host_cloud, settings,
            functools.partial(applying.with_progress, what='hosts'))
        for name in audit.unmatched:
            print(f'note: there is a file for host {name}, which the cloud '
                  'does not have', file=sys.stderr)
        return audit_run.make_report(audit, self.cloud.name)
