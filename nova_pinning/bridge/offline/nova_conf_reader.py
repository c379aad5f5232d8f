# SPDX-License-Identifier: Apache-2.0
"""nova.conf as a host's nova-compute loads it.

oslo.config reads it, with nova's own options, and nova's own code makes
sense of what they say. All of that happens in a set of options of our own, so
that nova.conf.CONF of this process stays as it is.
"""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import glob
import os
import pathlib
import re
import stat
import types
from typing import Any

from oslo_config import cfg

from nova_pinning.bridge.offline import standalone
from nova_pinning import cpuset
from nova_pinning import errors
from nova_pinning.host.check import facts
from nova_pinning.host import host_model
from nova_pinning.host import machine_files

_NAME = 'nova-compute'
_FILE, _DIRECTORY = '--config-file', '--config-dir'
_SETS = ((None, 'vcpu_pin_set'), ('compute', 'cpu_dedicated_set'),
         ('compute', 'cpu_shared_set'))
# How oslo.config says where a value is from.
_LOCATION = re.compile(r"LocationInfo\(location=.*?, detail='([^']*)'\)")
# Options in the environment, which outweighs files.
_VARIABLE = re.compile('OS_.*__')


class UnreadableError(errors.InputError):
    """There is no nova.conf, or it cannot be read."""


@dataclasses.dataclass(frozen=True, slots=True)
class NovaConfSource:
    """Where a nova-compute has its options from.

    :param root: the directory that is / to it
    :param arguments: of its command line
    :param environment: as far as it is known
    :param directory: its working directory
    :param pid: '' if none runs
    :param others: pids of those that run besides
    """

    root: pathlib.Path
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    directory: str = '/'
    pid: str = ''
    others: tuple[str, ...] = ()


def find(tree: machine_files.Tree) -> NovaConfSource:
    """The nova-compute that runs on a host, of several the first.

    One in a container is found as well, and its files are those that it sees.

    :returns: how one would be started by default, if none runs
    """
    running = {}
    for pid in filter(str.isdecimal, tree.names('/proc')):
        words = tree.text(f'/proc/{pid}/cmdline') or ''
        arguments = _arguments(words.removesuffix('\0').split('\0'))
        if arguments is not None:
            running[pid] = arguments
    if not running:
        return NovaConfSource(tree.root)
    pid, *others = running
    return dataclasses.replace(
        _process(tree, pid, running[pid]), pid=pid, others=tuple(others))


def _arguments(words: Sequence[str]) -> tuple[str, ...] | None:
    """Those of a nova-compute; None if the command line is of none.

    It is a script: its interpreter comes before it, with options, as in
    '/usr/bin/python3 -s /usr/bin/nova-compute'.
    """
    start = 0
    if os.path.basename(words[0]).startswith('python'):
        start = next((index for index, word in enumerate(words)
                      if index and not word.startswith('-')), 0)
    if os.path.basename(words[start]) != _NAME:
        return None
    return tuple(words[start + 1:])


def named(arguments: Iterable[tuple[str, str]]) -> NovaConfSource:
    """One that is given certain files and directories on this machine.

    :param arguments: '--config-file' or '--config-dir', each with a path
    """
    return NovaConfSource(pathlib.Path('/'), tuple(
        word for pair in arguments for word in pair), directory=os.getcwd())


def _process(tree: machine_files.Tree, pid: str,
             arguments: tuple[str, ...]) -> NovaConfSource:
    root, directory = tree.root, '/'
    entry = root / 'proc' / pid
    # In a dump these would lead to the machine that it is looked at on.
    if tree.is_live:
        with contextlib.suppress(OSError):
            directory = os.readlink(entry / 'cwd')
            os.listdir(entry / 'root')
            root = entry / 'root'
    environment = dict(
        pair.split('=', 1) for pair
        in (tree.text(f'/proc/{pid}/environ') or '').split('\0')
        if '=' in pair)
    return NovaConfSource(root, arguments, environment, directory)


