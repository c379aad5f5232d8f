# SPDX-License-Identifier: Apache-2.0

import contextlib
import io
import json

from nova.scheduler import filters as nova_filters

from nova_pinning import conf
from nova_pinning.scheduler import filters
from nova_pinning.tests.oracle import claims
from nova_pinning.tests.oracle import oracle_case
from nova_pinning.tests.oracle import oracle_check
from nova_pinning.tests.oracle import shrink
from nova_pinning.tests.unit.oracle import oracle_cases

_HERE = 'nova_pinning.tests.unit.oracle.test_claims:'
_LIMITS = {'cpu': 16.0, 'ram': 1.5, 'network': None}


# Filters that are wrong, each in its own way; the fuzzer has to find out.


class Generous(nova_filters.BaseHostFilter):
    """Leaves all hosts."""

    def host_passes(self, host_state, spec_obj):
        host_state.limits['numa_topology'] = (oracle_cases.case(
            [], oracle_cases.guest((1, 1)), limits=_LIMITS).limits())
        return True


class Mean(nova_filters.BaseHostFilter):
    """Leaves none."""

    def host_passes(self, host_state, spec_obj):
        return False


class Careless(filters.PinnedTopologyFilter):
    """Leaves hosts that nova-compute goes wrong on."""

    def filter_all(self, filter_obj_list, spec_obj):
        conf.CONF.set_override('check_nova_claim', False, 'pinning')
        try:
            yield from list(super().filter_all(filter_obj_list, spec_obj))
        finally:
            conf.CONF.clear_override('check_nova_claim', 'pinning')


class Slow(Mean):
    """Leaves none, and says that claims would take too long."""

    def refusal(self, host_state, request):
        return filters.Refusal(filters.Reason.NOVA_SLOW)


class SlowButLast(Slow):
    """Leaves the last host only, and says that others take too long."""

    def filter_all(self, filter_obj_list, spec_obj):
        yield from list(filter_obj_list)[-1:]


class Limitless(nova_filters.BaseHostFilter):
    """Leaves all, and does not say under which limits they fit."""

    def host_passes(self, host_state, spec_obj):
        return True


class Hasty(nova_filters.BaseHostFilter):
    """Raises."""

    def filter_all(self, filter_obj_list, spec_obj):
        raise KeyError('cells')


class Last(Generous):
    """Leaves the last host only."""

    def filter_all(self, filter_obj_list, spec_obj):
        yield from list(super().filter_all(filter_obj_list, spec_obj))[-1:]


def _fleet(case, *others):
    """Return a case with the hosts of others to choose from as well."""
    return oracle_case.Case({
        **case.data, 'others': [
            {'host': other.data['host'], 'pools': [], 'mapping': None}
            for other in others]})


def _second_wrong():
    """A guest that fits at the first attempt, but not at the second.

    With an id of -1 each, nova takes one guest cell for the other, and
    remembers that it does not fit on the only cell where the larger goes.
    """
    return oracle_cases.case(
        [oracle_cases.host_cell(0, [0]), oracle_cases.host_cell(1, [1, 2])],
        oracle_cases.guest((2, 256), (1, 256)))


def _both_right():
    return oracle_cases.case(
        [oracle_cases.host_cell(0, [0, 1]), oracle_cases.host_cell(1, [2, 3])],
        _second_wrong().data['guest'])


def _no_room():
    return oracle_cases.case(
        [oracle_cases.host_cell(0, [0]), oracle_cases.host_cell(1, [2])],
        _second_wrong().data['guest'])


