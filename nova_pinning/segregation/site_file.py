# SPDX-License-Identifier: Apache-2.0
"""Site files: which hosts of a cloud are dedicated and which are shared.

doc/source/reference/site-files.rst describes the format, site-1.json is its
JSON Schema.
"""

from collections.abc import Mapping
import dataclasses
import enum
import os

from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.model import hostclass
from nova_pinning.placement import placement_traits

#: In place of a class: hosts that are of none.
NONE = 'none'


class SelectorKind(enum.StrEnum):
    """How hosts are named; the values are keys of a group."""

    HOST = 'hosts'
    AGGREGATE = 'aggregates'
    TRAIT = 'traits'


class OtherHosts(enum.StrEnum):
    """What becomes of hosts that no group names, unless they get a class."""

    LEAVE = 'leave'
    REFUSE = 'refuse'


@dataclasses.dataclass(frozen=True, slots=True)
class HostSelector:
    """One thing that names hosts.

    :param text: a host's name or a pattern of names as fnmatch has it, the
        name of an aggregate, or a trait
    """

    kind: SelectorKind
    text: str
    where: errors.Location


@dataclasses.dataclass(frozen=True, slots=True)
class KeptAggregate:
    """An aggregate in which hosts of a class are kept.

    :param is_isolated: whether it also keeps out flavors that do not require
        the trait of the class, whatever else they say
    """

    name: str
    host_class: hostclass.HostClass
    is_isolated: bool
    where: errors.Location = dataclasses.field(compare=False)

    @property
    def metadata(self) -> Mapping[str, str]:
        """What the aggregate has to say."""
        metadata = {flavor_model.CLASS_KEY: str(self.host_class)}
        if self.is_isolated:
            trait = placement_traits.TRAIT_OF[self.host_class]
            metadata[f'trait:{trait}'] = 'required'
        return metadata


@dataclasses.dataclass(frozen=True, slots=True)
class HostGroup:
    """Hosts of one class: all that any of the selectors names.

    :param host_class: None for hosts that are to be of no class
    :param aggregate: that they are put into, besides
    """

    name: str
    host_class: hostclass.HostClass | None
    selectors: tuple[HostSelector, ...]
    aggregate: KeptAggregate | None
    where: errors.Location


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """What a site file says.

    :param others: what becomes of hosts that no group names; a class, None
        for no class
    :param where: of ``others``
    """

    groups: tuple[HostGroup, ...]
    others: OtherHosts | hostclass.HostClass | None
    where: errors.Location


def load(path: str | os.PathLike[str]) -> Site:
    """Read a site file.

    :raises errors.InputError: with all that is wrong, up to
        schema.MAX_ERRORS at once (errors.InputErrors)
    """
    return parse(source.read(path), os.fspath(path))


def parse(text: str, source_name: str) -> Site:
    """The same from text.

    :param source_name: what errors call it
    """
    document = source.parse(text, source_name)
    schema.validate(document, schema.shipped(__package__, 'site-1.json'))
    value = document.value
    others = value.get('others', OtherHosts.LEAVE)
    site = Site(
        tuple(_group(document, name) for name in value['groups']),
        OtherHosts(others) if others in list(OtherHosts) else _class(others),
        document.locate(('others',)))
    schema.raise_all([
        *_group_problems(document, site), *_aggregate_problems(site)])
    return site


def _class(name: str) -> hostclass.HostClass | None:
    return None if name == NONE else hostclass.HostClass(name)


def _group(document: source.YamlDocument, name: str) -> HostGroup:
    path: source.Path = ('groups', name)
    value = document.value['groups'][name]
    host_class = _class(value['class'])
    kept = None
    if host_class and 'aggregate' in value:
        kept = KeptAggregate(
            value['aggregate']['name'], host_class,
            value['aggregate'].get('isolated', False),
            document.locate((*path, 'aggregate'), key=True))
    return HostGroup(
        name, host_class,
        tuple(HostSelector(kind, text, document.locate((*path, kind, index)))
              for kind in SelectorKind
              for index, text in enumerate(value.get(kind, ()))),
        kept, document.locate(path, key=True))


def _group_problems(document: source.YamlDocument,
                    site: Site) -> list[errors.InputError]:
    wrong = []
    for group in site.groups:
        path: source.Path = ('groups', group.name)
        if not group.selectors:
            *kinds, last = SelectorKind
            wrong.append(errors.InputError(
                f'group {group.name} names no hosts', group.where,
                f'give it {", ".join(kinds)} or {last}'))
        if group.host_class is None and \
                'aggregate' in document.value['groups'][group.name]:
            wrong.append(document.error(
                'hosts of no class are put into no aggregate',
                (*path, 'aggregate'), key=True))
        for selector in group.selectors:
            if (selector.kind is SelectorKind.TRAIT
                    and placement_traits.classes_of([selector.text])):
                wrong.append(unstable(selector))
    return wrong


def unstable(selector: HostSelector) -> errors.InputError:
    """Other hosts would be found after what is done than before."""
    what = ('the trait' if selector.kind is SelectorKind.TRAIT
            else 'the hosts of aggregate')
    return errors.InputError(
        f'hosts cannot be found by what is changed, and {what} '
        f'{selector.text} may be', selector.where,
        'name the hosts in another way')


def _aggregate_problems(site: Site) -> list[errors.InputError]:
    """Aggregates that groups want in different ways."""
    wrong = []
    first: dict[str, KeptAggregate] = {}
    for group in site.groups:
        kept = group.aggregate
        if kept and first.setdefault(kept.name, kept) != kept:
            wrong.append(errors.InputError(
                f'aggregate {kept.name} is wanted in two ways', kept.where,
                f'the other is {first[kept.name].where.key} in line '
                f'{first[kept.name].where.line}'))
    for group in site.groups:
        others = {other.aggregate.name for other in site.groups
                  if other.aggregate and other is not group}
        wrong += [unstable(selector) for selector in group.selectors
                  if selector.kind is SelectorKind.AGGREGATE
                  and selector.text in others]
    return wrong
