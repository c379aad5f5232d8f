# SPDX-License-Identifier: Apache-2.0
"""Reads Azure's trace of 2017, for the study of moves.

It is AzurePublicDatasetV1 (CC BY 4.0; Cortez et al., Resource Central, SOSP
2017), from which huaweicloud/trace_generation_rnn took the arrivals of six
days: in bins of 300 s the flavors that arrived, by batches of one tenant, and
in which bin of lifetimes each was. The archive has the texts of that
repository. Whoever shows figures of it names both, and the licence.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import os
import pathlib
import random
import tarfile
from typing import NamedTuple
from typing import TypeVar

from benchmarks import datasets
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
_Parsed = TypeVar('_Parsed')


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

    def lines(name: str, what: str,
              parse: Callable[[str], _Parsed]) -> Iterator[_Parsed]:
        """What stands on the lines of a file, but for empty ones."""
        for number, line in enumerate(texts[name], 1):
            try:
                if line.strip():
                    yield parse(line)
            except (ValueError, KeyError):
                raise errors.InputError(
                    f'{line!r} is not {what}',
                    errors.Location(f'{path}:{name}', number)) from None

    sizes = dict(lines(_FLAVORS, 'vCPUs, GiB and a letter', _size))
    spans: dict[str, tuple[float, float]] = {}
    for name, begin in lines(
            _LIFETIMES, 'a number of seconds and of a bin', _span):
        low, high = spans.get(name, (begin, begin))
        spans[name] = min(low, begin), max(high, begin + _BIN_SECONDS)
    draws = random.Random(f'azure-{seed}')
    batch = number = 0
    bins = zip(lines(_ARRIVED, 'a bin of flavors', _bin),
               lines(_LIVED, 'a bin of lifetimes', _bin))
    first: float | None = None
    for line, ((begin, arrived), (other, lived)) in enumerate(bins, 1):
        where = errors.Location(f'{path}:{_ARRIVED}', line)
        first = begin if first is None else first
        if begin != other or [name == _END_OF_BATCH for name in arrived] != [
                life == _END_OF_BATCH for life in lived]:
            raise errors.InputError(
                f'is not of the same machines as that line of {_LIVED}', where)
        count = len(arrived) - arrived.count(_END_OF_BATCH)
        place = 0
        for flavor, life in zip(arrived, lived):
            if flavor == _END_OF_BATCH:
                batch += 1
                continue
            if flavor not in sizes or life[1:] not in spans or (
                    life[0] not in (_RUNNING, _ENDED)):
                raise errors.InputError(
                    f'{flavor!r} with the lifetime {life!r} is not known',
                    where)
            lifetime = draws.uniform(*spans[life[1:]])
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
                texts[name] = member.read().decode('ascii').splitlines()
    except KeyError as error:
        raise errors.InputError(str(error.args[0]), where) from None
    except (OSError, EOFError, UnicodeDecodeError, tarfile.TarError) as error:
        raise errors.InputError(
            f'cannot be read: {error}', where,
            'set NOVA_PINNING_DATA to the directory that has '
            'azure-2017/v1-test.tar.xz') from None
    return texts


def _size(line: str) -> tuple[str, tuple[int, int]]:
    """The letter of a flavor, with its vCPUs and MiB: ``2,3.5 g``."""
    size, letter = line.split()
    vcpus, gib = size.split(',')
    return letter, (int(vcpus), round(float(gib) * units.MIB_PER_GIB))


def _span(line: str) -> tuple[str, float]:
    """A bin of lifetimes, and one of the times that are in it: ``3900 13``."""
    seconds, name = line.split()
    return name, float(seconds)


def _bin(line: str) -> tuple[float, list[str]]:
    """When a bin of time begins, and what is in it: ``2100000 b,|,c``."""
    begin, *items = line.split(maxsplit=1)
    return float(begin), [
        item for item in ''.join(items).split(',') if item]
