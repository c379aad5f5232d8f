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


"""ByteDance's data set, where it is at hand.

It is beside the checkout, or in the directory that NOVA_PINNING_DATA names.
"""

import os
import pathlib

_ROOT = pathlib.Path(__file__).parents[4]


def path(test):
    """The data set's file; skips the test if it is not there."""
    data = os.environ.get('NOVA_PINNING_DATA') or _ROOT.parent / 'shared/data'
    found = pathlib.Path(data) / 'bytedance' / 'clusters.json'
    if not found.is_file():
        test.skipTest(f'there is no {found}; NOVA_PINNING_DATA says where '
                      'the data set is')
    return found
