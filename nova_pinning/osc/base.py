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

"""What the commands under ``openstack pinning`` have in common."""

import argparse
import functools
import sys

from osc_lib.command import command

from nova_pinning.cli import base
from nova_pinning import errors
from nova_pinning.flavors import cloud
from nova_pinning.segregation import cloud as segregation_cloud


class Command(command.Command):
    """A command that asks a cloud.

    ``epilog`` has examples, as in nova-pinning's commands. Bad input ends in
    status 2, a cloud that cannot be worked with in 1.
    """

    epilog = ''

    @property
    def cloud(self) -> cloud.Cloud:
        """The cloud to work with."""
        return self.app.client_manager.pinning

    @functools.cached_property
    def host_cloud(self) -> segregation_cloud.Cloud:
        """The same cloud's hosts, aggregates and servers."""
        return segregation_cloud.Cloud(
            self.app.client_manager.sdk_connection, self.cloud.name)

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return base.shape(super().get_parser(prog_name),
                          self.get_description(), self.epilog)

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            status = super().run(parsed_args)
            sys.stdout.flush()
            return status
        except errors.InputError as error:
            return base.report_input_error(error)
        except errors.CloudError as error:
            print(f'error: cloud {self.cloud.name}: {error}', file=sys.stderr)
            return base.FINDINGS
        except OSError as error:
            reported = base.report_output_error(error)
            if reported is None:
                raise
            return reported
