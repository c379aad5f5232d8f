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

"""openstack pinning segregation check."""

import argparse
import functools
import sys

from nova_pinning.cli import options
from nova_pinning.cli import reporting
from nova_pinning import errors
from nova_pinning.flavors import finding
from nova_pinning.host import load
from nova_pinning.osc import applying
from nova_pinning.osc import base
from nova_pinning.reports import findings
from nova_pinning.segregation.audit import configs
from nova_pinning.segregation.audit import rule
from nova_pinning.segregation.audit import run
from nova_pinning.segregation import report

# requests keeps so many connections, and makes others anew each time.
_MOST_JOBS = 10


class CheckSegregation(base.Command):
    """Check that a cloud's shared and dedicated guests are kept apart.

    Looks at hosts, resource providers, traits, inventories, aggregates,
    flavors and servers, and lists what is wrong, what that breaks, and the
    commands that mend it. Nothing is changed. Ends in status 1 if anything is
    found that --fail-on counts.
    """

    epilog = """
        Examples::

          openstack --os-cloud north pinning segregation check
          openstack pinning segregation check --hosts hosts/ cmp-d-1 cmp-d-2
          openstack pinning segregation check --format prometheus \\
            --output /var/lib/node_exporter/textfile/segregation.prom
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('names', metavar='HOST', nargs='*',
                            help='compute services to check, with their '
                            'servers; the whole cloud, with its flavors, if '
                            'none is named')
        parser.add_argument('--hosts', metavar='DIR',
                            help='host files, which tell how many CPUs each '
                            'host sets aside for emulator threads; the name '
                            'in the file is that of the compute service')
        parser.add_argument('--provider-configs', metavar='DIR',
                            help="the hosts' provider.yaml files, as "
                            'HOST.yaml or in directories HOST; without, '
                            'nothing is known of them')
        parser.add_argument('--emulator-cpus', metavar='N',
                            type=options.number(0, 10 ** 6),
                            help='VCPU that a dedicated host may offer where '
                            'no host file tells (default: '
                            f'{rule.EMULATOR_CPUS} if any flavor has '
                            'hw:emulator_threads_policy=share, else 0)')
        parser.add_argument('--jobs', metavar='N',
                            type=options.number(1, _MOST_JOBS),
                            default=run.JOBS,
                            help='requests that are made at once, up to '
                            f'{_MOST_JOBS} (default: %(default)s)')
        reporting.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.names and parsed_args.format == 'prometheus':
            raise errors.InputError(
                'the figures of single hosts would be taken for those of the '
                'whole cloud', errors.Location('--format prometheus'),
                'name no hosts')
        reporting.check_output(parsed_args)
        settings = run.Settings(
            hosts=frozenset(parsed_args.names),
            descriptions={
                one.name: one
                for one in load.load_directory(parsed_args.hosts)
            } if parsed_args.hosts else {},
            configs=(configs.load(parsed_args.provider_configs)
                     if parsed_args.provider_configs else {}),
            emulator_cpus=parsed_args.emulator_cpus, jobs=parsed_args.jobs)
        audit = run.audit(
            self.host_cloud, settings,
            functools.partial(applying.with_progress, what='hosts'))
        for name in audit.unmatched:
            print(f'note: there is a file for host {name}, which the cloud '
                  'does not have', file=sys.stderr)
        self._write(audit, parsed_args)
        return findings.exit_status(
            audit.findings, finding.Severity(parsed_args.fail_on))

    def _write(self, audit: run.Audit,
               parsed_args: argparse.Namespace) -> None:
        def exposition() -> str:
            # Only here, for it takes a while to load.
            from nova_pinning.segregation import metrics
            return metrics.exposition(audit)

        reporting.write(
            parsed_args, show=functools.partial(report.show, audit),
            as_dict=lambda: report.as_dict(audit, self.cloud.name),
            exposition=exposition)
