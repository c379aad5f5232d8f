# SPDX-License-Identifier: Apache-2.0
"""The agent: looks, decides, writes down what it is about to do, does it."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import time

from nova_pinning.agent import activity_meter
from nova_pinning.agent import actuators
from nova_pinning.agent import agent_model
from nova_pinning.agent import cache_control
from nova_pinning.agent import decision
from nova_pinning.agent import guest_memory
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


@dataclasses.dataclass(frozen=True, slots=True)
class Round:
    """What came of one look at the host.

    :param guests: those that run
    :param done: what was changed, or would be, in words
    :param waiting: guests without what they ask for, and why
    :param trouble: what could not be done
    :param masks: ways that guests have for themselves, by UUID and domain
    :param unbanned: interrupts that irqbalance may move, as far as is known
    :param seconds: how long all of it took
    """

    guests: tuple[agent_model.AgentGuest, ...] = ()
    done: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()
    masks: dict[str, dict[int, int]] = dataclasses.field(default_factory=dict)
    unbanned: frozenset[int] = frozenset()
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
        mover: guest_memory.MemoryMover | None = None,
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
        self._memory = guest_memory.MemoryFollower(
            files, {*record.awaited_memory},
            mover or guest_memory.MemoryMover())
        self._told_irqbalance: tuple[frozenset[int], frozenset[int]] = (
            frozenset(), frozenset())
        self._irqbalance_trouble: list[str] = []
        self._unbanned: set[int] = set()

    def reconcile(self, dry_run: bool = False) -> Round:
        """Bring the host in step with its guests.

        :param dry_run: change nothing, and say what would be changed
        :raises running_guests.GuestsUnknownError: everything is left as it
            is then
        """
        started = time.monotonic()
        now = self._clock()
        guests = tuple(self._source.guests())
        by_uuid = {guest.uuid: guest for guest in guests}
        host = dataclasses.replace(
            self._host, interrupts=host_reading.device_interrupts(
                self._files, (address for guest in guests
                              for address in guest.hostdevs)))
        served = self._settings.read(
            agent_model.interrupt(number) for nic in host.nics
            for number in nic.interrupts)
        activity = self._meter.measure(now, guests)
        homes_before = dict(self._homes.homes)
        desired = decision.decide(
            host, guests, self._scheme, self._homes, activity, served, now)
        done: list[str] = []
        trouble: list[str] = []
        subjects = wording.Subjects(by_uuid)
        self._set(desired.settings, subjects, now, dry_run, done, trouble)
        self._follow(homes_before, guests, activity, dry_run, done, trouble)
        outcome = self._control(desired, by_uuid, dry_run, done, trouble)
        if not dry_run:
            if self._scheme.cache:
                self.monitoring.reconcile(guests)
            self._tell_irqbalance(trouble)
            self._remember(done, now)
        names = {guest.uuid: guest.name for guest in guests}
        return Round(
            guests, tuple(done), tuple(_waiting(guests, outcome, names)),
            tuple((*trouble, *filter(None, (self.monitoring.trouble,)), *(
                f'{subjects.name(setting)}: left alone for an '
                f'hour: {settings_ledger.PATIENCE} times it could not be set, '
                'or somebody else set it'
                for setting in self._ledger.yielded(now)))),
            {_uuid(group): dict(masks)
             for group, masks in outcome.masks.items()},
            frozenset(self._unbanned), time.monotonic() - started)

    def release(self) -> Round:
        """Put everything back, whoever runs by now."""
        now = self._clock()
        done: list[str] = []
        trouble: list[str] = []
        self._set({}, wording.Subjects({}), now, False, done, trouble)
        self.monitoring.release()
        trouble += filter(None, (self.monitoring.trouble,))
        failures = self._cache.release()
        if not failures:
            done.append('all groups of caches were given up')
            self._cache.base = {}
        trouble += failures
        self._homes.homes.clear()
        self._memory.pending.clear()
        if self.record.banned_interrupts is not None and all([
                self._ban(pid, path, (), trouble) for pid, path
                in irqbalance_socket.running(self._files).items()]):
            self.record.banned_interrupts = None
        self._remember(done, now)
        return Round(done=tuple(done), trouble=tuple(trouble))

    def _set(
        self, wanted: Mapping[agent_record.Setting, cpuset.CpuSet],
        subjects: wording.Subjects, now: float, dry_run: bool,
        done: list[str], trouble: list[str],
    ) -> None:
        settings, ledger = self._settings, self._ledger
        if dry_run:
            ledger = settings_ledger.SettingsLedger(
                {setting: dataclasses.replace(entry)
                 for setting, entry in ledger.entries.items()})
        present = settings.read(dict.fromkeys((*wanted, *ledger.entries)))
        changes = tuple(ledger.changes(wanted, present, now))
        if dry_run:
            done += wording.changes(changes, subjects)
            return
        if changes:
            # Whoever comes after a crash has to know what there was.
            self._remember([], now)
        made = []
        for change in changes:
            try:
                settings.write(change.setting, change.cpus)
            except OSError as error:
                trouble.append(
                    f'{subjects.name(change.setting)} cannot have '
                    f'CPUs {change.cpus or "any"}: {_reason(error)}')
                ledger.failed(change, now)
            else:
                ledger.made(change)
                made.append(change)
        done += wording.changes(made, subjects)

    def _follow(
        self, homes_before: Mapping[str, frozenset[int]],
        guests: Iterable[agent_model.AgentGuest],
        activity: Mapping[str, decision.Activity], dry_run: bool,
        done: list[str], trouble: list[str],
    ) -> None:
        """Have memory follow guests that are at home on another node."""
        if not self._scheme.memory:
            return
        homes = self._homes.homes
        self._memory.note(self._host, homes_before, homes)
        begun, troubles = self._memory.follow(
            self._host, guests, homes,
            {uuid: what.memory for uuid, what in activity.items()}, dry_run)
        done += begun
        trouble += troubles

    def finish(self) -> None:
        """Wait for what is still under way."""
        self._memory.mover.wait()

    def _control(
        self, desired: decision.DesiredState,
        by_uuid: Mapping[str, agent_model.AgentGuest], dry_run: bool,
        done: list[str], trouble: list[str],
    ) -> cache_control.CacheOutcome:
        if not self._scheme.cache:
            return cache_control.CacheOutcome()
        try:
            outcome = self._cache.reconcile(desired.requests, dry_run)
        except resctrl.CacheUnavailable as error:
            if not desired.requests:
                return cache_control.CacheOutcome()
            return cache_control.CacheOutcome(refused={
                request.guest: str(error) for request in desired.requests})
        done += (wording.step(step, by_uuid) for step in outcome.done)
        if outcome.trouble:
            trouble.append(outcome.trouble)
        return outcome

    def _tell_irqbalance(self, trouble: list[str]) -> None:
        ours = frozenset(self.record.set_interrupts())
        running = irqbalance_socket.running(self._files)
        state = ours, frozenset(running)
        if state != self._told_irqbalance and (
                ours or self.record.banned_interrupts):
            self._unbanned.clear()
            if running:
                # Whoever comes after a crash has to know that it was told.
                self.record.banned_interrupts = ours
                self._save(self.record)
            told: list[str] = []
            if all([self._ban(pid, path, sorted(ours), told)
                    for pid, path in running.items()]):
                self._told_irqbalance = state
            self._irqbalance_trouble = told
        trouble += self._irqbalance_trouble

    def _ban(self, pid: int, path: str, numbers: Sequence[int],
             trouble: list[str]) -> bool:
        """Have an irqbalance leave alone these, and what it was started with.

        :returns: whether it is known what came of it
        """
        wanted = dict.fromkeys((
            *sorted(irqbalance_socket.own_bans(self._files, pid)), *numbers))
        try:
            held = irqbalance_socket.ban(path, [*wanted])
        except irqbalance_socket.IrqbalanceError as error:
            trouble.append(str(error))
            self._unbanned.update(numbers)
            return False
        missing = cpuset.CpuSet(wanted.keys() - held)
        if missing:
            self._unbanned.update(missing)
            trouble.append(
                f'irqbalance (process {pid}) takes no list as long as this, '
                f'and may move {len(missing)} interrupts away: {missing}; '
                'stop it, start it with --banirq for each of them, or '
                'upgrade it to 1.9.5')
        return True

    def _remember(self, done: Sequence[str], now: float) -> None:
        self.record.homes = dict(self._homes.homes)
        self.record.moves = tuple(self._homes.moves)
        self.record.awaited_memory = frozenset(self._memory.pending)
        self.record.base_masks = dict(self._cache.base)
        self.record.history = (*self.record.history, *(
            f'{now:.0f}: {text}' for text in done))[-agent_record.HISTORY:]
        self._save(self.record)


def _uuid(group: str) -> str:
    return group.removeprefix(cache_control.PREFIX)


def _waiting(
    guests: Iterable[agent_model.AgentGuest],
    outcome: cache_control.CacheOutcome, names: dict[str, str],
) -> Iterator[str]:
    for guest in guests:
        for problem in guest.wishes.problems:
            yield f'guest {guest.name} ({guest.uuid}): {problem}'
    for group, reason in outcome.refused.items():
        uuid = _uuid(group)
        yield f'guest {names.get(uuid, "")} ({uuid}): {reason}'


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
