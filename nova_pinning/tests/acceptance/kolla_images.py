# SPDX-License-Identifier: Apache-2.0
"""What Kolla builds and Kolla Ansible writes, as its page says.

kolla-build makes nova's images as it does for operators. What they stand on,
which Kolla builds from package sources all over the world, is a thin image
with Kolla's own scripts on Debian's packages.
"""

import importlib.metadata
import json
import os
import pathlib
import sys

from oslo_utils import importutils

from nova_pinning.model import nova_release
from nova_pinning.tests.acceptance import minicloud_runner

# Where other acceptance tests run there is no Kolla.
config = importutils.try_import('kolla.common.config')
users = importutils.try_import('kolla.common.users')

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(sys.executable).parent
SHARE = BIN.parent / 'share'
ROLE = SHARE / 'kolla-ansible' / 'ansible' / 'roles' / 'nova'
CONSTRAINTS = '/requirements/upper-constraints.txt'

# Kolla's major version is nova's less this.
_BEHIND_NOVA = 11

_PACKAGES = ('adduser', 'ca-certificates', 'dumb-init', 'git', 'procps',
             'python3-pip', 'python3-venv', 'sudo')
# By its name in Kolla's images, each of Kolla's scripts.
_SCRIPTS = {
    'kolla_copy_cacerts': 'copy_cacerts.sh',
    'kolla_install_projects': 'install_projects.sh',
    'kolla_set_configs': 'set_configs.py',
    'kolla_start': 'start.sh',
}
# What is there, nova from PyPI, and not what Kolla fetches from elsewhere.
_WITHOUT_REGISTRY = """\
[DEFAULT]
pull = false
skip_existing = true

[nova-base]
type = local
location = {nova}

[nova-base-plugin-blazar]
enabled = false

"""
_USERS = ('kolla', 'nova', 'qemu')
_DOCKERFILE = """\
FROM {debian}
ENV DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8 \\
    PATH=/var/lib/kolla/venv/bin:$PATH
COPY sudoers /etc/sudoers
COPY {scripts} /usr/local/bin/
COPY upper-constraints.txt {constraints}
RUN {users} && touch /usr/local/bin/kolla_extend_start \\
    && chmod 755 /usr/local/bin/kolla_* && chmod 440 /etc/sudoers \\
    && mkdir /var/log/kolla && chown :kolla /var/log/kolla \\
    && chmod 2775 /var/log/kolla && mkdir /plugins \\
    && python3 -m venv --system-site-packages /var/lib/kolla/venv \\
    && pip install -c {constraints} PyMySQL pycadf setuptools wheel
ENTRYPOINT ["dumb-init", "--single-child", "--"]
CMD ["kolla_start"]
"""


def version(package='kolla'):
    return importlib.metadata.version(package)


def release():
    """Return the release of OpenStack whose Kolla is installed."""
    found, = [known for known in nova_release.TESTED
              if known.major == _nova_major()]
    return found.name


def make_base(engine):
    """Make what kolla-build is to find: openstack-base, and nova."""
    image = f'kolla/openstack-base:{tag()}'
    if engine.has(image):
        return
    engine.run([sys.executable, '-m', 'pip', 'download', '--no-deps',
                '--no-binary', 'nova', '--constraint', _constraints(),
                '--dest', engine.directory, 'nova'])
    suite = config.DEFAULT_BASE_TAGS['debian']['tag']
    debian = engine.make_debian(suite, _PACKAGES)
    scripts = SHARE / 'kolla' / 'docker' / 'base'
    copied = {name: (scripts / script).read_bytes()
              for name, script in _SCRIPTS.items()}
    copied['sudoers'] = (scripts / 'sudoers').read_bytes()
    copied['upper-constraints.txt'] = _constraints().read_bytes()
    engine.build(image, _DOCKERFILE.format(
        debian=debian, scripts=' '.join(_SCRIPTS),
        constraints=CONSTRAINTS, users=' && '.join(map(_make_user, _USERS))),
        copied)
    engine.run(['docker', 'tag', image, f'kolla/base:{tag()}'])


def tag():
    """Return the tag that kolla-build gives to its images."""
    return version()


