# SPDX-License-Identifier: Apache-2.0
"""Makes a trace for ``nova-pinning simulate`` of Azure's trace of 2017.

It is AzurePublicDatasetV1 (CC BY 4.0; Cortez et al., Resource Central, SOSP
2017), from which huaweicloud/trace_generation_rnn took the arrivals of six
days: in bins of 300 s the flavors that arrived, by batches of one tenant, and
in which bin of lifetimes each was. The archive has the texts of that
repository. Whoever shows figures of it names both, and the licence.
"""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
import csv
import io
import os
import pathlib
import random
import sys
import tarfile
from typing import NamedTuple
from typing import TextIO

from benchmarks import datasets
from nova_pinning.cli import base_command
from nova_pinning.document import atomic_file
from nova_pinning import errors
from nova_pinning import units

ATTRIBUTION = (
    "Azure's trace of 2017: AzurePublicDatasetV1 (E. Cortez et al., Resource "
    'Central, SOSP 2017), CC BY 4.0, as processed by '
    'huaweicloud/trace_generation_rnn')

_FLAVORS = 'flav_map.txt'
_LIFETIMES = 'v1.interval_map.txt'
_ARRIVED = 'v1.test.txt'
_LIVED = 'v1.test.c2591400.txt'
_BIN_SECONDS = 300
_END_OF_BATCH = '|'
_RUNNING, _ENDED = 'C', 'U'
_HEADER = ('time', 'id', 'vcpus', 'memory', 'lifetime')


class AzureVm(NamedTuple):
    """A virtual machine of the trace.

    :param time_seconds: since the first bin began
    :param batch: number of the batch of one tenant that it came with
    :param lifetime_seconds: None if it outlived the trace
    """

    time_seconds: float
    id: str
    batch: int
    vcpus: int
    memory_mib: int
    lifetime_seconds: float | None


def path_of() -> pathlib.Path:
    """Where the archive lies, if it is there."""
    return datasets.path_of('azure-2017/v1-test.tar.xz')


def read(path: str | os.PathLike[str], seed: int = 0) -> Iterator[AzureVm]:
    """The virtual machines, in the order of their arrivals.

    Those of a bin come in equal steps over its 300 s. How long one lived is
    drawn evenly from its bin of lifetimes.

    :param seed: of these draws
    :raises errors.InputError: if the archive cannot be read, or its files do
        not agree with each other
    """
    texts = _texts(path)
    sizes = dict(_sizes(texts[_FLAVORS], f'{path}:{_FLAVORS}'))
    spans = _spans(texts[_LIFETIMES], f'{path}:{_LIFETIMES}')
    draws = random.Random(f'azure-{seed}')
    where = f'{path}:{_ARRIVED}'
    first: float | None = None
    batch = number = 0
    for line, (begin, arrived, lived) in enumerate(
            _bins(texts[_ARRIVED], texts[_LIVED], where), 1):
        first = begin if first is None else first
        count = sum(flavor != _END_OF_BATCH for flavor in arrived)
        place = 0
        for flavor, life in zip(arrived, lived):
            if flavor == _END_OF_BATCH:
                batch += 1
                continue
            low, high = spans.get(life[1:], (0.0, 0.0))
            if flavor not in sizes or not high or (
                    life[0] not in (_RUNNING, _ENDED)):
                raise errors.InputError(
                    f'{flavor!r} with the lifetime {life!r} is not known',
                    errors.Location(where, line))
            lifetime = draws.uniform(low, high)
            yield AzureVm(
                begin - first + _BIN_SECONDS * place / count, f'vm{number}',
                batch, *sizes[flavor],
                None if life[0] == _RUNNING else round(lifetime, 3))
            place += 1
            number += 1


def _texts(path: str | os.PathLike[str]) -> Mapping[str, list[str]]:
    where = errors.Location(str(path))
    texts = {}
    try:
        with tarfile.open(path) as archive:
            for name in (_FLAVORS, _LIFETIMES, _ARRIVED, _LIVED):
                member = archive.extractfile(f'./{name}')
                assert member is not None
                texts[name] = io.TextIOWrapper(
                    member, 'ascii').read().splitlines()
    except KeyError as error:
        raise errors.InputError(str(error.args[0]), where) from None
    except (OSError, EOFError, UnicodeDecodeError, tarfile.TarError) as error:
        raise errors.InputError(
            f'cannot be read: {error}', where,
            'set NOVA_PINNING_DATA to the directory that has '
            'azure-2017/v1-test.tar.xz') from None
    return texts


def _sizes(lines: Iterable[str],
           where: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """vCPUs and MiB by the letter of a flavor: ``2,3.5 g``."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            size, letter = line.split()
            vcpus, gib = size.split(',')
            yield letter, (int(vcpus), round(float(gib) * units.MIB_PER_GIB))
        except ValueError:
            raise errors.InputError(
                f'{line!r} is not vCPUs, GiB and a letter',
                errors.Location(where, number)) from None


def _spans(lines: Iterable[str],
           where: str) -> Mapping[str, tuple[float, float]]:
    """From when to when the lifetimes of a bin last: ``3900 13``."""
    spans: dict[str, tuple[float, float]] = {}
    for number, line in enumerate(lines, 1):
        try:
            seconds, name = line.split()
            begin = float(seconds)
        except ValueError:
            raise errors.InputError(
                f'{line!r} is not a number of seconds and of a bin',
                errors.Location(where, number)) from None
        low, high = spans.get(name, (begin, begin))
        spans[name] = min(low, begin), max(high, begin + _BIN_SECONDS)
    return spans


def _bins(
    arrived: list[str], lived: list[str], where: str,
) -> Iterator[tuple[float, list[str], list[str]]]:
    """Each bin of time: its begin, flavors and lifetimes."""
    for number, (flavors, lifetimes) in enumerate(zip(arrived, lived), 1):
        begin, *first = flavors.split(maxsplit=1)
        other, *second = lifetimes.split(maxsplit=1)
        names, lives = [
            [item for item in ''.join(text).split(',') if item]
            for text in (first, second)]
        if begin != other or [name == _END_OF_BATCH for name in names] != [
                life == _END_OF_BATCH for life in lives]:
            raise errors.InputError(
                f'is not of the same machines as that line of {_LIVED}',
                errors.Location(where, number))
        yield float(begin), names, lives


def write(machines: Iterable[AzureVm], file: TextIO) -> None:
    """Write a trace as ``simulate --trace`` reads it."""
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow(_HEADER)
    for machine in machines:
        writer.writerow([
            f'{machine.time_seconds:.3f}', machine.id, machine.vcpus,
            machine.memory_mib,
            '' if machine.lifetime_seconds is None
            else machine.lifetime_seconds])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks.azure', description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        'archive', nargs='?', default=path_of(), type=pathlib.Path,
        help='v1-test.tar.xz (default: that of the data beside the checkout)')
    parser.add_argument('--seed', type=int, default=0,
                        help='of the lifetimes within their bins')
    parser.add_argument('-o', '--output', metavar='FILE', required=True,
                        help='write the trace here')
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Write the trace."""
    args = _parser().parse_args(arguments)
    try:
        text = io.StringIO()
        write(read(args.archive, args.seed), text)
        atomic_file.replace(args.output, text.getvalue())
    except errors.InputError as error:
        return base_command.report_input_error(error)
    print(ATTRIBUTION, file=sys.stderr)
    return base_command.OK


if __name__ == '__main__':
    sys.exit(main())
