# SPDX-License-Identifier: Apache-2.0
"""The register of nova's defects, read from register.yaml."""

from collections.abc import Mapping
import dataclasses
import functools
from importlib import resources
import re
from typing import Annotated

from nova_pinning.document import codec
from nova_pinning.document import source
from nova_pinning.document import typed_document
from nova_pinning import errors
from nova_pinning.model import nova_release
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import nova_version

_FILE = 'register.yaml'


@dataclasses.dataclass(frozen=True, slots=True)
class DefectRegister:
    """What the register has.

    :param newest: version of each release, by the release's name
    :param groups: headings by the first two characters of codes
    :param defects: in the order of the file
    """

    newest: Mapping[str, defect_model.Version]
    groups: Mapping[str, defect_model.Sentence]
    defects: Annotated[tuple[defect_model.Defect, ...], codec.Limit(
        title='a list of defects', minItems=1)]

    def version(self, text: str, where: str) -> nova_version.NovaVersion:
        """A version of nova by what people call it.

        :param where: the option that says so
        :raises errors.InputError: if there is none
        """
        return nova_version.parse(text, self.newest, errors.Location(where))

    def of_release(self, name: str) -> nova_version.NovaVersion:
        """The newest version of a release that is known."""
        return nova_version.NovaVersion(
            name, self.newest[name], nova_release.of_name(name))


@functools.cache
def shipped() -> DefectRegister:
    """The register that comes with this package."""
    return parse(resources.files(__package__).joinpath(_FILE).read_text(
        'utf-8'), _FILE)


def parse(text: str, source_name: str) -> DefectRegister:
    """A register from the text of its document.

    :param source_name: what errors call it
    :raises errors.InputError: with the place of what is wrong
    """
    document = source.parse(text, source_name)
    register: DefectRegister = typed_document.read(DefectRegister, document, 1)
    names = [release.name for release in nova_release.RELEASES]
    if unknown := [name for name in register.newest if name not in names]:
        raise document.error('is not a release that is known here',
                             ('newest', unknown[0]))
    if missing := [name for name in names if name not in register.newest]:
        raise document.error(
            f'the newest version of {", ".join(missing)} is missing',
            ('newest',))
    for name in register.groups:
        if not re.fullmatch('U[1-9]', name):
            raise document.error('is not a group such as U1',
                                 ('groups', name))
    seen: set[str] = set()
    for number, defect in enumerate(register.defects):
        path: source.Path = ('defects', number)
        if defect.code[:2] not in register.groups:
            raise document.error('belongs to no group', (*path, 'code'))
        for key in ('code', 'bug'):
            value = getattr(defect, key)
            if value in seen:
                raise document.error(f'a second defect has the {key} {value}',
                                     (*path, key))
            seen |= {value} - {''}
    return dataclasses.replace(register, defects=tuple(
        dataclasses.replace(defect, where=document.locate(('defects', number)))
        for number, defect in enumerate(register.defects)))