def load(source: NovaConfSource,
         devices: Iterable[host_model.PciDevice] = (),
         root: pathlib.Path = pathlib.Path('/')) -> facts.NovaConf:
    """Load nova.conf as nova-compute does.

    Ratios that are not set are the initial ones, which a nova-compute starts
    with; Placement may have been told others since.

    :param devices: those of which it is asked whether guests may have them
    :param root: whose /sys tells which device an interface is of
    :raises UnreadableError: if there is no file, or one cannot be read
    :raises errors.InputError: if nova-compute could not load it
    """
    files = tuple(_files(source))
    if not files:
        raise UnreadableError(
            'there is no nova.conf', errors.Location('/etc/nova'),
            f'name it with {_FILE} if it is elsewhere')
    for file in files:
        _check_readable(file)
    standalone.prepare()
    from nova.conf import compute
    from nova.conf import libvirt
    from nova.conf import pci
    from nova.conf import scheduler
    from nova.pci import devspec
    from nova.pci import request
    from nova.virt import hardware

    from nova_pinning.bridge.offline import nova_capabilities
    conf = cfg.ConfigOpts()
    for module in (compute, libvirt, pci, scheduler):
        module.register_opts(conf)
    try:
        with (_environment(source.environment), _sysfs_of(root),
              replaced_conf(hardware, conf), replaced_conf(request, conf),
              replaced_conf(devspec, conf)
              if nova_capabilities.DEVICE_SPECS_HAVE_OPTIONS
              else contextlib.nullcontext()):
            conf([word for file in files for word in (_FILE, file)],
                 project='nova', prog=_NAME, default_config_files=[],
                 default_config_dirs=[])
            return facts.NovaConf(
                files, _settings(conf), frozenset(_offered(conf, devices)),
                conf.libvirt.file_backed_memory > 0,
                conf.libvirt.cpu_power_management,
                cpuset.CpuSet(hardware.get_vcpu_pin_set() or ()))
    except (cfg.Error, ValueError) as error:
        raise errors.InputError(
            f'nova-compute cannot load it: {message(error)}',
            errors.Location(', '.join(files))) from error


def message(error: Exception) -> str:
    """What is wrong, in a line, with no more than the file's name."""
    text = ' '.join(str(error).split()).rstrip('.')
    return _LOCATION.sub(r'\1', text)


