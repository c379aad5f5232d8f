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

"""S3xx: what marks a host."""

from collections.abc import Iterator

from nova_pinning.placement import traits
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation.audit import rule
from nova_pinning.segregation import finding
from nova_pinning.segregation import model


@rule.rule(
    'S301', finding.Severity.ERROR, 'host with the traits of both classes',
    why='dedicated flavors and shared ones that require their trait can both '
        'land there, and HostClassFilter refuses the host to everybody',
    advice='leave it the trait that it was meant to have')
def both_classes(view: rule.View) -> Iterator[rule.Problem]:
    for host in view.hosts:
        if len(traits.classes(host.traits or ())) > 1:
            yield rule.Problem(
                host, f'provider of node {host.node} has '
                f'{traits.DEDICATED} and {traits.SHARED}',
                (commands.set_class(host, view.likely_class(host)),))


@rule.rule(
    'S302', finding.Severity.WARNING, 'host of no class',
    why='shared flavors that forbid the trait of dedicated hosts land there, '
        'dedicated flavors never do, and nothing says whether that is meant',
    advice='mark it')
def no_class(view: rule.View) -> Iterator[rule.Problem]:
    for host in view.hosts:
        if host.traits is not None and not any(model.marks(host)):
            yield rule.Problem(
                host, 'neither a trait nor an aggregate says what it is for',
                (commands.set_class(host, view.likely_class(host)),))


@rule.rule(
    'S303', finding.Severity.ERROR, 'host without a resource provider',
    why='Placement never offers it, and it can carry no trait',
    advice='start nova-compute there, which makes the provider; if the host '
           'is gone for good, delete its compute service')
def no_provider(view: rule.View) -> Iterator[rule.Problem]:
    for host in view.hosts:
        if host.traits is None:
            yield rule.Problem(
                host, f'Placement has no provider {host.provider} for node '
                f'{host.node}')


@rule.rule(
    'S304', finding.Severity.ERROR, 'host that is marked as both classes',
    why='each layer takes the host for something else, so guests of both '
        'classes get there, or none',
    advice='have all that marks it say the same')
def marks_disagree(view: rule.View) -> Iterator[rule.Problem]:
    for host in view.hosts:
        marks = tuple(model.marks(host))
        named = {mark.host_class for mark in marks} - {None}
        sources = {mark.source for mark in marks if mark.host_class}
        if len(named) > 1 and sources != {model.Source.TRAIT}:
            told = ', '.join(f'{mark.source} {mark.name}: {mark.host_class}'
                             for mark in marks if mark.host_class)
            yield rule.Problem(
                host, told,
                (commands.set_class(host, view.likely_class(host)),))


@rule.rule(
    'S305', finding.Severity.NOTE, 'host with several traits for its L3 size',
    why='CacheLocalityWeigher goes by the smallest; nova-compute never takes '
        'away a trait that its provider.yaml has no longer',
    advice='leave it the one that is true')
def several_l3_sizes(view: rule.View) -> Iterator[rule.Problem]:
    for host in view.hosts:
        found = {trait for trait in host.traits or ()
                 if traits.l3_cpus((trait,)) is not None}
        if len(found) > 1:
            kept = traits.l3_trait(traits.l3_cpus(found) or 1)
            yield rule.Problem(
                host, f'its provider has {", ".join(sorted(found))}',
                (commands.remove_traits(host, found - {kept}),))


RULES = (both_classes, no_class, no_provider, marks_disagree,
         several_l3_sizes)