def build(engine, page, directory):
    """Build nova's images with kolla-build, from a checkout, as the page says.

    :param page: deployment_page.DeploymentPage, Kolla's
    :param directory: pathlib.Path, where the operator works
    :returns: name of the image of nova-scheduler
    """
    engine.run(page.command('python -m build').replace(
        'python', sys.executable, 1) + f' --outdir {directory}', cwd=ROOT)
    sdist, = directory.glob('nova_pinning-*.tar.gz')
    (directory / 'kolla-build.conf').write_text(
        _WITHOUT_REGISTRY.format(nova=_nova(engine))
        + page.block('nova-base-plugin').replace(
            '/path/to/nova_pinning-1.0.0.tar.gz', str(sdist)))
    # skip_existing is not to take those of an earlier test. By their names,
    # the one that others stand on can go at any time.
    engine.run("docker images --format '{{.Repository}}:{{.Tag}}' "
               "'kolla/nova-*' | xargs --no-run-if-empty docker rmi --force")
    engine.run(str(BIN) + '/' + page.command('kolla-build').replace(
        '/ABSOLUTE/PATH', str(directory / 'work')), cwd=directory)
    return f'kolla/nova-scheduler:{tag()}'


def configure(directory):
    """Have Kolla Ansible's own code write what the container is to read.

    What it has for a cloud anyway is nova.conf in this directory; the
    operator's files are nova-scheduler.conf and globals.yml.

    :returns: the volumes that globals.yml adds
    """
    configuration = directory / 'nova-scheduler'
    configuration.mkdir(exist_ok=True)
    volumes = directory / 'volumes.json'
    tasks = [
        {'merge_configs': {
            'sources': [str(directory / 'nova.conf'),
                        str(directory / 'nova-scheduler.conf')],
            'dest': str(configuration / 'nova.conf'), 'mode': '0660'}},
        {'template': {
            'src': str(ROLE / 'templates' / 'nova-scheduler.json.j2'),
            'dest': str(configuration / 'config.json')}},
        {'copy': {'content': '{{ nova_scheduler_extra_volumes | to_json }}',
                  'dest': str(volumes)}}]
    play(directory, directory / 'globals.yml', tasks,
         container_config_directory='/var/lib/kolla/config_files',
         kolla_copy_ca_into_containers=False, nova_copy_certs=False,
         nova_extra_volumes=[])
    return json.loads(volumes.read_text())


def play(directory, variables, tasks, **more):
    """Have Ansible carry out tasks here, with the plugins that are installed.

    :param directory: pathlib.Path, for its files
    :param variables: pathlib.Path of a file of variables
    :param more: variables besides these
    """
    playbook = directory / 'playbook.json'
    playbook.write_text(json.dumps([{
        'hosts': 'localhost', 'connection': 'local', 'gather_facts': False,
        'vars': more, 'vars_files': [str(variables)], 'tasks': tasks}]))
    plugins = [SHARE / 'kolla-ansible' / 'ansible' / 'action_plugins',
               SHARE / 'ansible' / 'plugins' / 'action']
    minicloud_runner.run_command(
        [str(BIN / 'ansible-playbook'), '--inventory', 'localhost,',
         str(playbook)],
        env={**os.environ, 'LC_ALL': 'C.UTF-8',
             'ANSIBLE_ACTION_PLUGINS': os.pathsep.join(map(str, plugins)),
             'ANSIBLE_HOME': str(directory / 'ansible'),
             'ANSIBLE_LIBRARY': str(SHARE / 'ansible/plugins/modules'),
             'ANSIBLE_PYTHON_INTERPRETER': sys.executable})


def _nova_major():
    return int(version().partition('.')[0]) + _BEHIND_NOVA


def _nova(engine):
    """Return the path of nova's source archive."""
    found, = engine.directory.glob(f'nova-{_nova_major()}.*.tar.gz')
    return found


def _constraints():
    return ROOT / 'upper-constraints' / f'{release()}.txt'


def _make_user(name):
    ids = users.USERS[f'{name}-user']
    return (f'groupadd --gid {ids["gid"]} {name} && useradd --no-create-home '
            f'--uid {ids["uid"]} --gid {ids["gid"]} {name}')
