# SPDX-License-Identifier: Apache-2.0
"""How long the page of a fleet takes: to make, to load, to answer.

    python -m benchmarks.fleet_page --hosts 1000

Loading ends when the view that was asked for is drawn; an answer when its
hosts are drawn. The browser is Debian's chromium, without a window; tox -e
browser has what it needs.
"""

import argparse
import pathlib
import shutil
import statistics
import tempfile
import time

from playwright import sync_api

from nova_pinning.bridge import flavor_request
from nova_pinning.bridge import standalone
from nova_pinning.capacity import capacity
from nova_pinning.fleet import generate
from nova_pinning.fleet import problems
from nova_pinning.fleet import shapes
from nova_pinning.presentation.fleet_page import page
from nova_pinning.presentation.fleet_page import page_data

_ROUNDS = 5
# From an input event to the frame after the next, by which it is painted.
_ANSWER = '''async ([selector, value]) => {
  const control = document.querySelector(selector);
  const begun = performance.now();
  control.value = value;
  for (const kind of ['input', 'change']) {
    control.dispatchEvent(new Event(kind, {bubbles: true}));
  }
  await new Promise((done) =>
    requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - begun;
}'''
_PAINTED = '''() => new Promise((done) => requestAnimationFrame(
  () => requestAnimationFrame(() => done(performance.now()))))'''
_HOSTS = '#part-hosts'
_ANSWERS = (
    ('search for a host', 'hosts', f'{_HOSTS} input[type=search]',
     ('00007', '0001', 'no such')),
    ('search for a guest', 'hosts', f'{_HOSTS} input[type=search]',
     ('guest-0000', 'guest-00012', 'guest-1')),
    ('filter', 'hosts', f'{_HOSTS} label:nth-child(2) select',
     ('free', 'full', 'stranded')),
    ('order', 'hosts', f'{_HOSTS} label:nth-child(3) select',
     ('free', 'sold', 'guests')),
    ('will a flavor fit', 'fit', '#part-fit select', ('=1', '=2', '=3')))


def main() -> None:
    parser = argparse.ArgumentParser(
        description='Time the page of a fleet that is made up.')
    parser.add_argument('--hosts', type=int, default=1000)
    parser.add_argument('--shape', default='two-socket-80',
                        choices=sorted(shapes.SHAPES))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, 'page.html')
        begun = time.perf_counter()
        text = _page(arguments.hosts, arguments.shape)
        _say('make', time.perf_counter() - begun)
        path.write_text(text)
        print(f'{"size":24} {len(text.encode()) / 1e6:8.1f} MB')
        with sync_api.sync_playwright() as player:
            browser = player.chromium.launch(
                executable_path=shutil.which('chromium'),
                args=['--no-sandbox'])
            _measure(browser, path)
            browser.close()


def _page(hosts: int, shape: str) -> str:
    fleet = generate.generate_fleet(hosts, shape, 4, filled=0.9, shared=0.2)
    standalone.prepare()
    with flavor_request.batch():
        measured = capacity.measure(fleet, [
            flavor_request.request_for(flavor, {}, fleet.pci_aliases)
            for flavor in fleet.flavors])
        return page.page(page_data.FleetPage(
            measured=measured, findings=problems.find(fleet),
            read=lambda flavor, image: flavor_request.request_for(
                flavor, image, fleet.pci_aliases)), 'benchmark')


def _measure(browser: sync_api.Browser, path: pathlib.Path) -> None:
    for tab in ('overview', 'hosts', 'fit'):
        times = []
        for _round in range(_ROUNDS):
            opened = browser.new_page(
                viewport={'width': 1920, 'height': 1080})
            opened.goto(f'{path.as_uri()}#{tab}')
            times.append(opened.evaluate(_PAINTED) / 1000)
            opened.close()
        _say(f'load, {tab}', *times)
    for name, tab, selector, values in _ANSWERS:
        opened = browser.new_page(viewport={'width': 1920, 'height': 1080})
        opened.goto(f'{path.as_uri()}#{tab}')
        opened.evaluate(_PAINTED)
        _say(name, *(opened.evaluate(_ANSWER, [selector, value]) / 1000
                     for value in values * _ROUNDS))
        opened.close()


def _say(what: str, *seconds: float) -> None:
    print(f'{what:24} {1000 * statistics.median(seconds):8,.0f} ms'
          + (f', {1000 * max(seconds):,.0f} at most'
             if len(seconds) > 1 else ''), flush=True)


if __name__ == '__main__':
    main()
