# SPDX-License-Identifier: Apache-2.0
"""A brute-force oracle for the engine, and fuzzers of engine and filter.

* :mod:`~nova_pinning.tests.oracle.oracle_case`: one host and one guest as
  JSON, and the nova objects made from it;
* :mod:`~nova_pinning.tests.oracle.case_generator`: random cases;
* :mod:`~nova_pinning.tests.oracle.oracle`: the right answer, slowly;
* :mod:`~nova_pinning.tests.oracle.oracle_check`: what is wrong with an answer,
  worked out from the case alone;
* :mod:`~nova_pinning.tests.oracle.oracle_compare`: one case through the
  engine, the oracle and nova;
* :mod:`~nova_pinning.tests.oracle.shrink`: a smaller case that still shows
  the same;
* :mod:`~nova_pinning.tests.oracle.case_series`: what both commands have in
  common;
* :mod:`~nova_pinning.tests.oracle.fuzz`: the command that compares the engine
  with the oracle;
* :mod:`~nova_pinning.tests.oracle.fleet_oracle`: random cases for the other
  one, of one host or several;
* :mod:`~nova_pinning.tests.oracle.scheduled_cases`: a case as nova-scheduler
  sees it;
* :mod:`~nova_pinning.tests.oracle.claims`: the command that compares
  PinnedTopologyFilter with what nova-compute makes of its choice;
* :mod:`~nova_pinning.tests.oracle.device_series`: the command that holds every
  answer about devices against Placement and nova's claims, on clouds that
  :mod:`~nova_pinning.tests.oracle.device_cloud` draws.
"""