class TestClaim(oracle_cases.TestCase):

    def _claims(self, case):
        """What is wrong with the first claim, and with the second."""
        count = len(case.data['guest']['cells'])
        with case.configured():
            return [claims.claim(case, case.host(), ids)
                    for ids in (range(count), [-1] * count)]

    def test_right(self):
        self.assertEqual([set(), set()], self._claims(oracle_cases.plain()))
        self.assertEqual([set(), set()], self._claims(_both_right()))

    def test_wrong(self):
        for case in (oracle_cases.full(), _no_room()):
            self.assertEqual([{claims.NO_PLACE}] * 2, self._claims(case))
        first, _second = self._claims(oracle_cases.uneven_memory())
        self.assertIn(oracle_check.Fault.PIN_MISSING, first)
        first, _second = self._claims(oracle_cases.uneven_cpus())
        self.assertEqual({claims.NO_PLACE}, first)

    def test_only_the_second_is_wrong(self):
        self.assertEqual([set(), {claims.NO_PLACE}],
                         self._claims(_second_wrong()))

    def test_accounting(self):
        self.assertIn(claims.REJECTED,
                      self._claims(oracle_cases.half_used_core())[0])

    def test_raises(self):
        case = oracle_cases.case([oracle_cases.host_cell(0, [0], siblings=[])],
                                 oracle_cases.guest((1, 256)))
        self.assertEqual([{claims.RAISES}] * 2, self._claims(case))

    def test_devices_and_networks(self):
        """Nova's own checks of the cells that it took itself."""
        pci = {
            'pools': [{'vendor_id': '8086', 'product_id': '1520', 'count': 1,
                       'numa_node': node, 'dev_type': 'type-PCI',
                       'rp_uuid': oracle_case.provider_id(node)}
                      for node in (0, 1)],
            'requests': [{'count': 1, 'spec': [{'vendor_id': '8086'}],
                          'alias': 'nic', 'policy': 'required'}],
            'mapping': {f'{oracle_case.request_id(0)}-0': [
                oracle_case.provider_id(0)]}}
        near = oracle_cases.case(
            [oracle_cases.host_cell(0, [0]),
             oracle_cases.host_cell(1, [1, 2])],
            oracle_cases.guest((1, 256)), pci=pci)
        self.assertEqual(set(), self._claims(near)[0])
        # The device that Placement allots is not where the CPUs are.
        far = oracle_cases.case(
            [oracle_cases.host_cell(0, [0]),
             oracle_cases.host_cell(1, [1, 2])],
            oracle_cases.guest((2, 256)), pci=pci)
        self.assertEqual({claims.NO_PLACE}, self._claims(far)[0])


class TestTrial(oracle_cases.TestCase):

    def _kinds(self, case, chosen):
        return claims.Trial(case, chosen).disagreements()

    def test_accepts_wrong(self):
        for case in (oracle_cases.full(), oracle_cases.uneven_memory(),
                     oracle_cases.half_used_core()):
            kinds = self._kinds(_fleet(case), Generous())
            self.assertTrue(kinds)
            for kind in kinds:
                self.assertTrue(kind.startswith(claims.WRONG_LEFT), kind)

    def test_refuses_right(self):
        self.assertEqual(
            {claims.NONE_LEFT + 'unknown'},
            self._kinds(_fleet(oracle_cases.plain()), Mean()))
        self.assertEqual(
            {claims.NONE_LEFT + 'unknown' + claims.SECOND_WRONG},
            self._kinds(_fleet(_second_wrong()), Mean()))
        self.assertEqual(set(), self._kinds(_fleet(oracle_cases.full()),
                                            Mean()))

    def test_excuses(self):
        case = _fleet(oracle_cases.plain())
        broken = oracle_case.Case({**case.data, 'odd': True})
        trial = claims.Trial(broken, Mean())
        self.assertEqual(set(), trial.disagreements())
        self.assertEqual([claims.REFUSED_ODD], list(trial.fates()))

    def test_slow_where_no_other_is_left(self):
        trial = claims.Trial(_fleet(oracle_cases.plain()), Slow())
        self.assertEqual({claims.NONE_LEFT + 'NOVA_SLOW'},
                         trial.disagreements())
        self.assertEqual([claims.REFUSED_SLOW], list(trial.fates()))

    def test_slow_where_another_is_left(self):
        trial = claims.Trial(
            _fleet(_both_right(), _both_right()), SlowButLast())
        self.assertNotIn(claims.NONE_LEFT + 'NOVA_SLOW',
                         trial.disagreements())
        self.assertEqual([claims.HELD_BACK_SLOW, claims.PASSED],
                         list(trial.fates()))

    def test_limits(self):
        self.assertEqual(
            {claims.OTHER_LIMITS},
            self._kinds(_fleet(oracle_cases.plain()), Limitless()))
        self.assertEqual(
            set(), self._kinds(_fleet(oracle_cases.plain()), Generous()))

    def test_raises(self):
        self.assertEqual({claims.FILTER_RAISES + 'KeyError'},
                         self._kinds(_fleet(oracle_cases.plain()), Hasty()))

    def test_second_choice(self):
        better = _fleet(_both_right(), _second_wrong())
        self.assertEqual({claims.SECOND_LEFT}, self._kinds(better, Last()))
        self.assertEqual({claims.SECOND_LEFT}, self._kinds(better, Generous()))
        trial = claims.Trial(_fleet(_second_wrong(), _both_right()), Last())
        self.assertEqual(set(), trial.disagreements())
        self.assertEqual(
            [claims.HELD_BACK, claims.PASSED], list(trial.fates()))
        refused = oracle_case.Case({**better.data, 'odd': True})
        self.assertEqual(set(), self._kinds(refused, Last()))
        none_better = _fleet(_second_wrong(), _no_room(), _second_wrong())
        self.assertEqual(set(), self._kinds(none_better, Last()))

    def test_page_sizes_that_another_host_leaves(self):
        def host(*cells):
            return oracle_cases.case(
                [oracle_cases.host_cell(
                    number, range(10 * number, 10 * number + cpus),
                    pages=[[4, 1048576, 0, 0], [1048576, large, 0, 0]])
                 for number, (cpus, large) in enumerate(cells)],
                oracle_cases.guest((2, 512), (1, 1024), pagesize=-3))

        mixed, small = host((1, 1), (2, 0)), host((2, 0), (2, 0))
        kinds = self._kinds(_fleet(mixed, small), Generous())
        self.assertIn(claims.MISLED + oracle_check.Fault.PAGES, kinds)
        for fleet, chosen in ((_fleet(mixed, mixed), Generous()),
                              (_fleet(mixed, small), Last())):
            self.assertEqual(set(), self._kinds(fleet, chosen))

    def test_needs_one_of_a_fleet(self):
        self.assertEqual(
            {claims.NONE_LEFT + 'unknown'},
            self._kinds(_fleet(_no_room(), _both_right()), Mean()))
        self.assertEqual(
            set(), self._kinds(_fleet(_no_room(), _no_room()), Mean()))


