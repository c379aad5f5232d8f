# SPDX-License-Identifier: Apache-2.0
"""What differs between two flavors, key by key.

Pure. The keys are the fields of :class:`flavor_model.Flavor`, and those of the
extra specs.
"""

from collections.abc import Iterator
import dataclasses
from typing import Any

from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import listing

#: What nova cannot change in a flavor that exists.
SHAPE = ('vcpus', 'memory_mib', 'disk_gib', 'ephemeral_gib', 'swap_mib',
         'rxtx_factor', 'is_public')


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One key that is not the same.

    :param before: a number, a truth value, a text or a list of texts; None
        if the key is not there
    :param after: likewise
    """

    key: str
    before: Any
    after: Any

    def as_dict(self) -> dict[str, Any]:
        return {'key': self.key, 'before': self.before, 'after': self.after}


def differences(before: flavor_model.Flavor | None,
                after: flavor_model.Flavor | None) -> tuple[Difference, ...]:
    """What changes on the way from one flavor to another.

    Ids and names are left out: they are what flavors are told apart by.

    :param before: None if it comes into being
    :param after: None if it goes
    """
    old = _flat(before, after is None)
    new = _flat(after, before is None)
    keys = list(dict.fromkeys((*old, *new)))
    if before and after:
        # The keys of a flavor come in the order in which nova lists them,
        # which is by chance.
        keys = [key for key in keys if ':' not in key] + sorted(
            key for key in keys if ':' in key)
    return tuple(Difference(key, old.get(key), new.get(key)) for key in keys
                 if old.get(key) != new.get(key))


def shape_changes(before: flavor_model.Flavor,
                  after: flavor_model.Flavor) -> tuple[str, ...]:
    """The keys that differ and that nova cannot change in place."""
    return tuple(difference.key for difference in differences(before, after)
                 if difference.key in SHAPE)


def extra_specs_to_set(before: flavor_model.Flavor | None,
                       after: flavor_model.Flavor | None) -> dict[str, str]:
    """The extra specs that come or change.

    :param before: None if it comes into being
    :param after: None if it goes
    """
    old = before.extra_specs if before else {}
    return {key: value for key, value in (
        after.extra_specs if after else {}).items() if old.get(key) != value}


def _flat(flavor: flavor_model.Flavor | None,
          is_brief: bool) -> dict[str, Any]:
    if flavor is None:
        return {}
    fields = listing.as_dict(flavor)
    extra_specs: dict[str, Any] = fields.pop('extra_specs')
    del fields['name'], fields['id']
    # As precise as MySQL keeps it.
    fields['rxtx_factor'] = float(f'{flavor.rxtx_factor:.6g}')
    if is_brief:
        # Not worth a line when it comes or goes as a whole.
        fields = {key: value for key, value in fields.items()
                  if getattr(flavor, key) != listing.DEFAULTS.get(key)}
    return fields | extra_specs


def lines(differences: tuple[Difference, ...]) -> Iterator[tuple[str, str]]:
    """A sign, '-' or '+', and what goes or comes, for each line of a diff."""
    for difference in differences:
        for sign, value in (('-', difference.before), ('+', difference.after)):
            if value is not None:
                yield sign, f'{difference.key}: {_text(value)}'


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, list):
        return ', '.join(value) or 'none'
    # A description may have several lines, and a diff one a key.
    return ' '.join(str(value).split('\n')) or "''"
