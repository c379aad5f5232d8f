# SPDX-License-Identifier: Apache-2.0
"""The agent: looks, decides, writes down what it is about to do, does it."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import time

from nova_pinning.agent import activity_meter
from nova_pinning.agent import actuators
from nova_pinning.agent import agent_model
from nova_pinning.agent import cache_control
from nova_pinning.agent import cache_model
from nova_pinning.agent import decision
from nova_pinning.agent import guest_monitoring
from nova_pinning.agent import home_domains
from nova_pinning.agent import host_reading
from nova_pinning.agent import irqbalance_socket
from nova_pinning.agent import kernel_files
from nova_pinning.agent import resctrl
from nova_pinning.agent import running_guests
from nova_pinning.agent import settings_ledger
from nova_pinning.agent import wording
from nova_pinning import cpuset
from nova_pinning.host import agent_record


@dataclasses.dataclass(slots=True)
class Round:
    """What came of one look at the host.

    :ivar guests: those that run
    :ivar done: what was changed, or would be, in words
    :ivar waiting: guests without what they ask for, and why
    :ivar trouble: what could not be done
    :ivar masks: ways that guests have for themselves, by UUID and domain
    :ivar unbanned: interrupts that irqbalance may move, as far as is known
    :ivar seconds: how long all of it took
    """

    guests: tuple[agent_model.AgentGuest, ...] = ()
    done: list[str] = dataclasses.field(default_factory=list)
    waiting: list[str] = dataclasses.field(default_factory=list)
    trouble: list[str] = dataclasses.field(default_factory=list)
    masks: Mapping[str, Mapping[int, int]] = dataclasses.field(
        default_factory=dict)
    unbanned: set[int] = dataclasses.field(default_factory=set)
    seconds: float = 0.0


def boot_time() -> float:
    """Seconds since the machine was booted."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class HostAgent:
    """Keeps a host as it is to be.

    :param host: as read from its plan
    :param record: what an earlier agent has done
    :param save: keeps the record, before anything is changed and after
    """

    def __init__(
        self, host: agent_model.AgentHost, scheme: decision.Scheme,
        files: kernel_files.WritableTree, source: running_guests.RunningGuests,
        record: agent_record.AgentRecord,
        save: Callable[[agent_record.AgentRecord], None],
        move_limits: home_domains.HomeLimits = home_domains.HomeLimits(),
        kept_ways: int = 1, clock: Callable[[], float] = boot_time,
        settings: actuators.Actuators | None = None,
    ) -> None:
        self._host, self._scheme, self._files = host, scheme, files
        self._source, self.record, self._save = source, record, save
        self._clock = clock
        self._settings = settings or actuators.Actuators(files)
        self._ledger = settings_ledger.SettingsLedger(record.settings)
        self._cache = cache_control.CacheControl(
            resctrl.ResctrlGroups(files, kept_ways), record.base_masks,
            lambda: self._remember([], self._clock()))
        self.monitoring = guest_monitoring.GuestMonitoring(files)
        self._meter = activity_meter.ActivityMeter(files)
        self._homes = home_domains.HomeDomains(
            move_limits, dict(record.homes), list(record.moves))

    def reconcile(self, dry_run: bool = False) -> Round:
        """Bring the host in step with its guests.

        :param dry_run: change nothing, and say what would be changed
        :raises running_guests.GuestsUnknownError: everything is left as it
            is then
        """
        started, now = time.monotonic(), self._clock()
        guests = tuple(self._source.guests())
        told = Round(guests)
        host = dataclasses.replace(
            self._host, interrupts=host_reading.device_interrupts(
                self._files, (address for guest in guests
                              for address in guest.hostdevs)))
        served = self._settings.read(
            agent_model.interrupt(number) for nic in host.nics
            for number in nic.interrupts)
        activity = self._meter.measure(now, guests)
        desired = decision.decide(
            host, guests, self._scheme, self._homes, activity, served, now)
        self._set(told, desired.settings, now, dry_run)
        told.waiting += (
            f'{wording.guest_name(guest)}: {problem}'
            for guest in guests for problem in guest.wishes.problems)
        if self._scheme.cache:
            self._control(told, desired.requests, dry_run)
        if not dry_run:
            if self._scheme.cache:
                self.monitoring.reconcile(guests)
            self._tell_irqbalance(told)
            self._remember(told.done, now)
        subjects = wording.Subjects(guests)
        told.trouble += (*filter(None, (self.monitoring.trouble,)), *(
            f'{subjects.name(setting)}: left alone for an '
            f'hour: {settings_ledger.PATIENCE} times it could not be set, '
            'or somebody else set it'
            for setting in self._ledger.yielded(now)))
        told.seconds = time.monotonic() - started
        return told

    def release(self) -> Round:
        """Put everything back, whoever runs by now."""
        now, told = self._clock(), Round()
        self._set(told, {}, now, dry_run=False)
        self.monitoring.release()
        failures = self._cache.release()
        if not failures:
            told.done.append('all groups of caches were given up')
            self._cache.base = {}
        told.trouble += (*filter(None, (self.monitoring.trouble,)), *failures)
        self._homes.homes.clear()
        if self.record.banned_interrupts is not None and (
                self._ban(told, frozenset())):
            self.record.banned_interrupts = None
        self._remember(told.done, now)
        return told

    def _set(
        self, told: Round,
        wanted: Mapping[agent_record.Setting, cpuset.CpuSet], now: float,
        dry_run: bool,
    ) -> None:
        settings, ledger = self._settings, self._ledger
        if dry_run:
            ledger = settings_ledger.SettingsLedger(
                {setting: dataclasses.replace(entry)
                 for setting, entry in ledger.entries.items()})
        present = settings.read(dict.fromkeys((*wanted, *ledger.entries)))
        changes = tuple(ledger.changes(wanted, present, now))
        subjects = wording.Subjects(told.guests)
        if dry_run:
            told.done += wording.changes(changes, subjects)
            return
        if changes:
            # Whoever comes after a crash has to know what there was.
            self._remember([], now)
        made = []
        for change in changes:
            try:
                settings.write(change.setting, change.cpus)
            except OSError as error:
                told.trouble.append(
                    f'{subjects.name(change.setting)} cannot have '
                    f'CPUs {change.cpus or "any"}: {_reason(error)}')
                ledger.failed(change, now)
            else:
                ledger.made(change)
                made.append(change)
        told.done += wording.changes(made, subjects)

    def _control(
        self, told: Round, requests: Sequence[cache_model.CacheRequest],
        dry_run: bool,
    ) -> None:
        """Have caches and bandwidth divided as guests ask for it."""
        try:
            outcome = self._cache.reconcile(requests, dry_run)
        except resctrl.CacheUnavailable as error:
            outcome = cache_control.CacheOutcome(refused={
                request.guest: str(error) for request in requests})
        names = {cache_control.group_name(guest.uuid):
                 wording.guest_name(guest) for guest in told.guests}
        told.done += (wording.step(step, names) for step in outcome.done)
        told.waiting += (f'{names.get(group, group)}: {reason}'
                         for group, reason in outcome.refused.items())
        told.trouble += filter(None, (outcome.trouble,))
        told.masks = {group.removeprefix(cache_control.PREFIX): masks
                      for group, masks in outcome.masks.items()}

    def _tell_irqbalance(self, told: Round) -> None:
        ours = frozenset(self.record.set_interrupts())
        if not ours and not self.record.banned_interrupts:
            return
        if irqbalance_socket.running(self._files) and (
                ours != self.record.banned_interrupts):
            # Whoever comes after a crash has to know that it was told.
            self.record.banned_interrupts = ours
            self._save(self.record)
        self._ban(told, ours)

    def _ban(self, told: Round, numbers: frozenset[int]) -> bool:
        """Have irqbalance leave alone these, and what it was started with.

        :returns: whether it is known what came of it
        """
        is_known = True
        for pid, path in irqbalance_socket.running(self._files).items():
            own = irqbalance_socket.own_bans(self._files, pid)
            wanted = [*sorted(own), *sorted(numbers - own)]
            try:
                held = irqbalance_socket.ban(path, wanted)
            except irqbalance_socket.IrqbalanceError as error:
                told.trouble.append(str(error))
                told.unbanned |= numbers
                is_known = False
                continue
            missing = cpuset.CpuSet({*wanted} - held)
            if missing:
                told.unbanned.update(missing)
                told.trouble.append(
                    f'irqbalance (process {pid}) takes no list as long as '
                    f'this, and may move {len(missing)} interrupts away: '
                    f'{missing}; stop it, start it with --banirq for each of '
                    'them, or upgrade it to 1.9.5')
        return is_known

    def _remember(self, done: Sequence[str], now: float) -> None:
        self.record.homes = dict(self._homes.homes)
        self.record.moves = tuple(self._homes.moves)
        self.record.base_masks = dict(self._cache.base)
        self.record.history = (*self.record.history, *(
            f'{now:.0f}: {text}' for text in done))[-agent_record.HISTORY:]
        self._save(self.record)


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
