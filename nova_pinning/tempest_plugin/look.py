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

"""One look at a guest on a host: at libvirt and at the kernel."""

import dataclasses

from nova_pinning.host import domain
from nova_pinning.host import qemu_process
from nova_pinning.tempest_plugin import output
from nova_pinning.tempest_plugin import process
from nova_pinning.tempest_plugin import runner

# The order matters: the threads are looked at after the XML was read, so an
# XML that is right and threads that are not yet is an error of libvirt's.
_SCRIPT = """
set -e
domains=$({virsh} list --all --uuid)
{domains}
echo "$domains"
case $domains in *{server_id}*)
    {live}
    {virsh} dumpxml {server_id}
    {persistent}
    {virsh} dumpxml --inactive {server_id}
esac
set +e
{threads}
{script}
true
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A guest on a host.

    :param live: what libvirt says of it now
    :param persistent: what libvirt will start the next time
    :param qemu: None if it does not run
    """

    live: domain.Domain
    persistent: domain.Domain
    qemu: qemu_process.Process | None


def at_guest(
    commands: runner.Runner, host: str, virsh: str, server_id: str,
) -> Guest | None:
    """Look at a guest.

    :param virsh: how virsh is called there
    :param server_id: the server's UUID
    :returns: None if the host knows nothing of it
    :raises runner.CommandError: if one cannot look
    :raises ValueError: if what is seen makes no sense, or if there is a
        process without a domain
    """
    return parse(commands.script(host, _script(virsh, server_id)), server_id)


def parse(text: str, server_id: str) -> Guest | None:
    """Read what the script prints.

    :raises ValueError: as at_guest() does
    """
    found = output.sections(text)
    qemu = process.parse(found['threads'])
    if server_id not in found['domains'].split():
        if qemu:
            raise ValueError(
                f'process {qemu.pid} runs guest {server_id}, of which libvirt '
                f'knows nothing')
        return None
    return Guest(domain.parse(found['live']),
                 domain.parse(found['persistent']), qemu)


def _script(virsh: str, server_id: str) -> str:
    return _SCRIPT.format(
        virsh=virsh, server_id=server_id, script=process.script(server_id),
        **{section: output.mark(section)
           for section in ('domains', 'live', 'persistent', 'threads')})
