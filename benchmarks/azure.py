# SPDX-License-Identifier: Apache-2.0
"""Reads Azure's trace of 2017.

From AzurePublicDatasetV1, huaweicloud/trace_generation_rnn took the arrivals:
in bins of 300 s the flavors that came, by batches of one tenant, and in which
bin of lifetimes each was. The archive has the texts of that repository.
"""

from collections.abc import Mapping
from collections.abc import Sequence
import functools
import os
import random
import tarfile
from typing import NamedTuple

from nova_pinning import errors
from nova_pinning import units

ARCHIVE = 'azure-2017/v1-test.tar.xz'
ATTRIBUTION = (
    "Azure's trace of 2017 (AzurePublicDatasetV1, CC BY 4.0; E. Cortez et "
    'al., Resource Central, SOSP 2017, as processed by '
    'huaweicloud/trace_generation_rnn)')

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


@functools.lru_cache(maxsize=1)
def read(path: str | os.PathLike[str]) -> Sequence[AzureVm]:
    """The virtual machines, in the order of their arrivals.

    Those of a bin come in equal steps over its 300 s. How long one lived is
    drawn evenly from its bin of lifetimes.

    :raises errors.InputError: if it cannot be read, or is not that archive
    """
    try:
        with tarfile.open(path) as archive:
            return _machines({
                member.name: _lines(archive, member)
                for member in archive.getmembers()
                if member.name.endswith('.txt')})
    except (OSError, EOFError, KeyError, ValueError,
            tarfile.TarError) as error:
        raise errors.InputError(
            f'is not the archive, or was changed: {error}',
            errors.Location(str(path))) from None


def _lines(archive: tarfile.TarFile, member: tarfile.TarInfo) -> list[str]:
    file = archive.extractfile(member)
    assert file is not None
    return list(filter(None, file.read().decode('ascii').splitlines()))


def _machines(texts: Mapping[str, list[str]]) -> list[AzureVm]:
    """:raises KeyError, ValueError: for what is not as in the archive"""
    draws = random.Random('azure')
    sizes = dict(map(_size, texts['./flav_map.txt']))
    spans: dict[str, tuple[float, float]] = {}
    for seconds, name in map(str.split, texts['./v1.interval_map.txt']):
        low, _high = spans.get(name, (float(seconds), 0.0))
        spans[name] = low, float(seconds) + _BIN_SECONDS
    machines: list[AzureVm] = []
    batch = 0
    bins = [(float(begin), arrived.split(','), lived.split(','))
            for (begin, arrived), (_begin, lived) in zip(
                map(_bin, texts['./v1.test.txt']),
                map(_bin, texts['./v1.test.c2591400.txt']), strict=True)]
    for begin, arrived, lived in bins:
        step = _BIN_SECONDS / (len(arrived) - arrived.count(_END_OF_BATCH))
        time = begin - bins[0][0]
        for flavor, life in zip(arrived, lived, strict=True):
            if flavor == _END_OF_BATCH:
                batch += 1
                continue
            lifetime = round(draws.uniform(*spans[life[1:]]), 3)
            machines.append(AzureVm(
                time, f'vm{len(machines)}', batch, *sizes[flavor],
                None if life[0] == _RUNNING else lifetime))
            time += step
    return machines


def _size(line: str) -> tuple[str, tuple[int, int]]:
    """The letter of a flavor, with its vCPUs and MiB: ``2,3.5 g``."""
    size, letter = line.split()
    vcpus, gib = size.split(',')
    return letter, (int(vcpus), round(float(gib) * units.MIB_PER_GIB))


def _bin(line: str) -> tuple[str, str]:
    """When a bin of time begins, and what is in it: ``2100000 b,|,c``."""
    begin, items = line.split(maxsplit=1)
    return begin, ''.join(items.split()).strip(',')
