# SPDX-License-Identifier: Apache-2.0
"""A check of numbers, with its findings."""

import types

from nova_pinning.checks import check_rule
from nova_pinning.checks import report

ERROR, WARNING, NOTE = check_rule.Severity


@check_rule.rule('X101', ERROR, 'odd number', why='it breaks',
                 advice='make it even', in_catalogue='write it even')
def odd(number):
    if number % 2:
        yield check_rule.Violation(subject=f'number {number}',
                                   message='it is odd')


@check_rule.rule('X102', WARNING, 'large number', why='it takes long',
                 advice='take a smaller one')
def large(number):
    if number > 10:
        yield check_rule.Violation(
            subject=f'number {number}', message='it is large',
            severity=NOTE if number < 20 else None,
            advice='' if number < 100 else 'take a much smaller one')


watched = check_rule.Rule('X201', NOTE, 'number that moved', 'it hurts',
                          'hold it')


def module(*rules):
    """A module that defines rules."""
    made = types.ModuleType('rules')
    for rule in rules:
        setattr(made, rule.code, rule)
    return made


RULES = check_rule.Registry(module(watched, odd, large),
                            groups={'X1': 'Numbers', 'X2': 'Moving ones'})


def finding(subject='host a', code='X101', **values):
    """A finding with the words of its rule."""
    return RULES[code].finding(check_rule.Violation(**{
        'subject': subject, 'message': 'it is wrong', **values}))


def check_report(*findings, **values):
    """A report of these findings."""
    return report.CheckReport(**{
        'name': 'number', 'rules': RULES, 'findings': findings,
        'source': 'cloud north', 'scope': 'in 7 numbers',
        'head': {'numbers': 7}, 'started': 100.0, 'duration_seconds': 2.5,
        **values})
