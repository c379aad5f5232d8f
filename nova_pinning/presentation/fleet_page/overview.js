// The overview: what can still be sold, what cannot, and where.

function drawOverview(root, scope, choose) {
  const members = scope.hosts;
  const totals = totalsOf(members);
  const sizes = sizesOf(members);
  replace(root, headline(sizes, totals), cards(totals, members),
    element('div', {class: 'two'},
      element('div', {}, fleet.flavors.length ? sales(sizes) : null,
        totals.dedicated ? strandedPart(totals) : null),
      element('div', {}, picturePart(members), places(choose),
        historyPart(), findingsPart(members))));
}

// Of what is pinned, the flavor that host totals are most wrong about.
function headline(sizes, totals) {
  if (!totals.hosts) {
    return element('p', {class: 'answer'}, 'There are no hosts.');
  }
  const pinned = sizes.filter(({flavor}) => flavor.pinned);
  const gap = (size) => (size.totals - size.fits) * size.flavor.vcpus;
  const [worst] = [...(pinned.length ? pinned : sizes)].sort(
    (one, other) => gap(other) - gap(one));
  if (!worst) {
    return element('p', {class: 'answer'}, 'No flavors are known.');
  }
  const [cause] = worst.missing;
  return element('div', {},
    element('p', {class: 'answer'}, worst.isBound ? 'At most ' : '',
      element('strong', {}, shown(worst.fits)),
      ` more ${worst.fits === 1 ? 'guest' : 'guests'} of `
      + `${worst.flavor.name} can be sold`,
      worst.totals > worst.fits ? element('span', {},
        ', where host totals promise ',
        element('s', {}, shown(worst.totals)), '.') : '.'),
    cause ? element('p', {class: 'dim'},
      (worst.missing.length > 1
        ? `Most of the other ${shown(worst.totals - worst.fits)}: `
        : `The other ${shown(worst.totals - worst.fits)}: `)
      + `${fleet.causes[cause[0]][0]}.`) : null);
}

// All hosts, as little as they can be.
function picturePart(members) {
  if (!members.length) {
    return null;
  }
  overviewGrid ??= new HostGrid(openHost);
  overviewGrid.size = members.length > 400 ? 2 : members.length > 60 ? 3 : 4;
  overviewGrid.show(members);
  return element('section', {}, element('h2', {}, 'The hosts'),
    legend(usedKinds()), overviewGrid.element, overviewGrid.end);
}
let overviewGrid = null;

function card(title, value, ...more) {
  return element('div', {class: 'card'}, element('h3', {}, title),
    element('p', {class: 'figure'}, value), ...more);
}

function cards(totals, members) {
  const found = members.flatMap((host) => host.findings);
  const bad = found.filter((finding) => finding.severity !== 'note').length;
  const unknown = members.filter((host) => host.gaps);
  return element('div', {class: 'cards'},
    unknown.length ? card('Not all is known of', shown(unknown.length),
      element('p', {class: 'dim'},
        `${unknown.length === 1 ? 'host' : 'hosts'}: ${unknown[0].name}: `
        + unknown[0].gaps[0])) : null,
    card('Hosts', shown(totals.hosts), element('p', {class: 'dim'},
      `${counted(totals.guests, 'guest')}`
      + (totals.disabled ? `; ${shown(totals.disabled)} disabled` : ''))),
    totals.dedicated ? card('Dedicated CPUs sold',
      percent(totals.taken, totals.dedicated),
      bar([['taken', share(totals.taken, totals.dedicated)],
        ['stranded', share(totals.strandedCpus, totals.dedicated)],
        ['free', share(totals.free - totals.strandedCpus, totals.dedicated)],
      ], `${shown(totals.taken)} of ${shown(totals.dedicated)} sold`),
      element('p', {class: 'dim'}, `${shown(totals.taken)} of `
        + `${shown(totals.dedicated)}; ${shown(totals.free)} free`)) : null,
    totals.dedicated ? card('Free, but stranded',
      shown(totals.strandedCpus),
      bar([['stranded', share(totals.strandedCpus, totals.free)],
        ['free', share(totals.free - totals.strandedCpus, totals.free)]],
      `${shown(totals.strandedCpus)} of ${shown(totals.free)} free CPUs are `
        + 'stranded'),
      element('p', {class: 'dim'}, `${percent(totals.strandedCpus,
        totals.free)} of the ${shown(totals.free)} free CPUs`)) : null,
    totals.floatingLimit ? card('Floating vCPUs sold',
      percent(totals.floating, totals.floatingLimit),
      bar([['floating', share(totals.floating, totals.floatingLimit)]],
        `${shown(totals.floating)} of ${shown(totals.floatingLimit)} sold`),
      element('p', {class: 'dim'}, `${shown(totals.floating)} of `
        + `${shown(totals.floatingLimit)} that the ratio allows`)) : null,
    card('Findings', shown(bad), element('p', {class: 'dim'},
      bad === found.length ? 'errors and warnings'
        : `and ${counted(found.length - bad, 'note')}`)));
}

