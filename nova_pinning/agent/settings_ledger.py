# SPDX-License-Identifier: Apache-2.0
"""What the agent has changed, and what was there before.

Nova and administrators write to the same places. A value that is not what
the agent wrote is somebody else's, and from then on the one to go back to;
where that happens again and again the agent gives way.
"""

from collections.abc import Iterator
from collections.abc import Mapping
import dataclasses

from nova_pinning import cpuset
from nova_pinning.host import agent_record
from nova_pinning import units

#: How often in an hour somebody else may write before the agent gives way.
PATIENCE = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """A setting that is to be written."""

    setting: agent_record.Setting
    cpus: cpuset.CpuSet
    before: cpuset.CpuSet
    is_return: bool = False


class SettingsLedger:
    """All that was changed.

    :param entries: those of the record, which change with the ledger
    """

    def __init__(self, entries: dict[
            agent_record.Setting, agent_record.SettingEntry]) -> None:
        self.entries = entries

    def changes(
        self, wanted: Mapping[agent_record.Setting, cpuset.CpuSet],
        present: Mapping[agent_record.Setting, cpuset.CpuSet], now: float,
    ) -> Iterator[Change]:
        """What is to be written, and the ledger with it.

        The ledger is to be kept before anything is written.

        :param wanted: empty to put everything back
        :param present: of all settings that are wanted or in the ledger, if
            they are there at all
        """
        for setting in [*self.entries]:
            entry = self.entries[setting]
            if setting not in present:
                del self.entries[setting]
            elif setting not in wanted:
                if (not entry.is_own(present[setting])
                        or entry.original == present[setting]):
                    del self.entries[setting]
                else:
                    # What was there has to be known until it is there again.
                    yield Change(setting, entry.original, present[setting],
                                 True)
        for setting, cpus in wanted.items():
            if setting in present:
                yield from self._change(setting, cpus, present[setting], now)

    def made(self, change: Change) -> None:
        """Note that a change was made."""
        if change.is_return:
            del self.entries[change.setting]
        else:
            self.entries[change.setting].replaced = None

    def failed(self, change: Change, now: float) -> None:
        """Note that a change was not made; in time it is given up.

        What is to go back is tried again and again.
        """
        entry = self.entries[change.setting]
        if not change.is_return:
            entry.ours, entry.replaced = change.before, None
            entry.overrides = *entry.overrides, now

    def yielded(self, now: float) -> list[agent_record.Setting]:
        """Settings that are left to whoever else writes them."""
        return [setting for setting, entry in self.entries.items()
                if _gives_way(entry, now)]

    def _change(self, setting: agent_record.Setting, cpus: cpuset.CpuSet,
                there: cpuset.CpuSet, now: float) -> Iterator[Change]:
        entry = self.entries.get(setting)
        if entry is None:
            if there != cpus:
                self.entries[setting] = agent_record.SettingEntry(
                    there, cpus, replaced=there)
                yield Change(setting, cpus, there)
            return
        if there != cpus and not entry.is_own(there):
            entry.original = there
            entry.overrides = (
                *(time for time in entry.overrides
                  if time > now - units.SECONDS_PER_HOUR), now)
            entry.ours, entry.replaced = there, None
        if there == cpus:
            entry.ours, entry.replaced = cpus, None
        elif not _gives_way(entry, now):
            entry.ours, entry.replaced = cpus, there
            yield Change(setting, cpus, there)


def _gives_way(entry: agent_record.SettingEntry, now: float) -> bool:
    return sum(time > now - units.SECONDS_PER_HOUR
               for time in entry.overrides) >= PATIENCE
