# SPDX-License-Identifier: Apache-2.0
"""The page of a fleet in a browser, with its answers beside the engine's."""

import dataclasses

from nova_pinning.admission import offered_host
from nova_pinning.admission import outcome
from nova_pinning.bridge.offline import flavor_request
from nova_pinning.bridge.offline import standalone
from nova_pinning.explain import explanation
from nova_pinning.explain import size_limits
from nova_pinning.explain import verdict_summary
from nova_pinning.fleet import snapshot
from nova_pinning.model import hostclass
from nova_pinning.presentation.fleet_page import page_data
from nova_pinning.presentation import moves_drawing
from nova_pinning.rebalance import plan_model
from nova_pinning.tests.browser import browser_case
from nova_pinning.tests.unit.explain import explain_cases
from nova_pinning.tests.unit.presentation.fleet_page import page_cases

_TABS = ('overview', 'hosts', 'fit', 'plan')


def _with_plan(fleet):
    """A guest of the fleet as a plan would move it to a host of its class."""
    guest = next(guest for guest in fleet.guests if guest.fit is not None)
    target = next(host.name for host in fleet.hosts
                  if host.name != guest.host
                  and host.host_class is hostclass.HostClass.DEDICATED)
    return plan_model.RebalancePlan(
        goal=plan_model.PlanGoal.DEFRAGMENT, moves=(plan_model.PlannedMove(
            guest=guest.uuid, name=guest.name, source=guest.host,
            target=target, kind=plan_model.MigrationKind.LIVE,
            vcpus=guest.vcpus, memory_mib=guest.memory_mib,
            source_fit=guest.fit, target_fit=guest.fit),),
        gains=(plan_model.SlotGain(size='16', before=1, after=2),))


