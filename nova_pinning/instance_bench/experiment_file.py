# SPDX-License-Identifier: Apache-2.0
"""Experiments: files that say what is measured, made to fit a host.

doc/source/admin/bench.rst describes the format, experiments/experiment-1.json
is its JSON Schema. A case has one value of each axis. Each scenario is
multiplied by all axes but those that it sets itself; values that it sets are
then its own axis. Cases that the host is too small for are in the experiment
with the reason.
"""

from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from importlib import resources
import itertools
import os
import pathlib
from typing import Any
from typing import Self

from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.instance_bench import bench_model
from nova_pinning.instance_bench import case_tenants
from nova_pinning.instance_bench import cpu_layout
from nova_pinning.instance_bench import self_test
from nova_pinning.instance_bench.workloads import workload_catalogue

MAX_CASES = 5000

_PACKAGE = 'nova_pinning.instance_bench.experiments'
_SUFFIX = '.yaml'
_AXES = ('workload', 'platform', 'provisioning', 'size', 'weight',
         'emulator_threads', 'network_cpus', 'queues', 'agent', 'flavor')
#: What a tenant can have besides the axes.
_OTHERS = ('class', 'count', 'oversubscription')
#: Keys that the file and an experiment have alike.
_SETTINGS = ('seed', 'window_seconds', 'warm_ups', 'repetitions', 'rounds',
             'settle_seconds')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOptions:
    """What a command line says of an experiment.

    :param platforms: instead of those of the platform axis; scenarios that
        set a platform keep it
    :param workload: instead of those of the workload axis, '' for these
    :param is_short: what the file has under ``short`` holds
    :param settings: in place of the file's, by its keys
    """

    platforms: tuple[bench_model.PlatformName, ...] = ()
    workload: str = ''
    is_short: bool = False
    settings: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An experiment for a host.

    :param layout: the one that it is measured with
    :param workloads: those that it uses, by name
    """

    experiment: bench_model.Experiment
    layout: cpu_layout.CpuLayout
    workloads: Mapping[str, bench_model.Workload]

    @property
    def planned(self) -> bench_model.Results:
        """A run of it, of which there is nothing yet."""
        return bench_model.Results(experiment=self.experiment,
                                   workloads=self.workloads)

    def with_settings(self, **settings: Any) -> Self:
        """:param settings: of the experiment, as its attributes"""
        return dataclasses.replace(self, experiment=dataclasses.replace(
            self.experiment, **settings))


def shipped() -> tuple[str, ...]:
    """The names of the project's experiments."""
    return tuple(sorted(
        file.name.removesuffix(_SUFFIX)
        for file in resources.files(_PACKAGE).iterdir()
        if file.name.endswith(_SUFFIX)))


def read(name: str | os.PathLike[str], layout: cpu_layout.CpuLayout,
         workloads: Mapping[str, bench_model.Workload],
         options: ExperimentOptions = ExperimentOptions()) -> Prepared:
    """An experiment for a host.

    :param name: of one of the project's, or of a file
    :param workloads: all that are known
    :raises errors.InputError: if it cannot be read, or is wrong
    """
    document = _load(name)
    schema.validate(document, schema.shipped(_PACKAGE, 'experiment-1.json'))
    # A plan says what CPUs are for, and other guests may rely on it.
    if layout.planned is None:
        layout = {'all': layout.undivided, 'one': layout.of_one_cpu,
                  'in-turn': layout.in_turn}.get(
            document.value.get('cpus', ''), lambda: layout)()
    reader = _ExperimentReader(document, layout, workloads, options)
    experiment = reader.experiment()
    used = {tenant.workload for case in experiment.cases
            for tenant in case.tenants}
    return Prepared(experiment=experiment, layout=layout, workloads={
        name: workload for name, workload in workloads.items()
        if name in used})


