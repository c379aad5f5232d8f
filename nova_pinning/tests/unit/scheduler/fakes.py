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

"""A Placement and a clock that do as they are told."""

from nova_pinning.scheduler import traits


class Clock:
    """Seconds since any moment, which pass when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Placement:
    """Answers like client.Placement, or raises.

    :param traits: by UUID of the provider
    :ivar error: what to raise instead
    :ivar reads: how often it was asked
    """

    def __init__(self, traits=None):
        self.traits = traits or {}
        self.error = None
        self.reads = 0

    def traits_by_provider(self, prefix):
        self.reads += 1
        if self.error is not None:
            raise self.error
        return {
            provider: frozenset(
                name for name in names if name.startswith(prefix))
            for provider, names in self.traits.items()}


def reader(placement, refresh_seconds=60, max_age_seconds=3600,
           first_wait_seconds=0, clock=None):
    """A reader of this Placement, which nobody has started."""
    return traits.Reader(
        lambda: placement,
        traits.Settings(refresh_seconds, max_age_seconds, first_wait_seconds),
        clock or Clock())


def serve(found):
    """Let filters and weighers see these traits, by UUID of the provider."""
    made = reader(Placement(found))
    assert made.refresh()
    traits.use(made)
