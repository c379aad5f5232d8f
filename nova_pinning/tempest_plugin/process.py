# SPDX-License-Identifier: Apache-2.0
"""How a compute host is asked what the kernel says of a guest."""

from nova_pinning import cpuset
from nova_pinning.host import qemu_process
from nova_pinning.tempest_plugin import output

# UUID is part of a word wherever it stands, so that no other process than
# QEMU has it as its own argument.
_SCRIPT = r"""
for found in $(grep -lsxzF -eUUID /proc/[0-9]*/cmdline); do
    dir=${found%/cmdline}
    grep -Hs '' $dir/task/*/stat
    grep -Hs -e ^Cpus_allowed_list: -e ^VmLck: $dir/task/*/status
    grep -Hs -e ' huge ' -e ' bind' -e ' prefer' $dir/numa_maps
    for comm in $(grep -lsx vhost-${dir#/proc/} /proc/[0-9]*/comm); do
        grep -Hs '' ${comm%/comm}/stat
        grep -Hs ^Cpus_allowed_list: ${comm%/comm}/status
    done
done
"""


def script(server_id: str) -> str:
    """The shell commands that print what parse() reads.

    :param server_id: the server's UUID, which is the domain's as well
    """
    return _SCRIPT.replace('UUID', server_id)


def parse(text: str) -> qemu_process.QemuProcess | None:
    """Read what script() prints.

    :returns: None if there is no such process
    :raises ValueError: if there are several, or if it makes no sense
    """
    stats = {}
    fields: dict[str, dict[str, str]] = {}
    regions = []
    for path, line in output.files(text):
        directory, _slash, file = path.rpartition('/')
        if file == 'stat':
            stats[directory] = line
        elif file == 'status':
            key, _colon, value = line.partition(':')
            fields.setdefault(directory, {})[key] = value.strip()
        elif file == 'numa_maps' and qemu_process.is_guest_memory(line):
            regions.append(qemu_process.parse_region(line))
    pids = {path.split('/')[2] for path in stats if '/task/' in path}
    if not pids:
        return None
    if len(pids) > 1:
        raise ValueError(
            f'one guest has several processes: {", ".join(sorted(pids))}')
    threads = [qemu_process.parse_thread(
                   stats[path],
                   cpuset.CpuSet.parse(fields[path]['Cpus_allowed_list']))
               for path in stats
               # Else it ended between the two looks.
               if 'Cpus_allowed_list' in fields.get(path, {})]
    pid = pids.pop()
    leader = fields.get(f'/proc/{pid}/task/{pid}', {})
    locked = leader.get('VmLck', '0 kB').split()
    return qemu_process.qemu_process_of(
        int(pid), threads, int(locked[0]), tuple(regions))