@contextlib.contextmanager
def _environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Have oslo.config look into another environment for options.

    ConfigOpts.set_override would not do: what is set in a group is set in all
    ConfigOpts that have it.
    """
    before = dict(os.environ)
    other = {name: value for name, value in environment.items()
             if _VARIABLE.match(name)}
    try:
        for name in filter(_VARIABLE.match, before):
            del os.environ[name]
        os.environ.update(other)
        yield
    finally:
        for name in other:
            del os.environ[name]
        os.environ.update(before)


def _settings(conf: cfg.ConfigOpts) -> host_model.NovaSettings:
    """What the options say.

    :raises ValueError: if they make no sense
    """
    for group, name in _SETS:
        # Nova would fill the memory with 0-99999999999.
        cpuset.CpuSet.parse((conf[group] if group else conf)[name] or '')
    from nova import exception
    from nova.virt import hardware
    try:
        hardware.get_vcpu_pin_set()
        dedicated = hardware.get_cpu_dedicated_set()
        shared = hardware.get_cpu_shared_set()
        reserved = hardware.numa_get_reserved_huge_pages()
    except exception.NovaException as error:
        raise ValueError(str(error)) from error
    _check_sets(conf, dedicated or set(), shared or set())
    return host_model.NovaSettings(
        dedicated_cpus=dedicated and cpuset.CpuSet(dedicated),
        shared_cpus=shared and cpuset.CpuSet(shared),
        # None and 0 both leave it to the initial ratio: see
        # _get_allocation_ratios of nova.virt.driver.
        cpu_allocation_ratio=(
            conf.cpu_allocation_ratio or conf.initial_cpu_allocation_ratio),
        ram_allocation_ratio=(
            conf.ram_allocation_ratio or conf.initial_ram_allocation_ratio),
        reserved_memory_mib=conf.reserved_host_memory_mb,
        reserved_huge_pages={
            (node, int(size_kib)): count
            for node, sizes in reserved.items()
            for size_kib, count in sizes.items()},
        packs_cells=conf.compute.packing_host_numa_cells_allocation_strategy)


def _check_sets(conf: cfg.ConfigOpts, dedicated: set[int],
                shared: set[int]) -> None:
    """What does not go together.

    As LibvirtDriver._check_cpu_set_configuration, which takes libvirt.

    :raises ValueError: if nova-compute would not start
    """
    if conf.vcpu_pin_set:
        if dedicated:
            raise ValueError(
                'vcpu_pin_set and [compute] cpu_dedicated_set are both set')
    elif dedicated & shared:
        raise ValueError('[compute] cpu_dedicated_set and cpu_shared_set both '
                         f'have {cpuset.CpuSet(dedicated & shared)}')
    elif (dedicated or shared) and conf.reserved_host_cpus:
        raise ValueError('reserved_host_cpus is set beside [compute] '
                         'cpu_dedicated_set or cpu_shared_set')


def _offered(conf: cfg.ConfigOpts,
             devices: Iterable[host_model.PciDevice]) -> Iterator[str]:
    """Addresses of devices that guests may have.

    :raises ValueError: if [pci] device_spec or alias makes no sense
    """
    from nova.pci import request
    from nova.pci import whitelist
    found = [{'address': device.address, 'vendor_id': device.vendor_id,
              'product_id': device.product_id,
              'parent_addr': device.physical_function or None}
             for device in devices]
    for text in conf.pci.device_spec:
        with _refusing(f'[pci] device_spec {text}'):
            allowed = whitelist.Whitelist([text])
            yield from (device['address'] or '' for device in found
                        if allowed.device_assignable(device))
    with _refusing('[pci] alias'):
        # What nova remembers of another nova.conf is passed by.
        request.get_alias_from_config.__wrapped__()


@contextlib.contextmanager
def _refusing(entry: str) -> Iterator[None]:
    """Have it told where nova ends with an error, of whatever kind.

    :raises ValueError: with the entry that nova could not read
    """
    try:
        yield
    except Exception as error:
        raise ValueError(f'{entry}: {error}') from error


@contextlib.contextmanager
def _sysfs_of(root: pathlib.Path) -> Iterator[None]:
    """Have nova look for PCI devices in the /sys below a root."""
    from nova.pci import utils

    def below(call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda path, *arguments: call(
            str(root / path.lstrip('/')), *arguments)

    utils.open = below(open)
    utils.os = types.SimpleNamespace(
        readlink=below(os.readlink), path=types.SimpleNamespace(
            isdir=below(os.path.isdir), join=os.path.join))
    try:
        yield
    finally:
        utils.os = os
        del utils.open


@contextlib.contextmanager
def replaced_conf(module: object, conf: cfg.ConfigOpts) -> Iterator[None]:
    """Have a module of nova look into other options."""
    before = module.CONF  # type: ignore[attr-defined]
    module.CONF = conf  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.CONF = before  # type: ignore[attr-defined]


def _files(source: NovaConfSource) -> Iterator[str]:
    """What is read, in that order; the last word on an option counts.

    Files that are named take the place of those read by default, but not of
    the directories read by default, and likewise the other way round.
    """
    named = tuple(_named(source.arguments))
    options = {option for option, _path in named}
    if _FILE not in options:
        yield from _default(source, '.conf')
    if _DIRECTORY not in options:
        for directory in _default(source, '.conf.d'):
            yield from _in_directory(directory)
    for option, path in named:
        path = _seen(source, os.path.join(source.directory, path))
        if option == _FILE:
            yield path
        elif os.path.isdir(path):
            yield from _in_directory(path)
        else:
            raise UnreadableError('there is no such directory',
                                  errors.Location(path))


def _named(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Files and directories that a command line names, in their order."""
    words = iter(arguments)
    for word in words:
        option, equals, value = word.partition('=')
        if option in (_FILE, _DIRECTORY):
            yield option, value if equals else next(words, '')


def _default(source: NovaConfSource, suffix: str) -> Iterator[str]:
    """As oslo_config.cfg.find_config_files, for another process."""
    home = source.environment.get('HOME')
    directories = [
        *([f'{home}/.nova', home] if home else []), '/etc/nova', '/etc',
        *(f'{source.environment[name]}/etc/nova'
          for name in ('SNAP_COMMON', 'SNAP') if name in source.environment)]
    for name in ('nova', _NAME):
        for directory in directories:
            path = _seen(source, f'{directory}/{name}{suffix}')
            if os.path.exists(path):
                yield path
                break


def _seen(source: NovaConfSource, path: str) -> str:
    """A path of nova-compute, from here."""
    return str(source.root / path.lstrip('/'))


def _in_directory(path: str) -> Iterator[str]:
    try:
        os.listdir(path)
    except OSError as error:
        raise UnreadableError(f'cannot be read: {error.strerror}',
                              errors.Location(path)) from error
    yield from sorted(glob.glob(f'{glob.escape(path)}/*.conf'))


def _check_readable(path: str) -> None:
    try:
        if stat.S_ISFIFO(os.stat(path).st_mode):
            raise UnreadableError('is a pipe', errors.Location(path))
        with open(path, 'rb') as file:
            file.read(1)
    except OSError as error:
        raise UnreadableError(f'cannot be read: {error.strerror}',
                              errors.Location(path)) from error