function sales(sizes) {
  return element('section', {}, element('h2', {}, 'What can still be sold'),
    element('p', {class: 'dim'}, 'Each flavor for itself. What fits was '
      + 'counted by placing guests one after another as nova would; what '
      + 'host totals promise is the free CPUs of each host as a whole, which '
      + 'is what most dashboards count. The bars show how much of that '
      + 'really fits.'),
    element('ul', {class: 'legend'},
      element('li', {}, element('span', {class: 'key fits'}), 'fits'),
      element('li', {}, element('span', {class: 'key totals'}),
        'promised by host totals')),
    element('div', {class: 'wide', tabindex: '0', role: 'region',
      'aria-label': 'What can still be sold'},
    element('table', {class: 'sales'},
      element('thead', {}, element('tr', {}, ['flavor', 'size', 'fits',
        'host totals', '', 'missing because'].map((name) => element(
        name ? 'th' : 'td', {class: ['fits', 'host totals'].includes(name)
          ? 'n' : ''}, name)))),
      element('tbody', {}, sizes.map(saleRow)))));
}

function saleRow({flavor, fits, totals, missing, isBound}) {
  const [cause] = missing;
  const because = !cause ? '' : (missing.length > 1
    ? `${shown(cause[1])}: ` : '') + fleet.causes[cause[0]][0];
  return element('tr', {},
    element('th', {scope: 'row'}, flavor.name),
    element('td', {class: 'dim'}, `${shown(flavor.vcpus)} × ${flavor.memory}`
      + (flavor.cells > 1 ? `, ${flavor.cells} cells` : '')),
    element('td', {class: 'n big'}, isBound
      ? element('small', {}, 'at most ') : '', shown(fits)),
    element('td', {class: 'n dim'}, shown(totals)),
    element('td', {class: 'bars'}, drawn('svg', {
      class: 'bar', viewBox: '0 0 100 10', preserveAspectRatio: 'none',
      role: 'img', 'aria-label': `${shown(fits)} of ${shown(totals)}`},
    drawn('rect', {class: 'totals', x: 0, y: 0.5, height: 9,
      width: totals ? 100 : 0}),
    drawn('rect', {class: 'fits', x: 0, y: 2, height: 6,
      width: 100 * share(fits, totals)}))),
    element('td', {}, because));
}

function strandedPart(totals) {
  return element('section', {}, element('h2', {}, 'Free, but for nobody'),
    element('p', {}, totals.strandedCpus
      ? `Whatever is sold of these flavors, ${shown(totals.strandedCpus)} of `
        + `the ${shown(totals.free)} free CPUs stay free:`
      : 'Each free CPU can be used by some flavor.'),
    element('ul', {class: 'parts'}, totals.stranded.map(([cause, cpus]) =>
      element('li', {}, element('b', {}, counted(cpus, 'CPU')), ' ',
        bar([['stranded', share(cpus, totals.free)]],
          percent(cpus, totals.free)),
        ` ${fleet.causes[cause][1]}`)),
    totals.orphans ? element('li', {}, element('b', {},
      counted(totals.orphans, 'CPU')), ' ',
    bar([['taken', share(totals.orphans, totals.free)]],
      percent(totals.orphans, totals.free)),
    ' on a core of which another CPU is taken (some can be sold)') : null,
    totals.strandedMib ? element('li', {}, element('b', {},
      memory(totals.strandedMib)), ' of memory for which no CPUs are left')
      : null));
}

