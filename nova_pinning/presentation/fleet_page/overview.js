// The overview: what can still be sold, what cannot, and where.

function drawOverview(root, scope, choose) {
  const members = scope.hosts;
  const totals = totalsOf(members);
  const sales = fleet.sales[scope.key];
  replace(root, element('div', {class: 'headline'}, sales.lines.map(
    ([level, figure, text]) => element('p', {class: figure ? 'said answer'
      : 'said'}, mark(level), element('span', {}, figure
      ? [element('strong', {class: level}, figure), ' '] : [], text)))),
  cards(totals, members),
  element('div', {class: 'two'},
    element('div', {}, fleet.flavors.length ? salesPart(sales.flavors) : null,
      devicesPart(members, sales.flavors),
      totals.dedicated ? strandedPart(totals) : null),
    element('div', {}, picturePart(members), places(choose),
      historyPart(), findingsPart(members))));
}

// All hosts, as little as they can be.
function picturePart(members) {
  overviewGrid ??= new HostGrid(openHost);
  overviewGrid.sizes = [2, 3, 4];
  overviewGrid.show(members);
  return element('section', {}, element('h2', {}, counted(
    members.length, 'host')),
  legend(usedKinds()), overviewGrid.element, overviewGrid.end);
}
let overviewGrid = null;

// level: of MARKS, null for a figure that is neither good nor bad
// link: where more of it is told, null for nowhere
function card(level, title, value, link, ...more) {
  return element('div', {class: 'card'}, element('h3', {}, title),
    element('p', {class: 'figure'}, level && mark(level), link && value !== '0'
      ? element('a', {href: link, 'aria-label': `${value}: ${title}`}, value)
      : value), ...more);
}

const about = (...text) => element('p', {class: 'dim'}, ...text);

function cards(totals, members) {
  const number = (key) => members.filter(FILTERS[key][1]).length;
  const found = findingsOf(members);
  const bad = found.filter(({severity}) => severity !== 'note').length;
  const guests = sum(members, (host) => host.down.length);
  const [lost, unknown, disabled] = ['lost', 'unknown', 'disabled'].map(
    number);
  return element('div', {class: 'cards'},
    totals.dedicated ? card(null, 'Dedicated CPUs sold',
      percent(totals.taken, totals.dedicated), null,
      bar([['taken', share(totals.taken, totals.dedicated)],
        ['stranded', share(totals.strandedCpus, totals.dedicated)],
        ['free', share(totals.free - totals.strandedCpus, totals.dedicated)],
      ], `${shown(totals.taken)} of ${shown(totals.dedicated)} sold`),
      about(`${shown(totals.free)} of ${shown(totals.dedicated)} are free, `
        + `${shown(totals.strandedCpus)} of these stranded`)) : null,
    totals.floatingLimit ? card(null, 'Floating vCPUs sold',
      percent(totals.floating, totals.floatingLimit), null,
      bar([['floating', share(totals.floating, totals.floatingLimit)]],
        `${shown(totals.floating)} of ${shown(totals.floatingLimit)} sold`),
      about(`${shown(totals.floating)} of ${shown(totals.floatingLimit)} that `
        + 'the ratio allows')) : null,
    card(lost ? 'error' : 'note', 'If a host fails', shown(lost),
      '#hosts/lost', about(lost ? `${lost === 1 ? 'host' : 'hosts'} at least `
        + `would leave guests down: ${counted(guests, 'guest')} fit on no `
        + 'other' : 'hosts have guests that fit on no other',
      '; whether all guests of a host do at once, rebalance failover tells')),
    unknown ? card('unknown', 'Not all is known of', shown(unknown),
      '#hosts/unknown', about(
        `${unknown === 1 ? 'host' : 'hosts'}: what fits there is a bound`))
      : null,
    disabled ? card('warning', 'Disabled hosts', shown(disabled),
      '#hosts/disabled', about('nothing is sold there')) : null,
    card(!bad ? 'yes' : found.some(({severity}) => severity === 'error')
      ? 'error' : 'warning', 'Findings', shown(bad), '#overview/findings',
    about(bad === found.length ? 'errors and warnings'
      : `and ${counted(found.length - bad, 'note')}`)));
}

// The mark of a flavor by what becomes of it, and its meaning.
const STATUSES = {
  'sold-out': ['error', 'sold out'], low: ['warning', 'few left'],
  undecided: ['unknown', 'not known'], 'on-sale': ['yes', 'on sale'],
  'not-offered': ['note', 'not for these hosts'],
};

function salesPart(rows) {
  const hasDays = rows.some(({days}) => days);
  const hasCaches = rows.some(({caches}) => caches);
  return element('section', {}, element('h2', {}, 'What can still be sold'),
    element('div', {class: 'wide', tabindex: '0', role: 'region',
      'aria-label': 'What can still be sold'},
    element('table', {class: 'sales'},
      element('thead', {}, element('tr', {}, [['flavor'], ['size'],
        ['left', 'n'], ...(hasDays ? [['gone in', 'n']] : []),
        ['sold', 'n'], ['host totals', 'n'], [''], ['missing because'],
        ...(hasCaches ? [['L3 (fewest)', 'n']] : [])].map(
        ([name, kind]) => element(name ? 'th' : 'td', {class: kind ?? null},
          name)))),
      element('tbody', {}, rows.map((row) => saleRow(row, hasDays,
        hasCaches))))),
    element('details', {class: 'dim'},
      element('summary', {}, 'How this is counted'),
      element('p', {}, 'Each flavor for itself. What is left was counted by '
        + 'placing guests one after another as nova would; what host totals '
        + 'promise is the free CPUs of each host as a whole, which is what '
        + 'most dashboards count. The bars show how much of that really '
        + 'fits. Few are left (!) if there are ten times as many guests, or '
        + 'if they are gone within 30 days at the pace of earlier snapshots; '
        + (fleet.history.length ? '' : 'there are none here, so ')
        + 'where that cannot be told, no days are given. A flavor is not for '
        + 'hosts (i) that would not take it if they were empty. L3 caches '
        + 'are those of the next guest, on an average host with room, and '
        + 'the fewest that would do.')));
}

