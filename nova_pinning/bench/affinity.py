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

"""Where the processes of an instance may run, as the kernel says."""

from collections.abc import Iterable
from collections.abc import Iterator

from nova_pinning.bench import model
from nova_pinning import cpuset
from nova_pinning.host.check import processes
from nova_pinning.host import tree as host_tree


def of_processes(tree: host_tree.Tree, pids: Iterable[int],
                 asked: cpuset.CpuSet) -> Iterator[model.Affinity]:
    """One for each process, and for all of its threads.

    :param pids: those that have ended are left out
    :param asked: where all of them were to run
    """
    for pid in pids:
        threads = tuple(processes.threads(tree, pid))
        if threads:
            name = tree.text(f'/proc/{pid}/comm') or threads[0].name
            yield model.Affinity(
                thread=f'process {pid} ({name})', asked=asked,
                seen=cpuset.union(thread.cpus for thread in threads))