// How much was sold, over time.
function historyPart() {
  const times = fleet.history.map((sold) => Date.parse(sold.taken_at));
  if (times.length < 2 || times.some(Number.isNaN)) {
    return null;
  }
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const at = (sold, number) => [
    600 * share(times[number] - first, last - first),
    100 - 100 * share(sold.pinned_cpus, sold.dedicated_cpus)];
  const points = fleet.history.map(at);
  const day = (sold) => sold.taken_at.slice(0, 10);
  return element('section', {}, element('h2', {}, 'Sold over time'),
    drawn('svg', {class: 'history', viewBox: '-34 -10 650 135', role: 'img',
      'aria-label': 'Share of the dedicated CPUs that was sold'},
    ...[0, 50, 100].flatMap((level) => [
      drawn('line', {x1: 0, x2: 600, y1: 100 - level, y2: 100 - level}),
      drawn('text', {x: -6, y: 104 - level, 'text-anchor': 'end'},
        `${level} %`)]),
    drawn('polyline', {points: points.map((point) => point.join(',')).join(
      ' ')}),
    ...points.map(([x, y], number) => drawn('circle', {cx: x, cy: y, r: 3},
      drawn('title', {}, `${fleet.history[number].taken_at}: `
        + percent(fleet.history[number].pinned_cpus,
          fleet.history[number].dedicated_cpus)))),
    drawn('text', {x: 0, y: 120}, day(fleet.history[0])),
    drawn('text', {x: 600, y: 120, 'text-anchor': 'end'},
      day(fleet.history[fleet.history.length - 1]))));
}

function places(choose) {
  const groups = [...scopes].filter(([, scope]) => scope.kind);
  return element('section', {}, element('h2', {}, 'Where'),
    element('div', {class: 'wide', tabindex: '0', role: 'region',
      'aria-label': 'By class, zone and aggregate'},
    element('table', {}, element('thead', {}, element('tr', {},
      ['hosts of', 'hosts', 'guests', 'sold', 'free', 'stranded', 'findings']
        .map((name, at) => element('th', {class: at ? 'n' : ''}, name)))),
    element('tbody', {}, groups.map(([key, scope]) => {
      const totals = totalsOf(scope.hosts);
      const found = sum(scope.hosts, (host) => host.findings.length);
      return element('tr', {},
        element('th', {scope: 'row'}, element('button', {
          type: 'button', class: 'link', click: () => choose(key)},
        scope.text)),
        ...[shown(totals.hosts), shown(totals.guests), totals.dedicated
          ? percent(totals.taken, totals.dedicated)
          : percent(totals.floating, totals.floatingLimit),
        shown(totals.free), shown(totals.strandedCpus), shown(found)].map(
          (text) => element('td', {class: 'n'}, text)));
    })))));
}

const MARKS = {error: '✗', warning: '!', note: 'i'};
const MOST_FINDINGS = 100;

function findingsPart(members) {
  const inScope = new Set(members.map((host) => host.name));
  const found = fleet.findings.filter((finding) => !finding.host
    || inScope.has(finding.host) || !hostsByName.has(finding.host));
  const order = Object.keys(MARKS);
  found.sort((one, other) =>
    order.indexOf(one.severity) - order.indexOf(other.severity));
  return element('section', {}, element('h2', {}, 'Findings'),
    found.length ? element('ul', {class: 'findings'},
      found.slice(0, MOST_FINDINGS).map((finding) => element('li', {
        class: finding.severity},
      element('span', {class: 'mark', 'aria-hidden': 'true'},
        MARKS[finding.severity]),
      element('div', {}, element('b', {},
        `${finding.code}, ${finding.severity}: `),
      `${finding.subject}: ${finding.message}`,
      finding.advice ? element('div', {class: 'dim'}, finding.advice)
        : null))))
      : element('p', {}, 'Nothing odd was found.'),
    found.length > MOST_FINDINGS ? element('p', {class: 'dim'},
      `and ${shown(found.length - MOST_FINDINGS)} more, which nova-pinning `
      + 'fleet check tells') : null);
}