function saleRow({at, fits, bound, totals, guests, status, days, because,
  caches}, hasDays, hasCaches) {
  const flavor = fleet.flavors[at];
  const [level, meaning] = STATUSES[status];
  return element('tr', {},
    element('th', {scope: 'row'}, element('div', {}, mark(level, meaning),
      element('span', {}, flavor.name))),
    element('td', {class: 'dim'}, `${shown(flavor.vcpus)} × ${flavor.memory}`
      + (flavor.cells > 1 ? `, ${flavor.cells} cells` : '')),
    element('td', {class: `n big ${level}`}, bound
      ? element('small', {}, 'at most ') : '', shown(fits)),
    hasDays ? element('td', {class: 'n', 'data-name': days && 'gone in'},
      days ?? '') : null,
    element('td', {class: 'n dim', 'data-name': 'sold'}, shown(guests)),
    element('td', {class: 'n dim', 'data-name': 'host totals'},
      shown(totals)),
    element('td', {class: 'bars'}, drawn('svg', {
      class: 'bar', viewBox: '0 0 100 10', preserveAspectRatio: 'none',
      role: 'img', 'aria-label': `${shown(fits)} of ${shown(totals)} that `
        + 'host totals promise'},
    drawn('rect', {class: 'totals', x: 0, y: 0.5, height: 9,
      width: totals ? 100 : 0}),
    drawn('rect', {class: 'fits', x: 0, y: 2, height: 6,
      width: 100 * share(fits, totals)}))),
    element('td', {}, because),
    hasCaches ? element('td', {class: 'n dim', 'data-name': 'L3 (fewest)'},
      caches) : null);
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
        ` ${fleet.causes[cause]}`)),
    totals.orphans ? element('li', {}, element('b', {},
      counted(totals.orphans, 'CPU')), ' ',
    bar([['taken', share(totals.orphans, totals.free)]],
      percent(totals.orphans, totals.free)),
    ' on a core of which another CPU is taken (some can be sold)') : null,
    totals.strandedMib ? element('li', {}, element('b', {},
      memory(totals.strandedMib)), ' of memory for which no CPUs are left')
      : null));
}

// The devices of each name, and the guests that they do for.
function devicesPart(members, sales) {
  const rows = members.flatMap(({state}) => state.devices);
  const guests = sales.flatMap(({at, fits, bound}) => {
    const {name, devices} = fleet.flavors[at];
    return devices.length ? [{
      count: sum(devices, ([, number]) => number),
      text: `${bound ? 'at most ' : ''}${shown(fits)} of ${name} (`
        + `${devices.map(([alias, number]) => `${number} × ${alias}`).join(
          ', ')})`}] : [];
  }).sort((one, other) => one.count - other.count);
  return rows.length ? element('section', {}, element('h2', {}, 'Devices'),
    element('ul', {class: 'parts devices'}, [...grouped(
      rows, ([name]) => name)].map(([name, own]) => drawnSums(name, own))),
    guests.length ? element('p', {}, 'Guests that still fit: '
      + guests.map(({text}) => text).join(', ')) : null) : null;
}

function drawnSums(name, rows) {
  const [total, free] = [3, 4].map((at) => sum(rows, (row) => row[at]));
  const why = [...grouped(rows.flatMap((row) => row[5]), ([cause]) => cause)]
    .map(([cause, parts]) => [cause, sum(parts, ([, number]) => number)]);
  const lost = sum(why, ([, number]) => number);
  return element('li', {}, element('b', {}, name), ' ',
    bar([['taken', share(total - free, total)],
      ['stranded', share(lost, total)], ['free', share(free - lost, total)]],
    `${shown(total - free)} of ${shown(total)} taken`),
    ` ${shown(free)} of ${shown(total)} free`
    + why.map(([cause, number]) => `; ${shown(number)} for nobody: `
      + fleet.causes[cause]).join(''));
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

const MOST_FINDINGS = 100;

// Those of hosts, and those of no host.
function findingsOf(members) {
  const inScope = new Set(members.map((host) => host.name));
  return fleet.findings.filter((finding) => !finding.host
    || inScope.has(finding.host) || !hostsByName.has(finding.host));
}

function findingsPart(members) {
  const found = findingsOf(members);
  const order = Object.keys(MARKS);
  found.sort((one, other) =>
    order.indexOf(one.severity) - order.indexOf(other.severity));
  return element('section', {id: 'overview/findings'},
    element('h2', {}, 'Findings'),
    found.length ? element('ul', {class: 'findings'},
      found.slice(0, MOST_FINDINGS).map((finding) => element('li', {},
        mark(finding.severity), element('div', {}, element('b', {},
        `${finding.code}, ${finding.severity}: `),
      `${finding.subject}: ${finding.message}`,
      finding.advice ? element('div', {class: 'dim'}, finding.advice)
        : null))))
      : element('p', {}, 'Nothing odd was found.'),
    found.length > MOST_FINDINGS ? element('p', {class: 'dim'},
      `and ${shown(found.length - MOST_FINDINGS)} more, which nova-pinning `
      + 'fleet check tells') : null);
}
