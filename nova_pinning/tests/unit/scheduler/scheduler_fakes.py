# SPDX-License-Identifier: Apache-2.0
"""A Placement and a clock that do as they are told."""

from nova_pinning.scheduler import traits_reader


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
           first_wait_seconds=0, clock=None, listen=None):
    """A reader of this Placement, which nobody has started."""
    return traits_reader.TraitsReader(
        lambda: placement,
        traits_reader.TraitsSettings(refresh_seconds, max_age_seconds,
                                     first_wait_seconds), clock or Clock(),
        listen)


def serve(traits):
    """Let filters and weighers see these traits, by UUID of the provider."""
    made = reader(Placement(traits))
    assert made.refresh()
    traits_reader.use(made)
