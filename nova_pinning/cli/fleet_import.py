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

"""nova-pinning fleet import: snapshots from what others have written."""

import argparse

from nova_pinning.cli import base
from nova_pinning.cli import fleets
from nova_pinning.fleet.importers import bytedance


class ImportBytedance(base.Command):
    """Make a fleet snapshot of ByteDance's data set.

    It has 279 real hosts with 2,089 guests in two clusters, as clusters.json
    of github.com/bytedance/DRL-based-VM-Rescheduling has them.

    The data says which NUMA nodes a guest is in, but not which CPUs it has
    there. They are those that nova would choose, guests taken in the order
    of the file.
    """

    epilog = """
        Examples::

          nova-pinning fleet import bytedance clusters.json -o fleet.json.zst
          nova-pinning fleet import bytedance clusters.json \\
            --cluster cluster2 | nova-pinning fleet show -
        """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument('data', metavar='DATA',
                            help='clusters.json of the data set')
        parser.add_argument('--cluster', metavar='NAME', default='',
                            help='import this cluster only; otherwise all, '
                            'each as an aggregate')
        fleets.add_output(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        fleets.check_output(parsed_args)
        with fleets.progress('importing'):
            fleet = bytedance.read(parsed_args.data, parsed_args.cluster)
        fleets.save(parsed_args, fleet)
        return base.OK
