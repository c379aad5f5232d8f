# SPDX-License-Identifier: Apache-2.0
"""What the build of an image leaves in a directory, and who reads it."""

from collections.abc import Mapping
import dataclasses
import json
import os
import pathlib

from nova_pinning.document import encoder
from nova_pinning.document import json_text
from nova_pinning.document import source
from nova_pinning.document import typed_document
from nova_pinning import errors

VERSION = 1
MANIFEST = 'manifest.json'
DISK = 'disk.qcow2'
KERNEL = 'vmlinuz'
INITRD = 'initrd'
#: Of the file system, by which the initial one finds it.
LABEL = 'pinning-bench'
#: For the kernel, by whatever it is booted.
KERNEL_ARGUMENTS = 'console=ttyS0 panic=-1 quiet'
#: What a guest takes as its address, with the length of the prefix.
ADDRESS_ARGUMENT = 'pinning_bench.address'

_ADVICE = 'bench run --image {} builds one where there is none'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an image holds.

    :param workloads: names of those that can run
    :param packages: versions by name
    """

    suite: str
    kernel: str
    workloads: tuple[str, ...]
    packages: Mapping[str, str]


def as_text(manifest: Manifest) -> str:
    return json.dumps({'version': VERSION, **encoder.encode(manifest)},
                      indent=2) + '\n'


def read(directory: str | os.PathLike[str]) -> Manifest:
    """The manifest of an image.

    :raises errors.InputError: if there is none, or of another version
    """
    path = pathlib.Path(directory) / MANIFEST
    try:
        document = json_text.parse(source.read(path), str(path))
        # Once an image could let keys in, and told more of itself.
        manifest: Manifest = typed_document.read(
            Manifest, document, VERSION, (
                'ssh', 'architecture', 'size_gib', 'programs'))
    except errors.InputError as error:
        raise errors.InputError(
            error.message, error.where, _ADVICE.format(directory)) from None
    return manifest
