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

"""Compute hosts of either kind: namespaces of this machine, or a QEMU."""

from minicloud import namespace
from minicloud import service
from minicloud import settings as _settings
from minicloud import virtual


def parts(state: _settings.State, settings: _settings.Settings,
          host: _settings.HostSettings) -> list[service.Part]:
    """Return the parts that a compute host is made of."""
    if host.topology:
        return virtual.parts(state, settings, host)
    return namespace.parts(state, settings, host)


def enter(state: _settings.State, settings: _settings.Settings,
          host: _settings.HostSettings, command: list[str]) -> list[str]:
    """Return a command line that runs a command on a compute host."""
    if host.topology:
        return virtual.enter(state, settings, host, command)
    return namespace.enter(state, settings, host, command)
