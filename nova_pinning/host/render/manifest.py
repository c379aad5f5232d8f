# SPDX-License-Identifier: Apache-2.0
"""What puts a plan into force: a list of files, and what is done with each.

README.txt and the forms for those who deploy with Ansible are made from this
list alone.
"""

import dataclasses
import enum
import textwrap

#: What begins the names of files that lie beside those of others.
NAME = '50-nova-pinning'

_WIDTH = 77


class ManifestPart(enum.Enum):
    """Who brings a file to where it belongs, if a tool deploys nova."""

    HOST = enum.auto()  # whoever runs the host
    BOOT_LOADER = enum.auto()  # whoever writes its configuration
    NOVA_CONF = enum.auto()
    TRAITS = enum.auto()  # provider.yaml


@dataclasses.dataclass(frozen=True, slots=True)
class RenderedFile:
    """A file that was rendered.

    :param path: relative to the root of the host, or to what the form has in
        its place
    :param summary: what it is, a phrase
    :param takes_effect: how it comes into force on a running host
    :param before_boot: what is to be done once it is in its place, a sentence
        or a command; '' for nothing
    :param after_boot: what is left to do then
    """

    path: str
    text: str
    summary: str
    takes_effect: str
    executable: bool = False
    part: ManifestPart = ManifestPart.HOST
    before_boot: str = ''
    after_boot: str = ''


def comment(*paragraphs: str) -> str:
    """Paragraphs as lines that begin with '#'."""
    return '#\n'.join(
        ''.join(f'# {line}\n' for line in textwrap.wrap(
            ' '.join(paragraph.split()), _WIDTH, break_long_words=False,
            break_on_hyphens=False))
        for paragraph in paragraphs)


def explained(host: str, file: RenderedFile, *more: str) -> RenderedFile:
    """A file with a comment at its top: what it is, and when it counts.

    :param host: what it was rendered of
    :param more: further paragraphs
    """
    summary = file.summary[0].upper() + file.summary[1:]
    head = comment(
        f'{summary}, of host {host}.',
        'Written by: nova-pinning host render. '
        f'Takes effect: {file.takes_effect}.', *more)
    shell = '#!/bin/sh\n' if file.executable else ''
    return dataclasses.replace(file, text=f'{shell}{head}{file.text}')
