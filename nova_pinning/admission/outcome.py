# SPDX-License-Identifier: Apache-2.0
"""What comes of a guest on a host: it is admitted, it is not, or nobody knows.

A refusal outweighs what is not known, and that outweighs a fit: an undecided
guest has a place as far as is known, and may have none.
"""

from collections.abc import Iterable
import dataclasses
import enum
from typing import NamedTuple
from typing import TypeAlias

from nova_pinning.admission import devices
from nova_pinning.admission import written_forms
from nova_pinning.document import terms
from nova_pinning import model


class DoubtKind(enum.StrEnum):
    """What may not be known where a guest and a host are judged."""

    #: Of the host: its cells, and what has which part of it.
    CELLS = 'cells'
    CONTRADICTION = 'contradiction'
    DEVICES = 'devices'
    DEVICE_TAGS = 'device-tags'
    EMULATOR_CPUS = 'emulator-cpus'
    HELD = 'held'
    #: Of the host: what Placement has of it.
    PROVIDERS = 'providers'
    TRAITS = 'traits'
    #: Of the guest: what it asks for besides.
    REQUEST = 'request'
    #: Of nova-scheduler: what a filter says that is not judged here.
    FILTER = 'filter'


class Doubt(NamedTuple):
    """Something that is not known, so that an answer is undecided.

    :param text: what, for people
    :param about: the resource class, trait, filter or extra spec, '' for none
    """

    kind: DoubtKind
    text: terms.ShownLine
    about: terms.ShownLine = ''


class RefusalLayer(enum.StrEnum):
    """What of nova refuses a guest, in the order in which nova asks."""

    PLACEMENT = 'placement'
    FILTER = 'filter'
    CLASS = 'class'
    FIT = 'fit'


class AdmissionRefusal(NamedTuple):
    """Why a guest cannot be on a host.

    :param name: the filter by nova's name; for PLACEMENT 'resources',
        'required-trait' or 'forbidden-trait'; for FIT a model.Reason
    :param about: the resource class, trait, aggregate or key; '' for none
    :param text: a clause with figures whose subject is the host
    """

    layer: RefusalLayer
    name: str
    about: str
    text: str


#: Amounts by resource class, sorted by it.
Amounts: TypeAlias = written_forms.Amounts


@dataclasses.dataclass(frozen=True, slots=True)
class HostUse:
    """What one guest uses of a host.

    :param fit: where its NUMA cells lie, None if it has none
    :param allocations: in Placement, by the provider's index in
        ``OfferedHost.providers``; providers of which it uses nothing left out
    """

    fit: model.Fit | None = None
    pci_devices: tuple[devices.PciUse, ...] = ()
    allocations: tuple[tuple[int, Amounts], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Admitted:
    """The guest may be on the host."""

    use: HostUse


@dataclasses.dataclass(frozen=True, slots=True)
class NotAdmitted:
    """The guest cannot be on the host.

    :param refusals: at least one; all there are if all were asked for
    """

    refusals: tuple[AdmissionRefusal, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Undecided:
    """As far as is known the guest may be on the host; not all is known.

    :param doubts: at least one, each once
    :param use: as far as is known
    """

    doubts: tuple[Doubt, ...]
    use: HostUse


Outcome: TypeAlias = Admitted | NotAdmitted | Undecided


def outcome(use: HostUse, doubts: Iterable[Doubt]) -> Admitted | Undecided:
    """What a guest that nothing refuses comes to."""
    named = tuple(dict.fromkeys(doubts))
    return Undecided(named, use) if named else Admitted(use)
