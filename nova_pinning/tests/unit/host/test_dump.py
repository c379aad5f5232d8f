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


import hypothesis
from oslotest import base as oslotest

from nova_pinning.document import source
from nova_pinning.host import dump
from nova_pinning.host import hostfile
from nova_pinning.tests.unit import base
from nova_pinning.tests.unit.host import samples


class TestDump(oslotest.BaseTestCase):

    @base.settings(max_examples=150)
    @hypothesis.given(samples.any_host())
    def test_what_is_written_reads_the_same(self, description):
        text = dump.dump(description)
        again = hostfile.read(source.parse(text, 'host.yaml'))
        self.assertEqual(description, again)

    def test_short(self):
        self.assertEqual("""\
version: 1
name: small
cpu:
  threads_per_core: 2
  numbering: split
nodes:
  - id: 0
    socket: 0
    cpus: '0-1,4-5'
    memory: 8GiB
  - id: 1
    socket: 1
    cpus: '2-3,6-7'
    memory: 8GiB
nova:
  dedicated_cpus: '1-7'
""", dump.dump(samples.host(nova=samples.settings('1-7'))))