def _load(name: str | os.PathLike[str]) -> source.YamlDocument:
    text = os.fspath(name)
    if text in shipped():
        file = resources.files(_PACKAGE).joinpath(text + _SUFFIX)
        return source.parse(file.read_text('utf-8'), text + _SUFFIX)
    if not pathlib.Path(text).exists():
        raise errors.InputError(
            f'there is no experiment {text!r}, and no such file',
            advice=schema.nearest(text, shipped()))
    return source.load(name)


@dataclasses.dataclass(frozen=True, slots=True)
class _Given:
    """A value of the file, where it stands, and what people call it."""

    value: Any
    path: source.Path
    text: str = ''


class _ExperimentReader:
    """Reads a document that the schema has found good."""

    def __init__(self, document: source.YamlDocument,
                 layout: cpu_layout.CpuLayout,
                 workloads: Mapping[str, bench_model.Workload],
                 options: ExperimentOptions) -> None:
        self._document = document
        self._value: Mapping[str, Any] = document.value
        self._layout = layout
        self._workloads = workloads
        self._options = options
        self._short: Mapping[str, Any] = (
            self._value.get('short', {}) if options.is_short else {})
        # By their text: what is wrong with an axis is so in every case.
        self._errors: dict[str, errors.InputError] = {}
        self._axes = self._read_axes()

    def experiment(self) -> bench_model.Experiment:
        """:raises errors.InputErrors: all that is wrong"""
        cases: dict[bench_model.CaseKey, bench_model.Case] = {}
        for number, scenario in enumerate(self._value.get('scenarios', [{}])):
            self._stop_on_errors()
            path = ('scenarios', number) if scenario else ()
            for case in self._cases(scenario, path):
                if cases.setdefault(case.key, case) is not case:
                    self._fail(f'there is a case {case.name!r} already', path,
                               'tell them apart by names, labels or axes')
            if len(cases) > MAX_CASES:
                self._fail(f'there are more than {MAX_CASES} cases up to '
                           'here', path)
        baseline = {key: str(value) for key, value in
                    self._value.get('baseline', {}).items()}
        self._check_baseline(baseline, cases.values())
        self._stop_on_errors()
        settings = {**self._value, **self._short, **self._options.settings}
        copies = [{self_test.COPY: str(number + 1)}
                  for number in range(settings.get('copies', 0))] or [{}]
        return bench_model.Experiment(
            name=settings['name'], about=settings['about'].strip(),
            table=settings['table'], baseline=baseline,
            cases=tuple(
                dataclasses.replace(case, factors={**case.factors, **copy})
                for case in cases.values() for copy in copies),
            is_race=settings.get('race', False),
            **{key: settings[key] for key in _SETTINGS if key in settings})

    def _read_axes(self) -> dict[str, list[_Given]]:
        axes = {axis: _listed(axis, values, ('axes', axis))
                for axis, values in self._value['axes'].items()}
        for axis, values in self._short.get('axes', {}).items():
            path = 'short', 'axes', axis
            if axis not in axes:
                self._fail(f'{axis} is not an axis of this experiment', path,
                           schema.nearest(axis, axes), key=True)
            axes[axis] = _listed(axis, values, path)
        for axis, chosen in (
                ('platform', self._options.platforms),
                ('workload', list(filter(None, [self._options.workload])))):
            if chosen and axis not in axes:
                raise errors.InputError(
                    f'this experiment does not let a {axis} be chosen: its '
                    'scenarios set them', errors.Location(f'--{axis}'))
            if chosen:
                axes[axis] = _listed(axis, chosen, ('axes', axis))
        return axes

    def _cases(self, scenario: Mapping[str, Any],
               path: source.Path) -> Iterator[bench_model.Case]:
        """The cases of one scenario, an empty one if there are none."""
        # What it sets besides is the same for all of its cases.
        axes = self._axes | {
            axis: _listed(axis, scenario[axis], (*path, axis))
            for axis in _AXES if axis in scenario} | {
            axis: [given]
            for axis, given in _parameters(scenario, path).items()
            if axis in self._axes and axis not in _AXES}
        lacking = self._lacking(scenario)
        # By how they print: parameters have no hash.
        seen: dict[str, Mapping[str, str]] = {}
        for values in itertools.islice(
                itertools.product(*axes.values()), MAX_CASES + 1):
            chosen = dict(zip(axes, values))
            factors = {'scenario': scenario['name']} if scenario else {}
            factors |= {axis: chosen[axis].text for axis in self._axes}
            specs = self._tenant_specs(scenario, path, chosen)
            if self._errors:
                return
            tenants, refusal = case_tenants.tenants(specs, self._layout)
            refusal = refusal or lacking or self._unanswerable(tenants)
            twin = seen.setdefault(repr(tenants), factors)
            if not refusal and twin is not factors:
                refusal = _same(factors, twin)
            yield bench_model.Case(
                factors=factors, tenants=tenants, skipped=refusal)

    def _lacking(self, scenario: Mapping[str, Any]) -> str:
        """What the host has not and a scenario is about, '' if none."""
        lacks = dict(self._layout.lacks)
        if all(len(core) == 1 for core in self._layout.cores):
            lacks['siblings'] = 'cores of this host have one thread each'
        if len(self._layout.nodes) < 2:
            lacks['nodes'] = 'this host has one NUMA node'
        return next((lacks[needed] for needed in (
            self._value.get('needs'), scenario.get('needs'))
            if needed in lacks), '')

    def _unanswerable(self, tenants: Sequence[bench_model.Tenant]) -> str:
        """Why a case can be run, but will never say anything; '' if it can.

        Of servers in a cloud nobody knows beforehand where they will be.
        """
        for tenant in tenants:
            if (tenant.platform is bench_model.PlatformName.NOVA
                    and self._workloads[tenant.workload].peer):
                return ('servers of a cloud cannot reach a peer; measure them '
                        'with --platform vm')
        cpus = max((len(self._layout.of(tenant.guest_class))
                    for tenant in tenants
                    if tenant.platform is bench_model.PlatformName.GUEST),
                   default=0)
        weights = {tenant.weight for tenant in tenants
                   if tenant.role is bench_model.Role.MEASURED}
        return (f'guests on {cpus} CPUs may each get some of their own, '
                'whatever their weights; cpu-weights has one CPU, without '
                '--plan') if cpus > 1 and len(weights) > 1 and (
                    self._value['table'] == 'priority') else ''

    def _tenant_specs(
        self, scenario: Mapping[str, Any], path: source.Path,
        chosen: Mapping[str, _Given],
    ) -> list[case_tenants.TenantSpec]:
        """What a scenario says of its tenants, with a value of each axis."""
        own = {axis: given for axis, given in chosen.items()
               if axis not in _AXES} | _parameters(scenario, path)
        axes = {axis: given for axis, given in chosen.items() if axis in _AXES}
        usual = {'role': bench_model.Role.MEASURED, **{
            key: scenario[key] for key in _OTHERS if key in scenario}}
        specs = [
            self._tenant_spec({'name': f'tenant-{index}', **usual}, tenant,
                              (*path, 'tenants', index), axes, own)
            for index, tenant in enumerate(scenario.get('tenants', ()))
        ] or [self._tenant_spec(
            {'name': scenario.get('tenant', 'instances'), **usual}, {}, path,
            axes, own)]
        if 'neighbours' in scenario:
            specs.append(self._tenant_spec(
                {'name': 'neighbours', 'role': bench_model.Role.NEIGHBOUR},
                scenario['neighbours'], (*path, 'neighbours'), axes, own))
        names = [spec['name'] for spec in specs]
        for name in {name for name in names if names.count(name) > 1}:
            self._fail(f'several tenants are called {name}', path,
                       'give each a name of its own')
        return specs

    def _tenant_spec(
        self, usual: Mapping[str, Any], tenant: Mapping[str, Any],
        path: source.Path, axes: Mapping[str, _Given],
        own: Mapping[str, _Given],
    ) -> case_tenants.TenantSpec:
        """One tenant.

        :param usual: what holds, like the axes, unless it says otherwise
        :param own: parameters of the workload of the case; they are not for
            a tenant that has its own workload
        """
        settings = {**usual, **{axis: given.value for axis, given
                                in axes.items()}, **tenant}
        for needed in ('workload', 'platform', 'size'):
            if needed not in settings:
                self._fail(f'{needed} is missing', path,
                           'give it here, or as an axis')
                return settings
        place = ((*path, 'workload') if 'workload' in tenant
                 else axes['workload'].path)
        named = settings['workload']
        if isinstance(named, str):
            named = {'name': named}
        workload = self._workloads.get(named['name'])
        if workload is None:
            self._fail(f'there is no workload {named["name"]}', place,
                       schema.nearest(named['name'], self._workloads))
            return settings
        parameters = {
            **_parameters(self._value, (), workload.name),
            **_parameters(named, place),
            **({} if 'workload' in tenant else own),
            **_parameters(tenant, path),
            **_parameters(self._short, ('short',), workload.name)}
        # What is a multiple of the vCPUs becomes a whole number.
        for name, is_key, message, advice in (
                workload_catalogue.parameter_problems(workload, {
                    name: 1 if isinstance(given.value, dict) else given.value
                    for name, given in parameters.items()})):
            self._fail(message, parameters[name].path, advice, key=is_key)
        return {**settings, 'workload': workload.name, 'parameters': {
            name: given.value for name, given in parameters.items()}}

    def _check_baseline(self, baseline: Mapping[str, str],
                        cases: Collection[bench_model.Case]) -> None:
        if self._errors or not baseline or any(
                baseline.items() <= case.factors.items() for case in cases):
            return
        # What was chosen on the command line may have left it out.
        if self._options.platforms and 'platform' in baseline:
            return
        self._fail('no case has ' + ' and '.join(
            f'{key} {value!r}' for key, value in baseline.items()),
            ('baseline',))

    def _fail(self, message: str, path: source.Path, advice: str = '',
              key: bool = False) -> None:
        error = self._document.error(message, path, advice, key)
        self._errors.setdefault(str(error), error)

    def _stop_on_errors(self) -> None:
        schema.raise_all(self._errors.values())


