# SPDX-License-Identifier: Apache-2.0
"""Where the processes of an instance may run, as the kernel says."""

from collections.abc import Iterable
from collections.abc import Iterator

from nova_pinning import cpuset
from nova_pinning.host.check import processes
from nova_pinning.host import machine_files
from nova_pinning.instance_bench import bench_model


def of_processes(
        tree: machine_files.Tree, pids: Iterable[int],
        expected_cpus: cpuset.CpuSet) -> Iterator[bench_model.Affinity]:
    """One for each process, and for all of its threads.

    :param pids: those that have ended are left out
    :param expected_cpus: where all of them were to run
    """
    for pid in pids:
        threads = tuple(processes.threads(tree, pid))
        if threads:
            name = tree.text(f'/proc/{pid}/comm') or threads[0].name
            yield bench_model.Affinity(
                thread=f'process {pid} ({name})', asked=expected_cpus,
                seen=cpuset.union(thread.cpus for thread in threads))
