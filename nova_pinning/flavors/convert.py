# SPDX-License-Identifier: Apache-2.0
"""Flavors in the words of other tools.

A property that a tool has no word for is an error, and so is text that it
would take for something to work out: nothing is lost on the way. What comes
out is read again by nova_pinning.flavors.foreign as the same flavors.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import json
import re
from typing import Any

from nova_pinning.document import yaml_text
from nova_pinning import errors
from nova_pinning.flavors import flavor_model
from nova_pinning.flavors import foreign
from nova_pinning.flavors import listing

# What Ansible would take for something to work out.
_JINJA = re.compile(r'\{[{%#]')

Flavors = Sequence[flavor_model.Flavor]


def text(flavors: Iterable[flavor_model.Flavor], form: str) -> str:
    """What a tool's file has to say for these flavors.

    :param form: one of FORMS
    :raises errors.InputError: if the tool has no word for something
    """
    return FORMS[form](tuple(flavors))


def _said(flavor: flavor_model.Flavor, words: Mapping[str, str],
          form: str) -> dict[str, Any]:
    """A flavor's properties in a tool's words, without the usual ones."""
    said = {}
    for field in (*foreign.NOVA_WORDS, 'projects'):
        value = getattr(flavor, field)
        if value == listing.DEFAULTS.get(field):
            continue
        if field not in words:
            # Whichever name it gets is as good.
            if field == 'id':
                continue
            raise errors.InputError(
                f'flavor {flavor.name} has {field}, for which there is no '
                f'word in the form {form}', flavor.where)
        said[words[field]] = list(value) if field == 'projects' else value
    return said


def _with_specs(flavor: flavor_model.Flavor, words: Mapping[str, str],
                form: str) -> dict[str, Any]:
    said = _said(flavor, words, form)
    specs = flavor.own_specs
    return said | ({'extra_specs': specs} if specs else {})


def _list(flavors: Flavors) -> str:
    return yaml_text.dump([
        _with_specs(flavor, foreign.NOVA_WORDS, 'list')
        for flavor in flavors])


def _scs(flavors: Flavors) -> str:
    words = {'name': 'name', 'vcpus': 'cpus', 'memory_mib': 'ram',
             'disk_gib': 'disk', 'is_public': 'public'}
    return yaml_text.dump({
        'reference': [
            {'field': 'name'}, {'field': 'public', 'default': True},
            {'field': 'cpus'}, {'field': 'ram'},
            {'field': 'disk', 'default': 0}],
        'mandatory': [_said(flavor, words, 'scs') | flavor.own_specs
                      for flavor in flavors]})


def _ansible(flavors: Flavors) -> str:
    def checked(flavor: flavor_model.Flavor) -> dict[str, Any]:
        said = _with_specs(flavor, foreign.NOVA_WORDS, 'ansible')
        if _JINJA.search(json.dumps(said, ensure_ascii=False)):
            raise errors.InputError(
                f'flavor {flavor.name} has text that Ansible would take for '
                'a template', flavor.where)
        return said

    return yaml_text.dump([{
        'name': f'Flavor {flavor.name}',
        foreign.ANSIBLE_MODULES[0]: checked(flavor)} for flavor in flavors])


def _heat(flavors: Flavors) -> str:
    words = foreign.NOVA_WORDS | {'id': 'flavorid', 'projects': 'tenants'}
    del words['description']
    return yaml_text.dump({
        'heat_template_version': 'wallaby', 'resources': {
            label: {'type': foreign.HEAT_TYPE,
                    'properties': _with_specs(flavor, words, 'heat')}
            for label, flavor in _labelled(flavors)}})


def _terraform(flavors: Flavors) -> str:
    words = foreign.NOVA_WORDS | {
        'id': 'flavor_id', 'rxtx_factor': 'rx_tx_factor'}
    blocks = []
    for label, flavor in _labelled(flavors):
        lines = [f'resource "{foreign.TERRAFORM_TYPE}" "{label}" {{']
        said = _said(flavor, words, 'terraform')
        lines += [f'  {word} = {_hcl(value)}' for word, value in said.items()]
        specs = [f'    {_hcl(key)} = {_hcl(value)}'
                 for key, value in flavor.own_specs.items()]
        if specs:
            lines += ['  extra_specs = {', *specs, '  }']
        blocks.append('\n'.join([*lines, '}\n']))
    return '\n'.join(blocks)


def _hcl(value: Any) -> str:
    return re.sub(r'([$%])\{', r'\1\1{', json.dumps(
        value, ensure_ascii=False))


def _labelled(
        flavors: Flavors) -> Iterable[tuple[str, flavor_model.Flavor]]:
    """Flavors with names that resources can have, each another one."""
    taken: set[str] = set()
    for flavor in flavors:
        label = re.sub(r'[^A-Za-z0-9_]+', '_', flavor.name)
        # Terraform's must begin with a letter.
        label = label if label[0].isalpha() else f'flavor_{label}'
        unique, number = label, 1
        while unique in taken:
            number += 1
            unique = f'{label}_{number}'
        taken.add(unique)
        yield unique, flavor


#: How to write each form, by its name.
FORMS: Mapping[str, Callable[[Flavors], str]] = {
    'list': _list, 'scs': _scs,
    'terraform': _terraform, 'ansible': _ansible, 'heat': _heat}
