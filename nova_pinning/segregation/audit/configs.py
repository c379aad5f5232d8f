# SPDX-License-Identifier: Apache-2.0
"""S6xx: provider.yaml files against what Placement has."""

from collections.abc import Iterator
import pathlib

from nova_pinning.checks import check_rule
from nova_pinning import errors
from nova_pinning.host import provider_config
from nova_pinning.placement import placement_traits
from nova_pinning.segregation.audit import audited
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation import segregation_model


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
    entries: dict[str, tuple[provider_config.ProviderEntry, ...]] = {}
    wrong: list[errors.InputError] = []
    for place in places:
        is_directory = place.is_dir()
        if place.name.startswith('.') or not (
                is_directory or place.suffix == provider_config.SUFFIX):
            continue
        name = place.name if is_directory else place.stem
        if name in entries:
            wrong.append(errors.InputError(
                f'host {name} has both a file and a directory', where))
            continue
        try:
            entries[name] = provider_config.read(place)
        except errors.InputErrors as error:
            wrong += error.errors
        except errors.InputError as error:
            wrong.append(error)
    if wrong:
        raise errors.InputErrors(tuple(wrong))
    if not entries:
        raise errors.InputError(
            'there are no provider.yaml files in this directory', where,
            f'they are HOST{provider_config.SUFFIX}, or in directories HOST')
    return entries


def _declared(
    view: audited.AuditedCloud,
) -> Iterator[tuple[segregation_model.MarkedHost,
                    provider_config.ProviderEntry]]:
    """What the file of each host says of the host's own provider."""
    for host in view.hosts:
        try:
            entry = provider_config.entry_for(
                view.settings.configs.get(host.name, ()), host.provider,
                host.node)
        except errors.InputError:
            # A rule of its own.
            continue
        if entry and host.traits is not None:
            yield host, entry


@check_rule.rule(
    'S601', check_rule.Severity.WARNING,
    'trait of provider.yaml that Placement does not have',
    why='nova-compute has not read the file, or somebody has taken the trait '
        'away since, and it comes back with the next report',
    advice='restart nova-compute, or take the trait out of the file; to have '
           'it at once, set it by hand')
def not_applied(view: audited.AuditedCloud) -> check_rule.Violations:
    for host, entry in _declared(view):
        traits = {trait for trait in entry.traits
                  if trait.startswith(placement_traits.PREFIX)} - (
                      host.traits or frozenset())
        # What must not be applied is told by the other rules.
        is_sound = (len(placement_traits.classes_of(entry.traits)) < 2
                    and not _contradiction(host, entry))
        if traits and is_sound:
            yield audited.violation(
                host, f'{", ".join(sorted(traits))} of {entry.where}',
                tuple(command for trait in sorted(traits)
                      for command in commands.add_trait(host, trait)))


@check_rule.rule(
    'S602', check_rule.Severity.ERROR,
    'provider.yaml that contradicts what marks the host',
    why='nova-compute gives the provider the trait of the file again with '
        'every report, within minutes, whatever is set through the API',
    advice='write the file anew (nova-pinning host show -f provider-config) '
           'and restart nova-compute; then set the class')
def contradicts(view: audited.AuditedCloud) -> check_rule.Violations:
    for host, entry in _declared(view):
        told = _contradiction(host, entry)
        if told:
            yield audited.violation(host, told)


def _contradiction(host: segregation_model.MarkedHost,
                   entry: provider_config.ProviderEntry) -> str:
    """How a file differs from the marks of its host, '' if it does not."""
    declared = placement_traits.classes_of(entry.traits)
    if len(declared) != 1:
        return ''
    others = {mark.host_class for mark in segregation_model.marks(host)
              if mark.host_class} - declared
    if not others:
        return ''
    [host_class] = declared
    return (f'{entry.where} has {placement_traits.TRAIT_OF[host_class]}, and '
            f'{" and ".join(_told(host, other) for other in sorted(others))}')


def _told(host: segregation_model.MarkedHost, other: str | None) -> str:
    names = ', '.join(f'{mark.source} {mark.name}'
                      for mark in segregation_model.marks(host)
                      if mark.host_class == other)
    return f'{names} says {other}'


@check_rule.rule(
    'S603', check_rule.Severity.ERROR, 'provider.yaml with both classes',
    why='nova-compute gives the host both traits, and it is neither one nor '
        'the other',
    advice='write the file anew (nova-pinning host show -f provider-config)')
def both_classes(view: audited.AuditedCloud) -> check_rule.Violations:
    for host, entry in _declared(view):
        if len(placement_traits.classes_of(entry.traits)) > 1:
            yield audited.violation(
                host, f'{entry.where} has {placement_traits.DEDICATED} and '
                f'{placement_traits.SHARED}')


@check_rule.rule(
    'S604', check_rule.Severity.ERROR,
    'provider.yaml with two entries for one provider',
    why='nova-compute reports nothing at all while it is so',
    advice='leave it one of them')
def two_entries(view: audited.AuditedCloud) -> check_rule.Violations:
    for host in view.hosts:
        try:
            provider_config.entry_for(
                view.settings.configs.get(host.name, ()), host.provider,
                host.node)
        except errors.InputError as error:
            yield audited.violation(host, str(error))
