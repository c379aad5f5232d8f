// The document, and what follows from it. Whether a guest fits is in it
// already: nothing here looks at what is free.

const fleet = JSON.parse(document.getElementById('document').textContent);

const numbers = new Intl.NumberFormat('en');
const shown = (number) => numbers.format(number);
const counted = (number, noun) =>
  `${shown(number)} ${noun}${number === 1 ? '' : 's'}`;
const share = (part, whole) => whole ? part / whole : 0;
const percent = (part, whole) =>
  whole ? `${(100 * part / whole).toFixed(1).replace(/\.0$/, '')} %` : '–';
const sum = (items, value) =>
  items.reduce((total, item) => total + value(item), 0);

// Items by what a function makes of each, in the order of the first of each.
function grouped(items, keyOf) {
  const groups = new Map();
  for (const item of items) {
    const key = keyOf(item);
    if (groups.has(key)) {
      groups.get(key).push(item);
    } else {
      groups.set(key, [item]);
    }
  }
  return groups;
}

function memory(mib) {
  const units = ['MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (mib >= 1024 && unit < 2) {
    mib /= 1024;
    unit += 1;
  }
  return `${shown(Math.round(mib * 10) / 10)} ${units[unit]}`;
}

// The numbers in a list such as 0-3,8, in their order.
function numbersOf(text) {
  const found = [];
  for (const item of text ? text.split(',') : []) {
    const [first, last] = item.split('-').map(Number);
    for (let number = first; number <= (last ?? first); number += 1) {
      found.push(number);
    }
  }
  return found;
}

// The nodes of a shape, with the places that nova's order gives them.
for (const shape of fleet.shapes) {
  shape.nodes = shape.sockets.flatMap(({nodes}) => nodes);
  for (const node of shape.nodes) {
    node.at = shape.order.indexOf(node.id);
    node.cores = node.caches.flatMap(({cores}) => cores);
  }
  shape.dedicatedCpus = new Set(numbersOf(shape.dedicated));
  shape.sharedCpus = new Set(numbersOf(shape.shared));
}

const guestOf = ([name, flavor, vcpus, mib, guestClass, cells, uuid,
  devices, caches, fewest]) => ({
  name, vcpus, mib, cells, uuid, devices: devices ?? '',
  caches: caches ? `${caches} (${fewest})` : '',
  flavor: fleet.guest_flavors[flavor],
  className: fleet.classes[guestClass],
});

const hosts = fleet.hosts.map((host, index) => {
  const shape = fleet.shapes[host.shape];
  const state = fleet.states[host.state];
  const floating = sum(
    host.guests.filter((guest) => !guest[5].length), (guest) => guest[2])
    + sum(host.cells, (cell) => cell[1]);
  return {
    ...host, index, shape, state, stateNumber: host.state,
    className: fleet.classes[host.class],
    aggregates: (host.aggregates ?? []).map((at) => fleet.aggregates[at]),
    disabled: host.disabled ?? null, down: host.down ?? [],
    dedicated: shape.dedicatedCpus.size,
    taken: shape.dedicatedCpus.size - state.free,
    stranded: sum(state.stranded, ([, cpus]) => cpus),
    floating, floatingLimit: Math.floor(shape.sharedCpus.size * shape.ratio),
    findings: [],
  };
});
const hostsByName = new Map(hosts.map((host) => [host.name, host]));
// Notes do not make a host an odd one.
const isOdd = (host) => host.findings.some(
  ({severity}) => severity !== 'note');
for (const finding of fleet.findings) {
  hostsByName.get(finding.host)?.findings.push(finding);
}

// How much of a host is sold, of what it has most of.
const soldShare = (host) => host.dedicated
  ? share(host.taken, host.dedicated)
  : share(host.floating, host.floatingLimit);

const scopes = new Map([['all', {
  key: 'all', text: 'the whole fleet', hosts}]]);
function addScopes(kind, of) {
  const members = hosts.flatMap((host) => of(host).map(
    (name) => ({name, host})));
  const groups = grouped(members, ({name}) => name);
  for (const name of [...groups.keys()].sort()) {
    const key = `${kind}:${name}`;
    scopes.set(key, {key, kind, name, text: `${kind} ${name}`,
      hosts: groups.get(name).map(({host}) => host)});
  }
}
addScopes('class', (host) => [host.className]);
addScopes('zone', (host) => [host.zone]);
addScopes('aggregate', (host) => host.aggregates);

// What a guest of a flavor finds on a host: how many more fit, or the reason
// why none does. Where too little is known of the host, it may be fewer.
const flavorAnswer = (flavor) => (host) => {
  const why = host.state.why[flavor];
  return {fits: why < 0, count: host.state.fits[flavor], why,
    isBound: host.state.bounds.includes(flavor)};
};

// The same of a guest of any size. The engine was asked about the largest
// sizes that fit and the smallest that do not, and these tell of all others.
const sizeAnswer = (policy, vcpus, gib) => (host) => {
  const sizes = host.state.sizes[policy];
  if (sizes.fit.some((most) => vcpus <= most[0] && gib <= most[1])) {
    return {fits: true, count: null, why: -1, isBound: sizes.bound};
  }
  const [refused] = sizes.not.filter(
    (least) => vcpus >= least[0] && gib >= least[1]).slice(-1);
  return {fits: false, count: 0, why: refused?.[2] ?? null,
    least: refused?.slice(0, 2)};
};

const reason = (why, number) =>
  why === null ? 'not known' : fleet.reasons[why][number === 1 ? 0 : 1];

function totalsOf(members) {
  const stranded = new Map();
  for (const {state} of members) {
    for (const [cause, cpus] of state.stranded) {
      stranded.set(cause, (stranded.get(cause) ?? 0) + cpus);
    }
  }
  return {
    hosts: members.length,
    guests: sum(members, (host) => host.guests.length),
    dedicated: sum(members, (host) => host.dedicated),
    taken: sum(members, (host) => host.taken),
    free: sum(members, (host) => host.state.free),
    floating: sum(members, (host) => host.floating),
    floatingLimit: sum(members, (host) => host.floatingLimit),
    orphans: sum(members, (host) => host.state.orphans),
    strandedMib: sum(members, (host) => host.state.stranded_mib),
    stranded: [...stranded].sort((one, other) => other[1] - one[1]),
    strandedCpus: sum([...stranded.values()], (cpus) => cpus),
  };
}

// How long ago a fleet was taken, with how much that is to worry about.
function ageOf(taken, now = Date.now()) {
  const minutes = Math.round((now - Date.parse(taken)) / 60000);
  if (Number.isNaN(minutes)) {
    return ['unknown', 'it is not known when this was taken'];
  }
  const [size, unit] = minutes < 120 ? [1, 'minute']
    : minutes < 2880 ? [60, 'hour'] : [1440, 'day'];
  return minutes < 0 ? ['unknown', 'in the future, by the clock here']
    : [minutes < 1440 ? 'yes' : 'warning',
      `${counted(Math.floor(minutes / size), unit)} ago`];
}

// A to Z, a to z, 0 to 9, then AA and so on.
function letter(number) {
  const all = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';
  return number < all.length ? all[number]
    : letter(Math.floor(number / all.length) - 1) + all[number % all.length];
}
