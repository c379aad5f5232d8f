# SPDX-License-Identifier: Apache-2.0
"""Findings as SARIF 2.1.0, which code review tools read."""

from collections.abc import Mapping
import importlib.metadata
import os
import pathlib
from typing import Any
import urllib.parse

from nova_pinning.checks import check_rule
from nova_pinning.checks import report
from nova_pinning import errors

_SCHEMA = ('https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/'
           'schemas/sarif-schema-2.1.0.json')


def as_sarif(checked: report.CheckReport) -> dict[str, Any]:
    """A SARIF log, to be written as JSON.

    SARIF's levels have the names of our severities.
    """
    numbers = {code: number for number, code in enumerate(checked.rules)}
    return {
        '$schema': _SCHEMA,
        'version': '2.1.0',
        'runs': [{
            'tool': {'driver': {
                'name': 'nova-pinning',
                'version': importlib.metadata.version('nova-pinning'),
                'rules': list(map(_rule, checked.rules.values()))}},
            'columnKind': 'unicodeCodePoints',
            'results': [
                *(_result(finding, numbers, checked.source)
                  for finding in checked.findings),
                *({**_result(one.finding, numbers, checked.source),
                   'suppressions': [{'kind': 'external',
                                     'justification': one.reason}]}
                  for one in checked.waived)]}]}


def _rule(described: check_rule.Rule[Any]) -> dict[str, Any]:
    return {
        'id': described.code,
        'shortDescription': {'text': _sentence(described.title)},
        'fullDescription': {'text': _sentence(described.why)},
        'help': {'text': f'{_sentence(described.why)} Remedy: '
                         f'{_sentence(described.advice)}'},
        'defaultConfiguration': {'level': str(described.severity)}}


def _sentence(text: str) -> str:
    return f'{text[:1].upper()}{text[1:]}.'


def _result(finding: check_rule.Finding, numbers: Mapping[str, int],
            source: str) -> dict[str, Any]:
    text = f'{finding.subject}: {finding.message}'
    return {
        'ruleId': finding.code,
        'ruleIndex': numbers[finding.code],
        'level': str(finding.severity),
        'message': {'text': f'{text}; {finding.advice}' if finding.advice
                    else text},
        'locations': [_location(
            finding, finding.location or errors.Location(source))],
        'properties': {'commands': list(finding.remediation)}}


def _location(finding: check_rule.Finding,
              location: errors.Location) -> dict[str, Any]:
    name = finding.name or finding.subject
    location_dict: dict[str, Any] = {'logicalLocations': [{
        'name': name,
        'fullyQualifiedName': f'{location.source}: {location.key or name}',
        'kind': 'member'}]}
    # What has no lines is a cloud, a host, or a command line.
    if location.line:
        region = {'startLine': location.line}
        if location.column:
            region['startColumn'] = location.column
        location_dict['physicalLocation'] = {
            'artifactLocation': {'uri': _uri(location.source)},
            'region': region}
    return location_dict


def _uri(path: str) -> str:
    """Relative to the working directory where the path is."""
    if os.path.isabs(path):
        return pathlib.Path(path).as_uri()
    return urllib.parse.quote(pathlib.PurePath(path).as_posix())