class TestClaims(oracle_cases.TestCase):

    def _run(self, *args):
        """Run the command; return its exit status and what it printed."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = claims.main(['--jobs', '1', *args])
        return status, output.getvalue()

    def _report(self, name, *args):
        status, output = self._run(
            '--filter', _HERE + name, '--format', 'json', *args)
        return status, json.loads(output)

    def _assert_shrunk(self, row, chosen, cells):
        """A minimal case shows the same, and has no more host cells."""
        case = oracle_case.Case(row['minimal'])
        self.assertIn(
            row['kind'], claims.Trial(case, chosen).disagreements())
        self.assertLessEqual(
            len(case.data['host']) + sum(
                len(other['host']) for other in case.data['others']), cells)

    def test_generous(self):
        status, report = self._report('Generous', '--cases', '30')
        self.assertEqual(1, status)
        rows = {row['kind']: row for row in report['kinds']}
        row = rows[claims.WRONG_LEFT + claims.NO_PLACE]
        self._assert_shrunk(row, Generous(), 1)
        self.assertEqual([], row['minimal']['others'])

    def test_mean(self):
        status, report = self._report('Mean', '--cases', '30')
        self.assertEqual(1, status)
        rows = {row['kind']: row for row in report['kinds']}
        self._assert_shrunk(
            rows[claims.NONE_LEFT + 'unknown'], Mean(), 1)

    def test_careless(self):
        status, report = self._report('Careless', '--cases', '90')
        self.assertEqual(1, status)
        wrong = [row for row in report['kinds']
                 if row['kind'].startswith(claims.WRONG_LEFT)]
        self.assertTrue(wrong)
        for row in wrong:
            self._assert_shrunk(row, Careless(), 4)

    def test_second_choice(self):
        """A fleet is cut down to the two hosts that it takes."""
        def shows(case):
            return claims.SECOND_LEFT in claims.Trial(
                case, Generous()).disagreements()

        case = claims.Claims().generate(1, 100)
        self.assertTrue(shows(case))
        small = shrink.shrink(case, shows)
        self._assert_shrunk({
            'kind': claims.SECOND_LEFT, 'minimal': small.data}, Generous(), 5)
        self.assertEqual(1, len(small.data['others']))

    def test_nothing_accepted_is_wrong(self):
        """Of our own filter, in what table and JSON say."""
        status, output = self._run(
            '--cases', '100', '--seed', '3', '--no-shrink', '--format', 'json')
        report = json.loads(output)
        self.assertEqual(int(report['disagreements'] > 0), status)
        fates = {row['fate']: row['hosts'] for row in report['by_fate']}
        self.assertEqual(0, fates[claims.PASSED_WRONG])
        self.assertGreater(fates[claims.PASSED], 20)
        self.assertGreater(fates[claims.REFUSED], 20)
        self.assertEqual(report['hosts'], sum(fates.values()))
        self.assertEqual(report['hosts'], sum(
            row['left'] + row['refused_right'] + row['refused']
            for row in report['by_guest']))
        status, output = self._run(
            '--cases', '100', '--seed', '3', '--no-shrink')
        self.assertIn(
            f'100 of 100 cases of seed 3 with {report["hosts"]} hosts',
            output)

    def test_one_case(self):
        status, output = self._run('--case', '5', '--format', 'json')
        shown = json.loads(output)
        self.assertEqual(1 + len(shown['case']['others']),
                         len(shown['hosts']))
        self.assertEqual(int(bool(shown['disagreements'])), status)

    def test_bad_usage(self):
        for args in (['--filter', 'nova.nothing:Here'], ['--engine', 'none']):
            with contextlib.redirect_stderr(io.StringIO()):
                error = self.assertRaises(SystemExit, self._run, *args)
            self.assertEqual(2, error.code, args)
