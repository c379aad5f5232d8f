# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The list of cases with their bars, readable without importing nova."""

import dataclasses
import enum


class Expect(enum.StrEnum):
    """What a case's hosts answer by the way they were filled."""

    ANY = 'any'
    FIT = 'fit'
    REFUSE = 'refuse'


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One row of the table.

    Either ``ratio`` (nova's time over ours) or ``limit_us`` (our time) is
    the bar, both over the same HostStates; neither when the harness is
    calibrated. With ``endless`` nova's
    time has no practical bound, so nova is tried once in a process of its
    own and stopped.
    """

    name: str
    title: str
    ratio: float | None = None
    limit_us: float | None = None
    endless: bool = False
    whole_request: bool = False
    expect: Expect = Expect.ANY

    @property
    def bar(self) -> str:
        """The bar in words."""
        if self.ratio is not None:
            return f'>= {self.ratio:g}x'
        if self.limit_us is not None:
            return f'< {self.limit_us / 1000:g} ms'
        return '-'


CASES = (
    Case('one-cell', '80 CPUs: 8 vCPUs, 1 cell', ratio=60),
    Case('one-cell-require', '80 CPUs: require, isolate', ratio=20),
    Case('two-cells', '256 CPUs: 16 vCPUs, 2 cells', ratio=30),
    Case('two-cells-require', '256 CPUs: require', ratio=8),
    Case('four-cells', '256 CPUs, 80%: 32, 4 cells', ratio=40),
    Case('16-cells-short', '16 cells: guest of 8, short', limit_us=2000,
         endless=True, expect=Expect.REFUSE),
    Case('24-cells-fits', '24 cells: guest of 8, fits', limit_us=5000,
         expect=Expect.FIT),
    Case('24-cells-short', '24 cells: guest of 8, short', limit_us=5000,
         endless=True, expect=Expect.REFUSE),
    Case('request', '1,000 hosts: whole request', ratio=5,
         whole_request=True),
)
