// One host, opened: what it is made of, who is on it, what still fits.

const dialog = document.getElementById('detail');

function openHost(host, group = [host]) {
  const guests = host.guests.map(guestOf).sort(
    (one, other) => placeOf(one) - placeOf(other));
  const uses = cpuUses(host, guests);
  markStranded(host, uses);
  markFloating(host, uses);
  const at = group.indexOf(host);
  const other = (step) => group[at + step] ? () => openHost(
    group[at + step], group) : null;
  replace(dialog,
    element('div', {class: 'head'},
      element('h2', {id: 'detail-name'}, host.name),
      group.length > 1 ? element('p', {class: 'dim'},
        `${at + 1} of ${shown(group.length)} that are alike `) : null,
      group.length > 1 ? element('button', {type: 'button',
        disabled: !other(-1), click: other(-1)}, '‹ previous') : null,
      group.length > 1 ? element('button', {type: 'button',
        disabled: !other(1), click: other(1)}, 'next ›') : null,
      element('button', {type: 'button', class: 'close', autofocus: true,
        click: () => dialog.close()}, 'Close')),
    facts(host),
    host.findings.length ? element('ul', {class: 'findings'},
      host.findings.map((finding) => element('li', {}, mark(finding.severity),
        element('div', {}, element('b', {}, `${finding.code}: `),
          finding.message)))) : null,
    host.shape.nodes.length ? largeDrawing(host, uses)
      : element('p', {}, 'No NUMA cells are known here.'),
    drawnDevices(host, null).length ? element('div', {class: 'drawing'},
      element('p', {}, element('b', {}, 'Near no NUMA cell')),
      drawnDevices(host, null)) : null,
    legend([...new Set([...uses.values()].map((use) => use.kind))]
      .filter((kind) => kind !== 'taken')),
    guestTable(guests), fittingTable(host));
  if (!dialog.open) {
    dialog.showModal();
  }
  dialog.scrollTop = 0;
}

// By cells and CPUs, so that the letters stand in order; who floats is last.
function placeOf(guest) {
  const [first] = guest.cells;
  return first?.[1] ? 1e6 * first[0] + numbersOf(first[1])[0] : 1e12;
}

function facts(host) {
  const pairs = [
    ['class', host.className], ['zone', host.zone],
    ['aggregates', host.aggregates.join(', ')],
    ['made of', host.shape.summary],
    ['disabled', host.disabled ?? ''],
    ['not known', (host.gaps ?? []).join('; ')],
    ['if it is lost', host.down.length ? `no other host has room for ${
      host.down.map((at) => host.guests[at][0]).join(', ')}` : ''],
    ['CPUs', host.dedicated ? `${host.taken} of ${host.dedicated} taken, `
      + `${host.state.free} free` + (host.stranded
        ? `, ${host.stranded} of them stranded` : '') : ''],
    ['floating vCPUs', host.floatingLimit
      ? `${host.floating} of ${host.floatingLimit}` : ''],
  ];
  return element('dl', {}, pairs.filter(([, text]) => text).flatMap(
    ([name, text]) => [element('dt', {}, name), element('dd', {}, text)]));
}

function guestTable(guests) {
  if (!guests.length) {
    return element('p', {}, 'There are no guests here.');
  }
  return element('section', {}, element('h3', {}, counted(
    guests.length, 'guest')),
  element('div', {class: 'wide', tabindex: '0', role: 'region',
    'aria-label': 'Guests'},
  element('table', {}, element('thead', {}, element('tr', {},
    ['', 'name', 'flavor', 'vCPUs', 'memory', 'cells', 'L3 (fewest)',
      'devices'].map((name) => element(name ? 'th' : 'td', {class: [
      'vCPUs', 'memory', 'L3 (fewest)'].includes(name) ? 'n' : ''}, name)))),
  element('tbody', {}, guests.map((guest, number) => element('tr', {},
    element('td', {}, element('span', {
      class: guest.cells.some(([, cpus]) => cpus)
        ? `cpu guest g${number % GUEST_COLOURS}` : 'cpu floating'},
    element('b', {}, guest.cells.some(([, cpus]) => cpus)
      ? letter(number) : fleet.tiles.floating.sign))),
    element('th', {scope: 'row', title: guest.uuid}, guest.name),
    element('td', {}, guest.flavor),
    element('td', {class: 'n'}, shown(guest.vcpus)),
    element('td', {class: 'n'}, memory(guest.mib)),
    element('td', {}, guest.cells.map(([cell]) => cell).join(', ')),
    element('td', {class: 'n'}, guest.caches),
    element('td', {}, guest.devices)))))));
}

function fittingTable(host) {
  return element('section', {}, element('h3', {}, 'What still fits'),
    element('ul', {class: 'fitting'}, fleet.flavors.map((flavor, at) => {
      const answer = flavorAnswer(at)(host);
      return element('li', {}, mark(
        !answer.fits ? 'error' : answer.isBound ? 'unknown' : 'yes'),
        element('b', {}, flavor.name), answer.fits
          ? `${answer.isBound ? ' at most' : ''} ${shown(answer.count)} more`
          : ` none: the host ${reason(answer.why, 1)}`);
    })));
}

// A click beside it closes it too.
dialog.addEventListener('click', (event) => {
  if (event.target === dialog) {
    dialog.close();
  }
});
