# SPDX-License-Identifier: Apache-2.0
"""A Docker engine of a test's own.

It comes from the machine's Debian packages, unpacked and not installed, so
that nothing is started or changed that is not the test's. Containers have the
machine's network. Images stay in the cache of a cloud.
"""

import os
import shutil
import subprocess
import zlib

from minicloud import errors
from minicloud import service
from nova_pinning.tests.acceptance import minicloud_runner

PACKAGES = ('containerd', 'debootstrap', 'docker.io', 'runc')
# Before a command whose mounts are to be gone when it has ended, or died.
OWN_MOUNTS = ('unshare', '--mount', '--')
# Where pip and others look for certificates, in all images that are made here.
CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'


class Engine(service.Service):
    """dockerd, with the state and the log of a minicloud."""

    name = 'dockerd'
    deadline_seconds = 120.0

    @property
    def directory(self):
        """Where all of it is."""
        return self.state.cache / 'containers'

    @property
    def unpacked(self):
        return self.directory / 'packages'

    @property
    def socket(self):
        return self.state.run / 'docker.sock'

    def environment(self):
        """What its programs, and those that are to find it, need to know."""
        return {
            'PATH': os.pathsep.join([
                *(str(self.unpacked / path) for path in (
                    'usr/bin', 'usr/sbin')),
                os.environ['PATH'], '/usr/sbin', '/sbin']),
            'DEBOOTSTRAP_DIR': str(self.unpacked / 'usr/share/debootstrap'),
            'DOCKER_BUILDKIT': '0',
            'DOCKER_HOST': f'unix://{self.socket}'}

    def prepare(self):
        """Fetch and unpack what is not there yet."""
        if self.unpacked.exists():
            return
        fetched = self.directory / 'fetched'
        shutil.rmtree(fetched, ignore_errors=True)
        fetched.mkdir(parents=True)
        # APT's own user cannot write there.
        self.run(['apt-get', '-o', 'APT::Sandbox::User=root', 'download',
                  *PACKAGES], cwd=fetched)
        unfinished = fetched / 'unpacked'
        for package in fetched.glob('*.deb'):
            self.run(['dpkg-deb', '--extract', package, unfinished])
        unfinished.rename(self.unpacked)

    def command(self):
        return [
            *OWN_MOUNTS, str(self.unpacked / 'usr/sbin/dockerd'),
            '--host', f'unix://{self.socket}',
            '--data-root', str(self.directory / 'data'),
            '--exec-root', str(self.state.run / 'docker'),
            '--pidfile', str(self.state.run / 'docker.pid'),
            # Neither needs a network of its own, nor the kernel's tables.
            '--bridge', 'none', '--iptables=false', '--ip6tables=false']

    def check(self):
        try:
            self.ask('docker', 'version')
        except subprocess.CalledProcessError as e:
            raise errors.NotReady(e.stderr) from e

    def run(self, command, **options):
        """Run a command that finds this engine.

        :param command: list, or str for a shell
        :returns: what it printed
        :raises: AssertionError if it fails
        """
        return minicloud_runner.run_command(
            ['bash', '-ec', command] if isinstance(command, str)
            else list(map(str, command)),
            env={**os.environ, **self.environment()}, timeout=3600, **options)

    def ask(self, *command):
        """Return what a command prints that takes no time."""
        return subprocess.run(
            command, env={**os.environ, **self.environment()}, check=True,
            text=True, capture_output=True).stdout.strip()

    def has(self, image):
        """Tell whether an image is there."""
        return bool(self.ask('docker', 'images', '--quiet', image))

    def make_debian(self, suite, packages):
        """Make an image of Debian, from the machine's own mirror.

        Images of a registry have no more in them. The machine's certificates
        are put in, for what is installed with pip.

        :returns: its name, which another list of packages does not have
        """
        included = ','.join(packages)
        image = f'debian:{suite}-{zlib.crc32(included.encode()):08x}'
        if self.has(image):
            return image
        root = self.directory / suite
        shutil.rmtree(root, ignore_errors=True)
        self.run([*OWN_MOUNTS, 'debootstrap', '--variant=minbase',
                  f'--include={included}', suite, root, mirror()])
        shutil.copyfile(CERTIFICATES, root / CERTIFICATES.lstrip('/'))
        # As Debian's own images have it: nothing is lost that counts.
        (root / 'etc/dpkg/dpkg.cfg.d/unsafe-io').write_text(
            'force-unsafe-io\n')
        self.run(f'tar --create --directory {root} . | docker import '
                 f'--change "ENV PIP_CERT={CERTIFICATES}" - {image}')
        shutil.rmtree(root)
        return image

    def build(self, image, dockerfile, files):
        """Build an image.

        :param files: what the Dockerfile copies: contents by name
        """
        directory = self.directory / 'build'
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for name, content in files.items():
            (directory / name).write_bytes(content)
        (directory / 'Dockerfile').write_text(dockerfile)
        self.run(['docker', 'build', '--network', 'host', '--tag', image,
                  directory])


def mirror():
    """Return where the machine's own packages come from."""
    places = subprocess.run(
        ['apt-get', 'indextargets', '--format', '$(REPO_URI)',
         'Created-By: Packages', 'Origin: Debian', 'Label: Debian'],
        check=True, text=True, capture_output=True).stdout.split()
    if not places:
        raise AssertionError('APT knows no packages of Debian\'s: run '
                             '"apt-get update"')
    return places[0]
