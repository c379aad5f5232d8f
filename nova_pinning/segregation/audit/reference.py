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

"""The page of the documentation that lists all rules of the audit."""

from collections.abc import Iterator
import json
import textwrap

from nova_pinning.flavors.checks import reference
from nova_pinning.model import hostclass
from nova_pinning.segregation.audit import commands
from nova_pinning.segregation.audit import rule
from nova_pinning.segregation.audit import run
from nova_pinning.segregation.audit import servers
from nova_pinning.segregation import model
from nova_pinning.segregation import report

GROUPS = {
    'S1': 'Servers',
    'S2': 'Flavors',
    'S3': 'What marks a host',
    'S4': 'Aggregates',
    'S5': 'What hosts offer',
    'S6': 'provider.yaml',
}
_INTRODUCTION = """\
Segregation checks
==================

.. Generated from the rules in nova_pinning/segregation/audit: this page is
   the output of python -m nova_pinning.segregation.audit

``openstack pinning segregation check`` reads a cloud's hosts, resource
providers, traits, inventories, aggregates, flavors and servers, and lists all
that keeps shared and dedicated guests from being kept apart: what it is, what
it breaks, and the commands that mend it. It changes nothing itself. It needs
an administrator, or a reader who may see all of that.

An *error* has put a guest in the wrong place, or lets the next one get there
or none at all. A *warning* is one layer that does not hold. A *note* is worth
knowing. The exit status is 1 if there is an error or a warning
(``--fail-on`` names another severity) or if the cloud cannot be read, 0 if
there is none, and 2 if the input cannot be used. A code is never given to
another rule; some rules are milder or more severe than is said here where
other layers make up for it.

A host is taken to be of the class that its trait says; without a trait, of the
one that its aggregates say if they agree; with both traits, of none. A server
is of the class of its flavor, as that was when the server got it, and of its
image.
Where nova does not show the image's properties (servers that boot from a
volume, and all servers before API version 2.98), and where it matters, the
server's NUMA topology tells whether its vCPUs are pinned.

Findings come in the order in which they are best mended: hosts first, then
flavors, which must not require a trait that no host has, and servers last,
when it is clear where they belong. Look again after each group.

A cloud changes while it is read. Whatever was found is looked at a second
time, and only what is still so is told.

What it does not see
--------------------

``nova.conf``
   Neither the filters of nova-scheduler nor
   ``[scheduler] enable_isolated_aggregate_filtering`` show in an API. That
   flavors are held off by aggregates alone is told as a note (S202).
How many CPUs a host sets aside for emulator threads
   A dedicated host should offer no more VCPU than these (S504). With
   ``--hosts DIR`` its host file (:doc:`host-files`) tells; without, what
   ``--emulator-cpus`` says. If neither is given, hosts are allowed none if no
   pinned flavor has ``hw:emulator_threads_policy=share``, else
   {emulator_cpus}. If any flavor has ``hw:cpu_policy=mixed``, whose guests
   float in part, any number may be right.
provider.yaml
   No API shows it, and what it says comes back after every change. With
   ``--provider-configs DIR`` the files are compared with the API (S601 and
   on). They are to lie there by the name of the compute service, as
   ``HOST.yaml`` or in a directory ``HOST``.

A large cloud
-------------

Hosts are read one after the other, each with its inventories and its servers,
``--jobs`` of them ({jobs} unless said) at the same time. Nothing is kept of a
server but a count, so that memory depends on the number of hosts and of
findings only. :doc:`/admin/benchmarks` has figures.

For programs
------------

With ``--format json`` the output is one object. ``host`` is the compute
service where a finding shows, empty if it is the whole cloud. Servers are
counted by the class of their host and their own, ``none`` where there is none
or both. ``unmatched`` names hosts that ``--hosts`` or ``--provider-configs``
have files for and the cloud does not have.

.. code-block:: json

{sample}

For Prometheus
--------------

With ``--format prometheus`` it is what node_exporter's textfile collector
reads:

.. code-block:: console

   $ openstack pinning segregation check --format prometheus \\
       --output /var/lib/node_exporter/textfile/segregation.prom

The file is replaced as a whole, and only when the check has come to its end.
A check that fails leaves the old one there, so watch its age as well:

.. code-block:: yaml

   - alert: GuestsNotApart
     expr: nova_pinning_segregation_violations{{severity="error"}} > 0
   - alert: SegregationCheckOverdue
     expr: >-
       time() - nova_pinning_segregation_last_success_timestamp_seconds
       > 7200

``nova_pinning_segregation_violations`` has the labels ``code`` and
``severity``; each code is there, if only with 0.
``nova_pinning_segregation_hosts`` has ``host_class``,
``nova_pinning_segregation_servers`` has ``host_class`` and ``server_class``,
and ``nova_pinning_segregation_duration_seconds`` is how long the check took.
"""
_SERVER = model.Server(
    '7f6a1c8e-3d0b-4a52-9d0e-5b1f8c2a6e94', 'web-1',
    'b6f3c1d2a79e4f5a8d0c1e2f3a4b5c6d', 'cmp-d-1', 'shared.large',
    hostclass.HostClass.SHARED, status='ACTIVE')


def page() -> str:
    """The page as reStructuredText."""
    return '\n'.join(_lines()) + '\n'


def _lines() -> Iterator[str]:
    sample = json.dumps(report.as_dict(_sample(), 'north'), indent=2)
    yield _INTRODUCTION.rstrip().format(
        sample=textwrap.indent(sample, '   '), jobs=run.JOBS,
        emulator_cpus=rule.EMULATOR_CPUS)
    yield from reference.sections(run.RULES.values(), GROUPS, 'What mends it')


def _sample() -> run.Audit:
    dedicated, shared = hostclass.HostClass
    found = servers.SHARED_ON_DEDICATED.finding(rule.Problem(
        _SERVER, 'a shared server, flavor ...', commands.move_away(_SERVER)))
    return run.Audit(
        (found,), {dedicated: 8, shared: 24},
        {(dedicated, dedicated): 61, (dedicated, shared): 1,
         (shared, shared): 790}, flavors=22, aggregates=2,
        started=1767225600.0, duration_s=3.2)
