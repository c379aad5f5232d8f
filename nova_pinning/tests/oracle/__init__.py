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

"""A brute-force oracle for the engine, and a fuzzer that compares the two.

* :mod:`~nova_pinning.tests.oracle.case`: one host and one guest as JSON, and
  the nova objects made from it;
* :mod:`~nova_pinning.tests.oracle.generate`: random cases;
* :mod:`~nova_pinning.tests.oracle.oracle`: the right answer, slowly;
* :mod:`~nova_pinning.tests.oracle.check`: what is wrong with an answer, worked
  out from the case alone;
* :mod:`~nova_pinning.tests.oracle.compare`: one case through the engine, the
  oracle and nova;
* :mod:`~nova_pinning.tests.oracle.shrink`: a smaller case that still shows
  the same;
* :mod:`~nova_pinning.tests.oracle.fuzz`: the command.
"""
