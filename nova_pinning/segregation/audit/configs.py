#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""S6xx: provider.yaml files against what Placement has."""

from collections.abc import Iterator
import pathlib

from nova_pinning import errors
from nova_pinning.placement import provider_config
from nova_pinning.placement import traits
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation.audit import rule
from nova_pinning.segregation import finding
from nova_pinning.segregation import model


def load(
    path: str,
) -> dict[str, tuple[provider_config.ProviderEntry, ...]]:
    """The provider.yaml files of many hosts, by compute service.

    :param path: a directory with a file HOST.yaml for each host, or a
        directory HOST with the files that lie on it
    :raises errors.InputErrors: for all that is wrong with any of them
    :raises errors.InputError: if there are none
    """
    where = errors.Location(path)
    try:
        places = sorted(pathlib.Path(path).iterdir())
    except OSError as error:
        raise errors.InputError(f'cannot be read: {error.strerror}',
                                where) from None
    found: dict[str, tuple[provider_config.ProviderEntry, ...]] = {}
    wrong: list[errors.InputError] = []
    for place in places:
        is_directory = place.is_dir()
        if place.name.startswith('.') or not (
                is_directory or place.suffix == provider_config.SUFFIX):
            continue
        name = place.name if is_directory else place.stem
        if name in found:
            wrong.append(errors.InputError(
                f'host {name} has both a file and a directory', where))
            continue
        try:
            found[name] = provider_config.read(place)
        except errors.InputErrors as error:
            wrong += error.errors
        except errors.InputError as error:
            wrong.append(error)
    if wrong:
        raise errors.InputErrors(tuple(wrong))
    if not found:
        raise errors.InputError(
            'there are no provider.yaml files in this directory', where,
            f'they are HOST{provider_config.SUFFIX}, or in directories HOST')
    return found


def _declared(
    view: rule.View,
) -> Iterator[tuple[model.Host, provider_config.ProviderEntry]]:
    """What the file of each host says of the host's own provider."""
    for host in view.hosts:
        try:
            entry = provider_config.entry_for(
                view.configs.get(host.name, ()), host.provider, host.node)
        except errors.InputError:
            # A rule of its own.
            continue
        if entry and host.traits is not None:
            yield host, entry


@rule.rule(
    'S601', finding.Severity.WARNING,
    'trait of provider.yaml that Placement does not have',
    why='nova-compute has not read the file, or somebody has taken the trait '
        'away since, and it comes back with the next report',
    advice='restart nova-compute, or take the trait out of the file; to have '
           'it at once, set it by hand')
def not_applied(view: rule.View) -> Iterator[rule.Problem]:
    for host, entry in _declared(view):
        found = {trait for trait in entry.traits
                 if trait.startswith(traits.PREFIX)} - (
                     host.traits or frozenset())
        # What must not be applied is told by the other rules.
        is_sound = (len(traits.classes(entry.traits)) < 2
                    and not _contradiction(host, entry))
        if found and is_sound:
            yield rule.Problem(
                host, f'{", ".join(sorted(found))} of {entry.where}',
                tuple(command for trait in sorted(found)
                      for command in commands.add_trait(host, trait)))


@rule.rule(
    'S602', finding.Severity.ERROR,
    'provider.yaml that contradicts what marks the host',
    why='nova-compute gives the provider the trait of the file again with '
        'every report, within minutes, whatever is set through the API',
    advice='write the file anew (nova-pinning host provider-config) and '
           'restart nova-compute; then set the class')
def contradicts(view: rule.View) -> Iterator[rule.Problem]:
    for host, entry in _declared(view):
        told = _contradiction(host, entry)
        if told:
            yield rule.Problem(host, told)


def _contradiction(host: model.Host,
                   entry: provider_config.ProviderEntry) -> str:
    """How a file differs from the marks of its host, '' if it does not."""
    declared = traits.classes(entry.traits)
    if len(declared) != 1:
        return ''
    others = {mark.host_class for mark in model.marks(host)
              if mark.host_class} - declared
    if not others:
        return ''
    [host_class] = declared
    return (f'{entry.where} has {traits.TRAIT_OF[host_class]}, and '
            f'{" and ".join(_told(host, other) for other in sorted(others))}')


def _told(host: model.Host, other: str | None) -> str:
    names = ', '.join(f'{mark.source} {mark.name}'
                      for mark in model.marks(host)
                      if mark.host_class == other)
    return f'{names} says {other}'


@rule.rule(
    'S603', finding.Severity.ERROR, 'provider.yaml with both classes',
    why='nova-compute gives the host both traits, and it is neither one nor '
        'the other',
    advice='write the file anew (nova-pinning host provider-config)')
def both_classes(view: rule.View) -> Iterator[rule.Problem]:
    for host, entry in _declared(view):
        if len(traits.classes(entry.traits)) > 1:
            yield rule.Problem(
                host, f'{entry.where} has {traits.DEDICATED} and '
                f'{traits.SHARED}')


@rule.rule(
    'S604', finding.Severity.ERROR,
    'provider.yaml with two entries for one provider',
    why='nova-compute reports nothing at all while it is so',
    advice='leave it one of them')
def two_entries(view: rule.View) -> Iterator[rule.Problem]:
    for host in view.hosts:
        try:
            provider_config.entry_for(
                view.configs.get(host.name, ()), host.provider, host.node)
        except errors.InputError as error:
            yield rule.Problem(host, str(error))


RULES = (not_applied, contradicts, both_classes, two_entries)
