# SPDX-License-Identifier: Apache-2.0
"""One look at a guest on a host: at libvirt and at the kernel."""

import dataclasses

from nova_pinning.host import domain_xml
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
class ObservedGuest:
    """A guest on a host.

    :param live: what libvirt says of it now
    :param persistent: what libvirt will start the next time
    :param qemu: None if it does not run
    """

    live: domain_xml.DomainXml
    persistent: domain_xml.DomainXml
    qemu: qemu_process.QemuProcess | None


def at_guest(
    commands: runner.CommandRunner, host: str, virsh: str, server_id: str,
) -> ObservedGuest | None:
    """Look at a guest.

    :param virsh: how virsh is called there
    :param server_id: the server's UUID
    :returns: None if the host knows nothing of it
    :raises runner.CommandError: if one cannot look
    :raises ValueError: if what is seen makes no sense, or if there is a
        process without a domain
    """
    return parse(commands.script(host, _script(virsh, server_id)), server_id)


def parse(text: str, server_id: str) -> ObservedGuest | None:
    """Read what the script prints.

    :raises ValueError: as at_guest() does
    """
    sections = output.sections(text)
    qemu = process.parse(sections['threads'])
    if server_id not in sections['domains'].split():
        if qemu:
            raise ValueError(
                f'process {qemu.pid} runs guest {server_id}, of which libvirt '
                f'knows nothing')
        return None
    return ObservedGuest(domain_xml.parse(sections['live']),
                         domain_xml.parse(sections['persistent']), qemu)


def _script(virsh: str, server_id: str) -> str:
    return _SCRIPT.format(
        virsh=virsh, server_id=server_id, script=process.script(server_id),
        **{section: output.mark(section)
           for section in ('domains', 'live', 'persistent', 'threads')})
