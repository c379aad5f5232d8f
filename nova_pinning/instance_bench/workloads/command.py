# SPDX-License-Identifier: Apache-2.0
"""Commands with what stands for values in braces filled in.

Braces are as str.format has them: ``{threads}`` is a value, ``{{`` and ``}}``
are the braces themselves. A parameter has no characters that mean something
to the shell, so it is text wherever it stands; paths are quoted if they need
it.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses
import re
import shlex
import string
from typing import Self

from nova_pinning import cpuset
from nova_pinning.instance_bench import bench_errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import platform_interface
from nova_pinning.instance_bench.workloads import programs

#: What every command can name, besides the parameters of its workload.
VALUES = ('vcpus', 'cpus', 'cpu0', 'cpu1', 'memory_mib', 'programs', 'work',
          'peer')
#: Those of them that are whole numbers. A parameter can stand for one:
#: ``threads: '{vcpus}'``.
NUMBERS = ('vcpus', 'memory_mib')
#: What a peer can name: it runs on the host, where directories of instances
#: are not.
PEER_VALUES = (*NUMBERS, 'peer', 'sources')

_REFERENCE = re.compile(r'\{(' + '|'.join(NUMBERS) + r')\}')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InstanceValues:
    """What an instance gives for braces in commands.

    :param vcpus: its size
    :param cpus: as it sees them, in order; a floating one can see more than
        it has vCPUs
    :param programs: directory of the project's programs, as it sees it
    :param work: directory of its own
    :param peer: address of the host
    """

    vcpus: int
    cpus: cpuset.CpuSet
    memory_mib: int
    programs: str
    work: str
    peer: str = ''

    @classmethod
    def of(cls, instance: platform_interface.Instance,
           size: bench_model.InstanceSize) -> Self:
        return cls(vcpus=size.vcpus, cpus=instance.cpus,
                   memory_mib=size.memory_mib, programs=instance.programs,
                   work=instance.work, peer=instance.peer)


def fill(text: str, parameters: Mapping[str, bench_model.Parameter],
         values: InstanceValues) -> str:
    """A command as the shell is to have it.

    :param parameters: all of the workload's, see :func:`merge`
    :raises bench_errors.WorkloadError: if it names what the instance has not,
        such as a second CPU, or what nothing is known of
    """
    # Only what is asked for: an instance with one CPU has no second.
    pieces = []
    for literal, name in _parts(text):
        pieces.append(literal)
        if name:
            pieces.append(shlex.quote(str(_value(name, parameters, values))))
    return ''.join(pieces)


def merge(
    workload: bench_model.Workload, given: Mapping[str, bench_model.Parameter]
) -> dict[str, bench_model.Parameter]:
    """The parameters of a command: those given, and defaults for the rest."""
    return {**workload.parameters, **given}


def names(text: str) -> frozenset[str]:
    """What stands in braces.

    :raises ValueError: if braces are not as str.format has them, or hold
        something other than a name
    """
    return frozenset(name for _literal, name in _parts(text) if name)


def reference(value: object) -> str:
    """Which of NUMBERS a parameter stands for, '' for none."""
    match = isinstance(value, str) and _REFERENCE.fullmatch(value)
    return match[1] if match else ''


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Text and the name after it, '' at the end.

    :raises ValueError: as :func:`names` does
    """
    for literal, name, spec, conversion in string.Formatter().parse(text):
        if name is not None and (
                spec or conversion or not name.isidentifier()):
            raise ValueError(f'{{{name}}} is not a name in braces')
        yield literal, name or ''


def _value(name: str, parameters: Mapping[str, bench_model.Parameter],
           values: InstanceValues) -> object:
    if name in parameters:
        value = parameters[name]
        named = reference(value)
        return getattr(values, named) if named else value
    if name in ('cpu0', 'cpu1'):
        cpus = tuple(values.cpus)
        index = int(name[-1])
        if index >= len(cpus):
            raise bench_errors.WorkloadError(
                f'the command needs {index + 1} CPUs, and the instance has '
                f'{len(cpus)}', 'give it a larger size')
        return cpus[index]
    if name == 'sources':
        return programs.sources()
    if name not in VALUES:
        raise bench_errors.WorkloadError(
            f'the command names {{{name}}}, which is not a parameter')
    value = getattr(values, name)
    if value == '':
        raise bench_errors.WorkloadError(
            f'the command needs {{{name}}}, and the instance has none')
    return value
