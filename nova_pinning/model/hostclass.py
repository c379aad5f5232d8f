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

"""Dedicated and shared: the two classes of hosts, and of guests."""

import enum


class HostClass(enum.StrEnum):
    """A class of hosts, and of the guests that belong on them."""

    DEDICATED = 'dedicated'
    SHARED = 'shared'

    @property
    def other(self) -> 'HostClass':
        """The class that it must be kept apart from."""
        return (HostClass.SHARED if self is HostClass.DEDICATED
                else HostClass.DEDICATED)


class UnknownClass(Exception):
    """A class is given, but not one that there is, or two at once."""


def parse(name: str, where: str) -> HostClass:
    """The class that a name stands for, in upper or lower case.

    :param where: what names it, for the message
    :raises UnknownClass: if there is no such class
    """
    try:
        return HostClass(name.strip().lower())
    except ValueError:
        raise UnknownClass(
            f'{where} is {name!r}; it can be dedicated or shared') from None
