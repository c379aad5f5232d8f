# SPDX-License-Identifier: Apache-2.0
"""Reads Azure's trace of 2017, for the study of moves.

It is AzurePublicDatasetV1 (CC BY 4.0; Cortez et al., Resource Central, SOSP
2017), from which huaweicloud/trace_generation_rnn took the arrivals of six
days: in bins of 300 s the flavors that arrived, by batches of one tenant, and
in which bin of lifetimes each was. The archive has the texts of that
repository. Whoever shows figures of it names both, and the licence.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import os
import pathlib
import random
import tarfile
from typing import NamedTuple

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
_RUNNING = 'C'


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
    :raises errors.InputError: if it cannot be read, or is not that archive
    """
    try:
        yield from _machines(_texts(path), random.Random(f'azure-{seed}'))
    except (OSError, EOFError, UnicodeDecodeError,
            tarfile.TarError) as error:
        raise errors.InputError(
            f'cannot be read: {error}', errors.Location(str(path)),
            'set NOVA_PINNING_DATA to the directory that has '
            'azure-2017/v1-test.tar.xz') from None
    except (KeyError, ValueError) as error:
        raise errors.InputError(
            f'is not the archive, or was changed: {error}',
            errors.Location(str(path))) from None


def _machines(texts: Mapping[str, list[str]],
              draws: random.Random) -> Iterator[AzureVm]:
    """:raises KeyError, ValueError: for what is not as in the archive"""
    sizes = dict(map(_size, texts[_FLAVORS]))
    spans: dict[str, tuple[float, float]] = {}
    for seconds, name in map(str.split, texts[_LIFETIMES]):
        low, _high = spans.get(name, (float(seconds), 0.0))
        spans[name] = low, float(seconds) + _BIN_SECONDS
    batch = number = 0
    first: float | None = None
    for (begin, arrived), (_begin, lived) in zip(
            map(_bin, texts[_ARRIVED]), map(_bin, texts[_LIVED]), strict=True):
        first = begin if first is None else first
        count = len(arrived) - arrived.count(_END_OF_BATCH)
        place = 0
        for flavor, life in zip(arrived, lived, strict=True):
            if flavor == _END_OF_BATCH:
                batch += 1
                continue
            lifetime = draws.uniform(*spans[life[1:]])
            yield AzureVm(
                begin - first + _BIN_SECONDS * place / count, f'vm{number}',
                batch, *sizes[flavor],
                None if life[0] == _RUNNING else round(lifetime, 3))
            place += 1
            number += 1


def _texts(path: str | os.PathLike[str]) -> Mapping[str, list[str]]:
    """Lines of the files, but for empty ones."""
    texts = {}
    with tarfile.open(path) as archive:
        for name in (_FLAVORS, _LIFETIMES, _ARRIVED, _LIVED):
            member = archive.extractfile(f'./{name}')
            assert member is not None
            texts[name] = list(filter(
                None, member.read().decode('ascii').splitlines()))
    return texts


def _size(line: str) -> tuple[str, tuple[int, int]]:
    """The letter of a flavor, with its vCPUs and MiB: ``2,3.5 g``."""
    size, letter = line.split()
    vcpus, gib = size.split(',')
    return letter, (int(vcpus), round(float(gib) * units.MIB_PER_GIB))


def _bin(line: str) -> tuple[float, list[str]]:
    """When a bin of time begins, and what is in it: ``2100000 b,|,c``."""
    begin, *items = line.split(maxsplit=1)
    return float(begin), [
        item for item in ''.join(items).split(',') if item]