def _listed(axis: str, values: Sequence[Any],
            path: source.Path) -> list[_Given]:
    """The values of an axis."""
    texts = [_text(axis, value) for value in values]
    if axis == 'size' and len(set(texts)) < len(texts):
        texts = [f'{text}, '
                 f'{case_tenants.amount_text(value["memory_mib"])} MiB'
                 for text, value in zip(texts, values)]
    return [_Given(value, (*path, index), text)
            for index, (value, text) in enumerate(zip(values, texts))]


def _parameters(value: Mapping[str, Any], path: source.Path,
                below: str = '') -> dict[str, _Given]:
    """The parameters in a mapping of the file, if it has any.

    :param below: the workload by whose name they stand, '' if they do not
    """
    given, path = value.get('parameters', {}), (*path, 'parameters')
    if below:
        given, path = given.get(below, {}), (*path, below)
    return {name: _Given(parameter, (*path, name),
                         case_tenants.amount_text(parameter))
            for name, parameter in given.items()}


def _same(factors: Mapping[str, str], twin: Mapping[str, str]) -> str:
    """Why a case is left out that comes to another on this host."""
    return 'is the same on this host as ' + ', '.join(
        f'{factor} {value}' for factor, value in twin.items()
        if factors[factor] != value)


def _text(axis: str, value: Any) -> str:
    if axis == 'workload' and isinstance(value, dict):
        return str(value.get('label', value['name']))
    if axis == 'size':
        return case_tenants.vcpus_text(value)
    return case_tenants.amount_text(value)
