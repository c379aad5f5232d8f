# SPDX-License-Identifier: Apache-2.0
"""What a plan of moves was asked for with.

It goes into the plan's document, so that the plan can be looked at, and made
anew, by the same wishes. Each value is as it was written on the command line;
the command that makes plans tells what it means.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """The wishes beside the goal, its hosts and how much room there is to be.

    '', () and False stand for what was not given.

    :param sizes: to make room for, with their weights, such as 16:3,8:1
    :param moves: at most, or a share of the guests such as 3%
    :param memory: to copy at most, such as 512GiB
    :param fixed: guests that stay, by UUID or name
    :param exclude: hosts that no guest leaves or comes to
    :param tag: server tags of guests that stay
    :param min_age: of guests that move, such as 7d
    :param max_age: of guests that move
    :param release: of nova, on hosts of which the snapshot does not tell it
    :param default_zone: of hosts that no aggregate puts in one
    :param bandwidth: of one migration, such as 10Gbit
    :param image_property: of guests of the sizes, key=value
    :param pci_alias: that flavors of the sizes name
    """

    sizes: str = ''
    moves: str = ''
    memory: str = ''
    fixed: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    tag: tuple[str, ...] = ()
    min_age: str = ''
    max_age: str = ''
    live_only: bool = False
    release: str = ''
    default_zone: str = ''
    isolated_aggregates: bool = False
    cross_zones: bool = False
    restarted: bool = False
    bandwidth: str = ''
    local_disks: bool = False
    post_copy: bool = False
    auto_converge: bool = False
    image_property: tuple[str, ...] = ()
    pci_alias: tuple[str, ...] = ()


def request_to_json(request: PlanRequest) -> dict[str, Any]:
    """The values of a document, without those that were not given."""
    return {
        field.name: list(value) if isinstance(value, tuple) else value
        for field in dataclasses.fields(request)
        if (value := getattr(request, field.name))}


def request_from_json(value: Mapping[str, Any]) -> PlanRequest:
    """The request of a document that is as the schema says."""
    values: dict[str, Any] = {
        name: tuple(given) if isinstance(given, list) else given
        for name, given in value.items()}
    return PlanRequest(**values)
