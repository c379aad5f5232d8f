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

"""What differs between two flavors, key by key.

Pure. The keys are the fields of :class:`model.Flavor`, and those of the
extra specs.
"""

from collections.abc import Iterator
import dataclasses
from typing import Any

from nova_pinning.flavors import listing
from nova_pinning.flavors import model

#: What nova cannot change in a flavor that exists.
SHAPE = ('vcpus', 'memory_mib', 'disk_gib', 'ephemeral_gib', 'swap_mib',
         'rxtx_factor', 'is_public')

#: What a flavor has unless it says otherwise; not worth a line when it comes
#: or goes as a whole.
_DEFAULTS = {'disk_gib': 0, 'ephemeral_gib': 0, 'swap_mib': 0,
             'rxtx_factor': 1.0, 'is_public': True, 'projects': [],
             'description': ''}


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


def differences(before: model.Flavor | None,
                after: model.Flavor | None) -> tuple[Difference, ...]:
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


def shape_changes(before: model.Flavor,
                  after: model.Flavor) -> tuple[str, ...]:
    """The keys that differ and that nova cannot change in place."""
    return tuple(one.key for one in differences(before, after)
                 if one.key in SHAPE)


def _flat(flavor: model.Flavor | None, is_brief: bool) -> dict[str, Any]:
    if flavor is None:
        return {}
    fields = listing.as_dict(flavor)
    extra_specs: dict[str, Any] = fields.pop('extra_specs')
    del fields['name'], fields['id']
    # As precise as MySQL keeps it.
    fields['rxtx_factor'] = float(f'{flavor.rxtx_factor:.6g}')
    if is_brief:
        fields = {key: value for key, value in fields.items()
                  if key not in _DEFAULTS or value != _DEFAULTS[key]}
    return fields | extra_specs


def lines(found: tuple[Difference, ...]) -> Iterator[tuple[str, str]]:
    """A sign, '-' or '+', and what goes or comes, for each line of a diff."""
    for one in found:
        for sign, value in (('-', one.before), ('+', one.after)):
            if value is not None:
                yield sign, f'{one.key}: {_text(value)}'


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, list):
        return ', '.join(value) or 'none'
    # A description may have several lines, and a diff one a key.
    return ' '.join(str(value).split('\n')) or "''"