class TestFleetPage(browser_case.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        standalone.prepare()

    def _open(self, fleet, tab='overview', width=1280, theme='light',
              **values):
        path = self.directory / 'page.html'
        path.write_text(page_cases.rendered(fleet, **values))
        return self.visit(path, tab, width, theme)

    def test_all_views(self):
        """Nothing is wider than the window, and axe has nothing grave."""
        fleet = page_cases.hostile(page_cases.fleet(12))
        path = self.directory / 'views.html'
        path.write_text(page_cases.rendered(fleet, plan=_with_plan(fleet)))
        for theme in browser_case.THEMES:
            for width in browser_case.WIDTHS:
                for tab in _TABS:
                    with self.subTest(f'{theme}-{width}-{tab}'):
                        opened = self.visit(path, tab, width, theme)
                        self.check_view(opened, width)
                        self.shoot(opened, f'{tab}-{width}-{theme}')

    def test_open_host(self):
        """By mouse and by keyboard, with all guests and CPUs."""
        fleet = page_cases.fleet(12)
        opened = self._open(fleet, 'hosts')
        opened.locator('#part-hosts .host').nth(2).click()
        dialog = opened.locator('dialog')
        host = fleet.hosts[2]
        guests = [guest for guest in fleet.guests if guest.host == host.name]
        self.assertEqual(host.name, dialog.locator('h2').inner_text())
        self.assertEqual(len(guests), dialog.locator('tbody tr').count())
        self.assertEqual(
            sum(map(len, (core for cell in host.cells
                          for core in cell.cores))),
            dialog.locator('.drawing .cpu').count())
        self.assertEqual([], self.grave(opened))
        opened.keyboard.press('Escape')
        self.assertFalse(dialog.is_visible())
        first = opened.locator('#part-hosts .host').first
        first.focus()
        opened.keyboard.press('ArrowRight')
        opened.keyboard.press('Enter')
        self.assertEqual(fleet.hosts[1].name,
                         dialog.locator('h2').inner_text())

    def test_search_filter_and_order(self):
        fleet = page_cases.fleet(12, shared=0)
        full = [host.name for host in fleet.hosts]
        opened = self._open(fleet, 'hosts')
        shown = opened.locator('#part-hosts .host')
        self.assertEqual(len(full), shown.count())
        opened.locator('input[type=search]').fill(full[4].upper())
        self.assertEqual([full[4]], shown.locator('span').all_text_contents())
        guest = fleet.guests[7]
        opened.locator('input[type=search]').fill(guest.name)
        self.assertEqual([guest.host],
                         shown.locator('span').all_text_contents())
        opened.locator('input[type=search]').fill('no such host')
        self.assertEqual(0, shown.count())
        opened.locator('input[type=search]').fill('')
        opened.get_by_label('order').select_option('guests')
        count = {name: 0 for name in full}
        for one in fleet.guests:
            count[one.host] += 1
        self.assertEqual(
            sorted(full, key=lambda name: -count[name]),
            shown.locator('span').all_text_contents())
        opened.get_by_label('alike as one').check()
        self.assertLessEqual(shown.count(), len(full))

    def test_answers_for_flavors(self):
        """Which hosts light up, and the sums of reasons, are explain's."""
        fleet = page_cases.fleet(16)
        judge = explanation.judge_of(fleet)
        opened = self._open(fleet, 'fit')
        names = opened.evaluate(
            '[...document.querySelectorAll("#part-fit option")].map('
            '(option) => option.textContent)')
        for flavor in fleet.flavors:
            request = explain_cases.read(flavor)
            verdicts = [judge.verdict(occupancy, request)
                        for occupancy in judge.occupancies.values()]
            opened.locator('#part-fit select').first.select_option(
                index=names.index(flavor.name))
            self.assertEqual(
                sorted(verdict.host for verdict in verdicts if verdict.fits),
                sorted(opened.locator('.host.lit span').all_text_contents()))
            self.assertEqual(
                sorted(f'{group.count} {group.text}' for group
                       in verdict_summary.groups(verdicts, request)),
                sorted(opened.locator('.reasons li').all_inner_texts()))

    def test_answers_for_sizes(self):
        """For each policy, host and some sizes, as the script gives them."""
        fleet = page_cases.fleet(8)
        opened = self._open(fleet, 'fit')
        judge = explanation.judge_of(fleet)
        with flavor_request.batch():
            finder = size_limits.SizeFinder(judge, explain_cases.read)
            for number, policy in enumerate(
                    size_limits.policies(fleet.hosts)):
                for vcpus in (2, 4, 8, 16, 38, 64):
                    for gib in (2, 16, 64, 128, 200):
                        request = finder.request(policy, vcpus, gib)
                        self.assertEqual(
                            [judge.verdict(occupancy, request).fits
                             for occupancy in judge.occupancies.values()],
                            opened.evaluate(
                                '([policy, vcpus, gib]) => fleetPage.hosts.'
                                'map((host) => fleetPage.sizeAnswer(policy, '
                                'vcpus, gib)(host).fits)',
                                [number, vcpus, gib]),
                            (policy.text, vcpus, gib))

    def test_own_size(self):
        """Typed in, with what it says to odd numbers."""
        fleet = page_cases.fleet(8, shared=0)
        opened = self._open(fleet, 'fit')
        opened.locator('#part-fit select').first.select_option('=any')
        opened.locator('input[type=number]').first.fill('2')
        opened.locator('input[type=number]').last.fill('1')
        self.assertIn('has room', opened.locator(
            '#part-fit .answer').inner_text().replace('have', 'has'))
        opened.locator('input[type=number]').first.fill('1000')
        self.assertIn('fits nowhere', opened.locator(
            '#part-fit .answer').inner_text())
        opened.locator('input[type=number]').first.fill('')
        self.assertIn('whole numbers', opened.locator(
            '#part-fit .answer').inner_text())

    def test_plan(self):
        """The guest stands on its source before, and on its target after."""
        fleet = page_cases.fleet(12)
        plan = _with_plan(fleet)
        move, = plan.moves
        opened = self._open(fleet, 'plan', plan=plan)
        for button, host in (('before', move.source), ('after', move.target)):
            opened.get_by_role('button', name=button, exact=True).click()
            with_guest = opened.locator('.plan-host', has=opened.locator(
                '.cpu.guest'))
            self.assertIn(host, with_guest.locator('h3').inner_text())
            self.assertEqual(
                sum(len(cell.pins) for cell in move.source_fit.cells),
                opened.locator('.plan-host .cpu.guest').count())

    def test_tiles_are_those_of_the_drawing(self):
        """Each CPU has the sign that the drawing of the plan gives it."""
        other = {'x': '\N{MULTIPLICATION SIGN}', '.': ''}
        fleet = page_cases.fleet(12)
        plan = _with_plan(fleet)
        drawn = moves_drawing.draw(plan, fleet)
        opened = self._open(fleet, 'plan', plan=plan)
        for at, button in enumerate(('before', 'after')):
            opened.get_by_role('button', name=button, exact=True).click()
            for host in drawn.hosts:
                shown = opened.locator('.plan-host', has=opened.locator(
                    'h3', has_text=host.name))
                self.assertEqual(
                    {str(cpu): other.get(tile.sign, tile.sign) for cpu, tile
                     in host.states[at].tiles.items()},
                    dict(shown.locator('.cpu').evaluate_all(
                        '(tiles) => tiles.map((tile) => ['
                        'tile.querySelector("small").textContent,'
                        'tile.querySelector("b").textContent])')))
                self.assertEqual(
                    [socket.name for socket in host.sockets],
                    shown.locator('.socket > b').all_text_contents())

    def test_scope(self):
        """Sums are over the hosts of the class, zone or aggregate chosen."""
        fleet = page_cases.fleet(12)
        shared = [host for host in fleet.hosts
                  if host.host_class is hostclass.HostClass.SHARED]
        opened = self._open(fleet)
        opened.locator('#scope').select_option('class:shared')
        self.assertIn(f'{len(shared)} hosts', opened.locator(
            '#part-overview h2').all_inner_texts())
        opened.locator('#tabs a', has_text='Hosts').click()
        self.assertEqual(len(shared), opened.locator(
            '#part-hosts .host').count())

    def test_first_screen(self):
        """A sign and words for what is wrong; figures lead to their hosts."""
        fleet = page_cases.fleet(6, shared=0)
        first, second, *others = fleet.hosts
        fleet = dataclasses.replace(
            fleet, taken_at='2026-11-01T00:00:00Z', hosts=(
                dataclasses.replace(first, is_enabled=False),
                dataclasses.replace(second, gaps=(outcome.Doubt(
                    outcome.DoubtKind.HELD, 'more is held'),)), *others))
        opened = self._open(fleet)
        lines = page_cases.document(fleet)['sales']['all']['lines']
        self.assertEqual(
            [f'{figure} {text}'.strip() for _level, figure, text in lines],
            opened.locator('.headline .said > span:last-child')
            .all_inner_texts())
        self.assertEqual(len(lines), opened.locator(
            '.headline .mark[aria-label]').count())
        for key, host in (('disabled', first), ('unknown', second)):
            opened.locator('#tabs a', has_text='Overview').click()
            opened.locator(f'.card a[href="#hosts/{key}"]').click()
            self.assertEqual([host.name], opened.locator(
                '#part-hosts .host span').all_text_contents())

    def test_age(self):
        """Of a day or more warns, and what is not known is said to be."""
        opened = self._open(page_cases.fleet(2))
        taken = '2026-11-01T00:00:00Z'
        for then, now, expected in (
                (taken, '2026-11-01T00:01:00Z', ['yes', '1 minute ago']),
                (taken, '2026-11-01T03:59:00Z', ['yes', '3 hours ago']),
                (taken, '2026-11-13T00:00:00Z', ['warning', '12 days ago'])):
            self.assertEqual(expected, opened.evaluate(
                '([then, now]) => fleetPage.ageOf(then, Date.parse(now))',
                [then, now]))
        for then in ('', '<b>', '2999-01-01T00:00:00Z'):
            self.assertEqual('unknown', opened.evaluate(
                '(then) => fleetPage.ageOf(then)[0]', then))

    def test_theme(self):
        opened = self._open(page_cases.fleet(2))
        paper = 'getComputedStyle(document.body).backgroundColor'
        before = opened.evaluate(paper)
        opened.locator('#theme').select_option('dark')
        self.assertNotEqual(before, opened.evaluate(paper))

    def test_little_is_known(self):
        """Without guests, flavors, a topology; and with a history."""
        bare = snapshot.Fleet(hosts=(offered_host.OfferedHost(
            name='hôte', cells=()),))
        for tab in ('overview', 'hosts', 'fit'):
            self._open(bare, tab)
        empty = dataclasses.replace(page_cases.fleet(2), guests=())
        opened = self._open(empty, history=[
            page_data.SoldAt(taken_at=f'2026-11-0{day}T00:00:00Z', hosts=2,
                             guests=day, dedicated_cpus=100, pinned_cpus=day)
            for day in (1, 2, 3)])
        self.assertEqual(3, opened.locator('.history circle').count())

    def test_many_hosts(self):
        """Hosts that are alike stand for each other, and all are found."""
        few = page_cases.fleet(6, shared=0)
        hosts = tuple(dataclasses.replace(host, name=f'{host.name}-{copy}')
                      for copy in range(500) for host in few.hosts)
        guests = tuple(
            dataclasses.replace(guest, host=f'{guest.host}-{copy}',
                                uuid=f'{guest.uuid}-{copy}')
            for copy in range(500) for guest in few.guests)
        opened = self._open(
            dataclasses.replace(few, hosts=hosts, guests=guests), 'hosts')
        shown = opened.locator('#part-hosts .host')
        self.assertLessEqual(shown.count(), 6)
        # How many each stands for hides nothing of its drawing.
        self.assertEqual([], shown.evaluate_all(
            '(found) => found.filter((host) => host.querySelector("i")'
            '.getBoundingClientRect().top < host.querySelector("svg")'
            '.getBoundingClientRect().bottom)'))
        self.assertIn('3,000 hosts', opened.locator(
            '#part-hosts p.dim').first.inner_text())
        opened.get_by_label('alike as one').uncheck()
        self.assertLess(shown.count(), 3000)
        opened.locator('input[type=search]').fill(hosts[2999].name)
        self.assertEqual(1, shown.count())
