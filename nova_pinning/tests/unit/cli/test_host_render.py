# SPDX-License-Identifier: Apache-2.0
"""nova-pinning host render."""

import ddt

from nova_pinning.host import hostfile_writer
from nova_pinning.host import render
from nova_pinning.host.render import options
from nova_pinning.tests.unit.cli import cli_case
from nova_pinning.tests.unit.host.render import render_samples


@ddt.ddt
class TestRender(cli_case.TestCase):

    def setUp(self):
        super().setUp()
        self.plan = self.write('plan.yaml',
                               hostfile_writer.dump(render_samples.polling()))
        self.out = self.dir / 'out'

    def _render(self, *more, plan=None):
        return self.run_command('host', 'render', plan or self.plan,
                                '-o', str(self.out), *more)

    def _written(self):
        return {str(path.relative_to(self.out)): path.read_text()
                for path in self.out.rglob('*') if path.is_file()
                and not path.name.startswith('.')}

    def _expected(self, **values):
        return {path: file.text for path, file in render.files(
            render_samples.polling(), options.RenderOptions(**values)).items()}

    def test_files(self):
        done = self._render()
        expected = self._expected()
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual([*expected], done.out.splitlines())
        self.assertEqual(expected, self._written())
        again = self._render()
        self.assertEqual((2, ''), (again.status, again.out))
        self.assertIn('name a new directory', again.err)

    def test_options(self):
        done = self._render(
            '--confine', 'affinity', '--isolation', 'full', '--service', 'own',
            '--service', 'a@1.service')
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual(self._expected(
            confinement=options.Confinement.AFFINITY,
            isolation=options.Isolation.FULL,
            services=('own.service', 'a@1.service')), self._written())

    @ddt.data(*options.RenderFormat)
    def test_formats(self, form):
        hosts = () if form is options.RenderFormat.FILES else ('b', 'a')
        named = [word for host in hosts for word in ('--host', host)]
        done = self._render('--format', str(form), *named, *named)
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual(self._expected(format=form, hosts=hosts),
                         self._written())

    def test_group(self):
        done = self._render('--format', 'kolla', '--group', 'pinned')
        self.assertEqual((0, ''), (done.status, done.err))
        self.assertEqual(
            self._expected(format=options.RenderFormat.KOLLA, group='pinned'),
            self._written())

    @ddt.data(
        *((['--service', name], f'{name!r} is not a name')
          for name in ('a/b', '', '.', '../x', 'a b', 'x' * 300, '.hidden')),
        (['--host', 'a'], '--host'),
        (['--group', 'a'], '--group'),
        (['--host', 'a', '--group', 'b', '--format', 'kolla'], 'not allowed'),
        (['--group', 'a/b', '--format', 'kolla'], 'a host or group'),
        *((['--format', str(form)], 'name them with --host, or with --group')
          for form in options.RenderFormat
          if form is not options.RenderFormat.FILES),
        (['--host', '../a', '--format', 'kolla'], 'a host or group'),
        (['--isolation', 'some'], 'invalid choice'),
        (['--format', 'chef'], 'invalid choice'))
    @ddt.unpack
    def test_bad_options(self, arguments, message):
        done = self._render(*arguments)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn(message, done.err)
        # Choices are words that can be typed.
        self.assertNotIn('RenderFormat', done.err)
        self.assertFalse(self.out.exists())

    def test_no_plan(self):
        done = self._render(plan=cli_case.HOST)
        self.assertEqual((2, ''), (done.status, done.out))
        self.assertIn('there is no plan in it', done.err)
        self.assertIn(cli_case.HOST, done.err)
