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

"""What can go wrong while something is measured."""


class BenchError(Exception):
    """A case could not be measured; results so far are kept.

    :param message: what is wrong and where, without a full stop
    :param advice: what to do about it
    """

    def __init__(self, message: str, advice: str = '') -> None:
        super().__init__(message)
        self.advice = advice


class InstanceError(BenchError):
    """An instance does not come up, does not answer, or has gone."""


class WorkloadError(BenchError):
    """A command failed, or what it printed has no figure in it."""
