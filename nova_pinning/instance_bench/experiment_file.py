# SPDX-License-Identifier: Apache-2.0
"""Experiments: files that say what is measured, made to fit a host.

doc/source/admin/bench.rst describes the format, experiments/experiment-1.json
is its JSON Schema. A case has one value of each axis. Each scenario is
multiplied by all axes but those that it sets itself; values that it sets are
then its own axis. Cases that the host is too small for are in the experiment
with the reason.
"""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
from importlib import resources
import itertools
import os
import pathlib
from typing import Any

from nova_pinning.document import schema
from nova_pinning.document import source
from nova_pinning import errors
from nova_pinning.instance_bench import bench_errors
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentOptions:
    """What a command line says of an experiment.

    :param platforms: instead of those of the platform axis; scenarios that
        set a platform keep it
    :param is_short: what the file has under ``short`` holds
    :param seed: None leaves it to the file, as it does for what follows
    """

    platforms: tuple[bench_model.PlatformName, ...] = ()
    is_short: bool = False
    seed: int | None = None
    repetitions: int | None = None
    rounds: int | None = None
    window_seconds: int | None = None


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
        layout = {'all': layout.undivided, 'one': layout.of_one_cpu}.get(
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
        cases: list[bench_model.Case] = []
        scenarios = self._value.get('scenarios', [{}])
        self._check_names(scenarios)
        for number, scenario in enumerate(scenarios):
            self._stop_on_errors()
            cases += self._cases(scenario, ('scenarios', number))
            if len(cases) > MAX_CASES:
                self._fail(f'there are more than {MAX_CASES} cases up to '
                           'here', ('scenarios', number))
        baseline = {key: str(value) for key, value in
                    self._value.get('baseline', {}).items()}
        self._check_baseline(baseline, cases)
        copies = self._setting('copies', 1)
        if copies > 1:
            cases = [dataclasses.replace(case, factors={
                **case.factors, self_test.COPY: str(number)})
                for case in cases for number in range(1, copies + 1)]
        self._stop_on_errors()
        return bench_model.Experiment(
            name=self._value['name'], about=self._value['about'].strip(),
            table=self._value['table'], cases=tuple(cases),
            baseline=baseline,
            seed=self._setting('seed', 1, self._options.seed),
            is_race=self._value.get('race', False),
            window_seconds=float(self._setting(
                'window_seconds', 30.0, self._options.window_seconds)),
            warm_ups=self._setting('warm_ups', 1),
            repetitions=self._setting('repetitions', 2,
                                      self._options.repetitions),
            rounds=self._setting('rounds', 5, self._options.rounds),
            settle_seconds=float(self._setting('settle_seconds', 2.0)))

    def _setting(self, key: str, default: Any, chosen: Any = None) -> Any:
        """:param chosen: on the command line, None if nothing is"""
        if chosen is not None:
            return chosen
        return self._short.get(key, self._value.get(key, default))

    def _read_axes(self) -> dict[str, list[case_tenants.GivenValue]]:
        axes = {axis: _listed(values, ('axes', axis))
                for axis, values in self._value['axes'].items()}
        for axis, values in self._short.get('axes', {}).items():
            path = 'short', 'axes', axis
            if axis not in axes:
                self._fail(f'{axis} is not an axis of this experiment', path,
                           schema.nearest(axis, axes), key=True)
            axes[axis] = _listed(values, path)
        if self._options.platforms:
            if 'platform' not in axes:
                raise errors.InputError(
                    'this experiment does not let platforms be chosen: its '
                    'scenarios set them', errors.Location('--platform'))
            axes['platform'] = [
                case_tenants.GivenValue(str(platform), ('axes', 'platform'))
                for platform in self._options.platforms]
        return axes

    def _check_names(self, scenarios: Sequence[Mapping[str, Any]]) -> None:
        seen = set()
        for number, scenario in enumerate(scenarios):
            name = scenario.get('name')
            if name in seen:
                self._fail(f'there is a scenario {name!r} already',
                           ('scenarios', number, 'name'))
            seen.add(name)

    def _cases(self, scenario: Mapping[str, Any],
               path: source.Path) -> Iterator[bench_model.Case]:
        """The cases of one scenario, an empty one if there are none."""
        axes = {axis: self._values(axis, scenario, path)
                for axis in self._axes}
        fixed = self._fixed(scenario, path)
        texts = {axis: self._texts(axis, values)
                 for axis, values in axes.items()}
        # By how they print: parameters have no hash.
        seen: dict[str, Mapping[str, str]] = {}
        for indices in itertools.islice(itertools.product(
                *(range(len(values)) for values in axes.values())),
                MAX_CASES + 1):
            factors = {'scenario': scenario['name']} if scenario else {}
            chosen = dict(fixed)
            for axis, index in zip(axes, indices):
                chosen[axis] = axes[axis][index]
                factors[axis] = texts[axis][index]
            wishes = self._tenant_specs(scenario, path, chosen)
            if self._errors:
                return
            tenants, refusal = case_tenants.tenants(wishes, self._layout)
            refusal = refusal or self._lacking(scenario)
            case = bench_model.Case(
                factors=factors, tenants=tenants, skipped=refusal)
            twin = seen.setdefault(repr(tenants), factors)
            if not refusal and twin is not factors:
                case = dataclasses.replace(case, skipped=_same(factors, twin))
            yield case

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

    def _values(self, axis: str, scenario: Mapping[str, Any],
                path: source.Path) -> list[case_tenants.GivenValue]:
        if axis in _AXES and axis in scenario:
            return _listed(scenario[axis], (*path, axis))
        if axis not in _AXES and axis in scenario.get('parameters', {}):
            return [case_tenants.GivenValue(scenario['parameters'][axis],
                                            (*path, 'parameters', axis))]
        return self._axes[axis]

    def _fixed(self, scenario: Mapping[str, Any],
               path: source.Path) -> dict[str, case_tenants.GivenValue]:
        """What a scenario sets that is not an axis of the experiment."""
        fixed = {}
        for axis in _AXES:
            if axis in scenario and axis not in self._axes:
                values = _listed(scenario[axis], (*path, axis))
                if len(values) > 1:
                    self._fail(
                        f'{axis} has several values here and is not an axis '
                        'of the experiment', (*path, axis),
                        f'give the experiment an axis {axis}')
                fixed[axis] = values[0]
        return fixed

    def _texts(self, axis: str,
               values: Sequence[case_tenants.GivenValue]) -> list[str]:
        """What people call the values of an axis."""
        texts = [_text(axis, given.value) for given in values]
        if axis == 'size' and len(set(texts)) < len(texts):
            amounts = [case_tenants.amount_text(given.value['memory_mib'])
                       for given in values]
            texts = [f'{text}, {amount} MiB'
                     for text, amount in zip(texts, amounts)]
        for index, text in enumerate(texts):
            if text in texts[:index]:
                self._fail(f'{text} appears twice', values[index].path,
                           'give one of them another label'
                           if axis == 'workload' else '')
        return texts

    def _tenant_specs(
        self, scenario: Mapping[str, Any], path: source.Path,
        chosen: Mapping[str, case_tenants.GivenValue]
    ) -> list[case_tenants.TenantSpec]:
        """What a scenario says of its tenants, with a value of each axis."""
        shared = {key: case_tenants.GivenValue(scenario[key], (*path, key))
                  for key in _OTHERS if key in scenario}
        given = {**chosen, **shared}
        own: dict[str, case_tenants.GivenValue] = {
            axis: value for axis, value in chosen.items() if axis not in _AXES}
        own |= _parameters(scenario, path)
        wishes = []
        for index, tenant in enumerate(scenario.get('tenants', ())):
            wishes.append(self._tenant_spec(
                tenant, (*path, 'tenants', index), given, own,
                f'tenant-{index}', bench_model.Role.MEASURED))
        if not wishes:
            wishes.append(self._tenant_spec(
                {}, path, given, own, scenario.get('tenant', 'instances'),
                bench_model.Role.MEASURED))
        if 'neighbours' in scenario:
            below = *path, 'neighbours'
            wishes.append(self._tenant_spec(
                scenario['neighbours'], below, chosen, own, 'neighbours',
                bench_model.Role.NEIGHBOUR))
        self._check_tenants(wishes, path)
        return [wish for wish in wishes if wish is not None]

    def _tenant_spec(self, tenant: Mapping[str, Any], path: source.Path,
                     given: Mapping[str, case_tenants.GivenValue],
                     own: Mapping[str, case_tenants.GivenValue], name: str,
                     role: bench_model.Role) -> case_tenants.TenantSpec | None:
        """One tenant.

        :param given: what holds unless it says otherwise
        :param own: parameters of the workload of the case; they are not for
            a tenant that has its own workload
        """
        settings = {**given, **{
            key: case_tenants.GivenValue(value, (*path, key))
            for key, value in tenant.items()}}
        for needed in ('workload', 'platform', 'size'):
            if needed not in settings:
                self._fail(f'{needed} is missing', path,
                           'give it here, or as an axis')
                return None
        workload = self._workload(settings['workload'])
        if workload is None:
            return None
        parameters = {
            **_parameters(self._value, (), workload.name),
            **_parameters(settings['workload'].value,
                          settings['workload'].path),
            **({} if 'workload' in tenant else own),
            **_parameters(tenant, path),
            **_parameters(self._short, ('short',), workload.name)}
        self._check_parameters(workload, parameters)
        return case_tenants.TenantSpec(
            name=tenant.get('name', name),
            role=role, workload=workload, settings=settings,
            parameters=parameters)

    def _workload(
            self,
            given: case_tenants.GivenValue) -> bench_model.Workload | None:
        is_name = isinstance(given.value, str)
        name = given.value if is_name else given.value['name']
        if name not in self._workloads:
            self._fail(f'there is no workload {name}',
                       given.path if is_name else (*given.path, 'name'),
                       schema.nearest(name, self._workloads))
        return self._workloads.get(name)

    def _check_parameters(
        self, workload: bench_model.Workload,
        parameters: Mapping[str, case_tenants.GivenValue],
    ) -> None:
        # What is a multiple of the vCPUs becomes a whole number.
        plain = {name: 1 if isinstance(given.value, dict) else given.value
                 for name, given in parameters.items()}
        problems = workload_catalogue.parameter_problems(workload, plain)
        for name, is_key, message, advice in problems:
            self._fail(message, parameters[name].path, advice, key=is_key)

    def _check_tenants(self, wishes: Sequence[case_tenants.TenantSpec | None],
                       path: source.Path) -> None:
        names = [wish.name for wish in wishes if wish is not None]
        for name in names:
            if names.count(name) > 1:
                self._fail(f'several tenants are called {name}', path,
                           'give each a name of its own')

    def _check_baseline(self, baseline: Mapping[str, str],
                        cases: Sequence[bench_model.Case]) -> None:
        if self._errors or not baseline or any(
                baseline.items() <= case.factors.items() for case in cases):
            return
        # What was chosen on the command line may have left it out.
        if self._options.platforms and 'platform' in baseline:
            return
        for key, value in baseline.items():
            if not any(case.factors.get(key) == value for case in cases):
                self._fail(f'no case has {key} {value!r}', ('baseline', key))
                return
        self._fail('no case has all of these', ('baseline',))

    def _fail(self, message: str, path: source.Path, advice: str = '',
              key: bool = False) -> None:
        error = self._document.error(message, path, advice, key)
        self._errors.setdefault(str(error), error)

    def _stop_on_errors(self) -> None:
        bench_errors.raise_all(tuple(self._errors.values()))


def _listed(values: Sequence[Any],
            path: source.Path) -> list[case_tenants.GivenValue]:
    return [case_tenants.GivenValue(value, (*path, index))
            for index, value in enumerate(values)]


def _parameters(value: Any, path: source.Path,
                below: str = '') -> dict[str, case_tenants.GivenValue]:
    """The parameters in a mapping of the file, if it has any.

    :param below: the workload by whose name they stand, '' if they do not
    """
    given = value.get('parameters', {}) if isinstance(value, Mapping) else {}
    path = *path, 'parameters'
    if below:
        given, path = given.get(below, {}), (*path, below)
    return {name: case_tenants.GivenValue(parameter, (*path, name))
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
