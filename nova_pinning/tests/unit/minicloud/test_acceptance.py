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

"""The fixture of the acceptance tests."""

from unittest import mock

from oslotest import base

from nova_pinning.tests.acceptance import minicloud


class TestMiniCloud(base.BaseTestCase):

    def calls(self, failing=''):
        """Use the fixture.

        :returns: the commands of minicloud that were called
        """
        called = []

        def run(command, status, **options):
            called.append(command[2])
            if command[2] == failing:
                raise AssertionError(failing)
            return '{}'

        with mock.patch.object(minicloud, '_run', side_effect=run):
            try:
                with minicloud.MiniCloud():
                    pass
            except Exception as e:
                self.assertIn(failing, str(e))
        return called

    def test_taken_down(self):
        self.assertEqual(['up', 'env', 'down'], self.calls())
        self.assertEqual(['up', 'env', 'down'], self.calls('env'))

    def test_one_that_was_there_before(self):
        # What fails to come up cleans up itself, or is not ours.
        self.assertEqual(['up'], self.calls('up'))
