# SPDX-License-Identifier: Apache-2.0
"""The register of nova's defects, read from register.yaml.

register-1.json is its JSON Schema.
"""

from collections.abc import Mapping
import dataclasses
import functools
from importlib import resources
from typing import Any

from nova_pinning.checks import check_rule
from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.model import nova_release
from nova_pinning.upgrade import defect_model
from nova_pinning.upgrade import hits
from nova_pinning.upgrade import nova_version

_FILE = 'register.yaml'


@dataclasses.dataclass(frozen=True, slots=True)
class DefectRegister:
    """What the register has.

    :param newest: version of each release, by the release's name
    :param groups: headings by the first two characters of codes
    :param defects: in the order of the file
    """

    newest: Mapping[str, nova_version.Numbers]
    groups: Mapping[str, str]
    defects: tuple[defect_model.Defect, ...]

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
    schema.validate(document, schema.shipped(__package__, 'register-1.json'))
    value = document.value
    newest = {
        _release(document, name, ('newest', name)).name:
        nova_version.numbers(version)
        for name, version in value['newest'].items()}
    missing = [release.name for release in nova_release.RELEASES
               if release.name not in newest]
    if missing:
        raise document.error(
            f'the newest version of {", ".join(missing)} is missing',
            ('newest',))
    defects = tuple(
        _defect(document, entry, number, value['groups'])
        for number, entry in enumerate(value['defects']))
    _check_unique(document, defects)
    return DefectRegister(newest, value['groups'], defects)


def _check_unique(document: source.YamlDocument,
                  defects: tuple[defect_model.Defect, ...]) -> None:
    for key, name in (('code', 'code'), ('bug', 'bug')):
        seen = set()
        for number, defect in enumerate(defects):
            value = getattr(defect, key)
            if value and value in seen:
                raise document.error(
                    f'a second defect has the {name} {value}',
                    ('defects', number, key))
            seen.add(value)


def _defect(document: source.YamlDocument, entry: Mapping[str, Any],
            number: int, groups: Mapping[str, str]) -> defect_model.Defect:
    path: source.Path = ('defects', number)
    if entry['code'][:2] not in groups:
        raise document.error('belongs to no group', (*path, 'code'))
    if entry['hits'] not in hits.GUEST_HITS | hits.HOST_HITS:
        raise document.error(
            f'there is no function {entry["hits"]}', (*path, 'hits'),
            schema.nearest(entry['hits'], hits.GUEST_HITS | hits.HOST_HITS))
    [(proof_kind, proof)] = entry['shown_by'].items()

    def release_of(key: str) -> nova_release.NovaRelease | None:
        if key not in entry:
            return None
        return _release(document, entry[key], (*path, key))

    return defect_model.Defect(
        code=entry['code'], bug=str(entry.get('bug', '')),
        title=entry['title'], why=entry['why'],
        severity=check_rule.Severity(entry['severity']),
        operations=tuple(map(defect_model.Operation, entry['operations'])),
        service=defect_model.NovaService(entry['service']),
        hits=entry['hits'], before=entry['before'],
        proof_kind=defect_model.ProofKind(proof_kind), proof=proof,
        since=_first_versions(document, entry, (*path, 'since')),
        fixed=_first_versions(document, entry, (*path, 'fixed')),
        started_before=release_of('started_before'),
        beside=release_of('beside'), after=entry.get('after', ''),
        on_the_way_out=entry.get('on_the_way_out', ''),
        commands=tuple(entry.get('commands', ())),
        where=document.locate(path))


def _first_versions(document: source.YamlDocument, entry: Mapping[str, Any],
                    path: source.Path) -> defect_model.FirstVersions:
    firsts = []
    for name, first in entry.get(str(path[-1]), {}).items():
        release = _release(document, name, (*path, name))
        numbers = nova_version.numbers(first)
        if numbers[0] != release.major:
            raise document.error(
                f'{first} is not a version of {name}', (*path, name))
        firsts.append((release, numbers))
    return tuple(sorted(firsts))


def _release(document: source.YamlDocument, name: str,
             path: source.Path) -> nova_release.NovaRelease:
    try:
        return nova_release.of_name(name)
    except nova_release.UnknownRelease as error:
        raise document.error(str(error), path) from None
