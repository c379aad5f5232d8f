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

"""Findings as SARIF 2.1.0, which code review tools read."""

from collections.abc import Iterable
from collections.abc import Mapping
import importlib.metadata
import os
import pathlib
from typing import Any
import urllib.parse

from nova_pinning import errors
from nova_pinning.flavors.checks import rule
from nova_pinning.flavors import finding

_SCHEMA = ('https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/'
           'schemas/sarif-schema-2.1.0.json')


def as_sarif(findings: Iterable[finding.Finding],
             rules: Mapping[str, rule.Rule]) -> dict[str, Any]:
    """A SARIF log, to be written as JSON.

    SARIF's levels have the names of our severities.

    :param rules: all there are, by code
    """
    numbers = {code: number for number, code in enumerate(rules)}
    return {
        '$schema': _SCHEMA,
        'version': '2.1.0',
        'runs': [{
            'tool': {'driver': {
                'name': 'nova-pinning',
                'version': importlib.metadata.version('nova-pinning'),
                'rules': [_rule(one) for one in rules.values()],
            }},
            'columnKind': 'unicodeCodePoints',
            'results': [_result(one, numbers) for one in findings],
        }],
    }


def _rule(one: rule.Rule) -> dict[str, Any]:
    return {
        'id': one.code,
        'shortDescription': {'text': _sentence(one.title)},
        'fullDescription': {'text': _sentence(one.why)},
        'help': {'text': f'{_sentence(one.why)} Instead: '
                         f'{_sentence(one.advice)}'},
        'defaultConfiguration': {'level': str(one.severity)},
    }


def _sentence(text: str) -> str:
    return f'{text[:1].upper()}{text[1:]}.'


def _result(one: finding.Finding, numbers: Mapping[str, int]) -> dict[
        str, Any]:
    text = f'flavor {one.flavor}: {one.message}'
    return {
        'ruleId': one.code,
        'ruleIndex': numbers[one.code],
        'level': str(one.severity),
        'message': {'text': f'{text}; {one.advice}' if one.advice else text},
        'locations': [_location(one.where, one.flavor)],
    }


def _location(where: errors.Location, flavor: str) -> dict[str, Any]:
    place: dict[str, Any] = {'logicalLocations': [{
        'name': flavor,
        'fullyQualifiedName': f'{where.source}: {where.key or flavor}',
        'kind': 'member',
    }]}
    # What has no lines is a cloud, or a command line.
    if where.line:
        region = {'startLine': where.line}
        if where.column:
            region['startColumn'] = where.column
        place['physicalLocation'] = {
            'artifactLocation': {'uri': _uri(where.source)},
            'region': region}
    return place


def _uri(path: str) -> str:
    """Relative to the working directory where the path is."""
    if os.path.isabs(path):
        return pathlib.Path(path).as_uri()
    return urllib.parse.quote(pathlib.PurePath(path).as_posix())
