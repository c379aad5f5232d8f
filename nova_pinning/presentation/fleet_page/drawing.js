// Elements, and drawings of hosts. Text is only ever set as text.

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  fill(made, attributes);
  made.append(...children.flat().filter((child) => child !== null));
  return made;
}

function drawn(name, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  fill(made, attributes);
  made.append(...children);
  return made;
}

function fill(made, attributes) {
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === 'function') {
      made.addEventListener(key, value);
    } else if (value === true) {
      made.setAttribute(key, '');
    } else if (value !== false && value !== null && value !== undefined) {
      made.setAttribute(key, value);
    }
  }
}

const replace = (parent, ...children) => parent.replaceChildren(
  ...children.flat().filter((child) => child !== null));

// What is well, or not: a sign, its meaning, and in the style sheet a colour.
const MARKS = {
  error: ['✗', 'error'], warning: ['!', 'warning'],
  unknown: ['?', 'not known'], yes: ['✓', 'good'], note: ['i', 'note'],
};

function mark(level, meaning = MARKS[level][1]) {
  const [sign] = MARKS[level];
  return element('span', {class: `mark ${level}`, role: 'img',
    'aria-label': meaning, title: meaning}, sign);
}

// A bar of parts, each [class, share of the whole].
function bar(parts, label) {
  const made = drawn('svg', {
    class: 'bar', viewBox: '0 0 100 10', preserveAspectRatio: 'none',
    role: 'img', 'aria-label': label});
  let x = 0;
  for (const [kind, part] of parts) {
    const width = Math.max(0, Math.min(100 - x, 100 * part));
    made.append(drawn('rect', {
      class: kind, x, y: 0, width, height: 10}));
    x += width;
  }
  return made;
}

// What each CPU of a host is used for, with the guests that stand there.
function cpuUses(host, guests = host.guests.map(guestOf)) {
  const uses = new Map();
  for (const {cores} of host.shape.nodes) {
    for (const cpu of cores.flatMap(({cpus}) => cpus)) {
      uses.set(cpu, {kind: host.shape.dedicatedCpus.has(cpu) ? 'free'
        : host.shape.sharedCpus.has(cpu) ? 'shared' : 'kept'});
    }
  }
  guests.forEach((guest, number) => {
    let vcpu = 0;
    for (const [, cpus, vcpus, others] of guest.cells) {
      const names = numbersOf(vcpus);
      numbersOf(cpus).forEach((cpu, place) => {
        if (uses.has(cpu)) {
          Object.assign(uses.get(cpu), {
            kind: 'taken', guest, number, vcpu: names[place] ?? vcpu});
        }
        vcpu += 1;
      });
      for (const cpu of numbersOf(others)) {
        if (uses.has(cpu)) {
          Object.assign(uses.get(cpu), {kind: 'taken', guest, number});
        }
      }
    }
  });
  return uses;
}

// Which of the free CPUs are stranded is not decided; how many are is.
function markStranded(host, uses) {
  for (const node of host.shape.nodes) {
    let left = host.state.stranded_cells[node.at] ?? 0;
    const cores = node.cores.map(({cpus}) => cpus);
    const isFree = (cpu) => uses.get(cpu).kind === 'free';
    const broken = cores.filter((core) => !core.every(isFree));
    const whole = cores.filter((core) => core.every(isFree)).reverse();
    for (const cpu of [...broken, ...whole].flat()) {
      if (left && isFree(cpu)) {
        uses.get(cpu).kind = 'stranded';
        left -= 1;
      }
    }
  }
}

// Of the shared CPUs as many count as sold as their allocation ratio says.
function markFloating(host, uses) {
  let sold = Math.round(host.shape.sharedCpus.size
    * Math.min(1, share(host.floating, host.floatingLimit)));
  for (const use of uses.values()) {
    if (use.kind === 'shared' && sold) {
      use.kind = 'floating';
      sold -= 1;
    }
  }
}

// Each kind of use has a form of its own, so that it tells without colour.
const FORMS = {
  taken: (x, y, size) => `M${x} ${y}h${size}v${size}h${-size}z`,
  free: (x, y, size) => `M${x} ${y}h${size}v${size}h${-size}z`,
  stranded: (x, y, size) => `M${x} ${y}v${size}h${size}z`,
  shared: (x, y, size) =>
    `M${x} ${y + size / 4}h${size}v${size / 2}h${-size}z`,
  floating: (x, y, size) =>
    `M${x} ${y + size / 4}h${size}v${size / 2}h${-size}z`,
  kept: (x, y, size) =>
    `M${x + size / 3} ${y + size / 3}h${size / 3}v${size / 3}h${-size / 3}z`,
};

// Where the CPUs of a shape stand in its small drawing, worked out once.
function layoutOf(shape) {
  if (shape.layout) {
    return shape.layout;
  }
  const cells = shape.nodes.map((node) => {
    const cores = node.cores.map(({cpus}) => cpus);
    const threads = Math.max(1, ...cores.map((core) => core.length));
    const columns = Math.max(
      1, Math.ceil(Math.sqrt(cores.length * threads * 1.3)));
    return {cores, threads, columns,
      rows: Math.ceil(cores.length / columns) * threads};
  });
  const across = Math.max(1, cells.length > 3
    ? Math.ceil(cells.length / 2) : cells.length);
  const width = Math.max(1, ...cells.map((cell) => cell.columns));
  const height = Math.max(1, ...cells.map((cell) => cell.rows));
  const places = [];
  cells.forEach((cell, at) => {
    const left = (at % across) * (width + 1);
    const top = Math.floor(at / across) * (height + 1);
    cell.cores.forEach((core, number) => {
      core.forEach((cpu, thread) => places.push([
        cpu, left + number % cell.columns,
        top + Math.floor(number / cell.columns) * cell.threads + thread]));
    });
  });
  shape.layout = {
    places, width: across * (width + 1) - 1,
    height: Math.ceil(Math.max(1, cells.length) / across) * (height + 1) - 1};
  return shape.layout;
}

// A host in little: a square for each CPU, its NUMA cells apart. What was
// drawn once is kept.
function smallDrawing(host, size) {
  host.drawings ??= {};
  host.drawings[size] ??= drawSmall(host, size);
  return host.drawings[size].cloneNode(true);
}

function drawSmall(host, size) {
  const uses = cpuUses(host);
  markStranded(host, uses);
  markFloating(host, uses);
  const {places, width, height} = layoutOf(host.shape);
  const paths = {};
  const side = size > 3 ? size - 1 : size - 0.4;
  for (const [cpu, x, y] of places) {
    const {kind} = uses.get(cpu);
    paths[kind] = (paths[kind] ?? '') + FORMS[kind](x * size, y * size, side);
  }
  return drawn('svg', {
    class: 'small', width: width * size, height: height * size,
    viewBox: `0 0 ${width * size} ${height * size}`, 'aria-hidden': 'true',
  }, ...Object.entries(paths).map(([kind, d]) => drawn('path', {
    class: kind, d})));
}

function legend(kinds = Object.keys(FORMS)) {
  return element('ul', {class: 'legend'}, kinds.map((kind) => element('li', {},
    drawn('svg', {width: 12, height: 12, 'aria-hidden': 'true'},
      drawn('path', {class: kind, d: FORMS[kind](1, 1, 10)})),
    fleet.tiles[kind].meaning)));
}

const GUEST_COLOURS = 8;

// A host with its sockets, NUMA cells, caches, cores and threads.
//   names: the letter of a guest's number
//   told: whether a guest is told apart, in a drawing of guests that move,
//     which leaves memory and devices out; null for all guests
function largeDrawing(host, uses, names = letter, told = null) {
  const free = (kind) =>
    [...uses.values()].filter((use) => use.kind === kind).length;
  return element('div', {
    class: 'drawing', role: 'img',
    'aria-label': `${host.name}: ${shown(free('taken'))} CPUs taken, `
      + `${shown(free('free'))} free, ${shown(free('stranded'))} stranded`,
  }, host.shape.sockets.map((socket) => element('div', {class: 'socket'},
    element('b', {}, socket.name),
    socket.nodes.map((node) => drawnNode(host, node, uses, names, told)))));
}

function drawnNode(host, node, uses, names, told) {
  const [usedMib, , pages] = host.cells[node.at];
  const mib = node.memory_mib;
  const notes = told ? [] : [
    `${memory(Math.max(0, mib - usedMib))} of ${memory(mib)} free`,
    ...pages.map(([size, total, used]) => `${shown(total - used)} of `
      + `${shown(total)} pages of ${memory(size / 1024)} free`),
  ];
  return element('div', {class: 'cell'},
    element('p', {}, element('b', {}, `NUMA cell ${node.id}`)),
    notes.map((note) => element('p', {}, note)),
    told ? null : drawnDevices(host, node.id),
    element('div', {class: 'caches'}, node.caches.map(({name, cores}) =>
      element('div', {class: name ? 'cache' : 'cache unknown',
        title: name || null},
      cores.map(({cpus, where}) => element('span', {class: 'core'}, cpus.map(
        (cpu) => tile(cpu, uses.get(cpu), names, told, where))))))));
}

// The devices near a node, null for those near none: a tile for each.
function drawnDevices(host, node) {
  return host.state.devices.filter(([, at]) => at === node).map(
    ([name, , traits, total, free, stranded]) => {
      const lost = sum(stranded, ([, number]) => number);
      const text = `${shown(free)} of ${shown(total)} × ${name} free`
        + stranded.map(([cause, number]) => `; ${shown(number)} for nobody: `
          + fleet.causes[cause]).join('')
        + (traits && ` (${traits.replaceAll(',', ', ')})`);
      const kinds = [['taken', total - free], ['free', free - lost],
        ['stranded', lost]];
      return element('p', {class: 'devices'}, text, ' ',
        element('span', {class: 'core', 'aria-hidden': 'true'},
          total > MOST_TILES ? [] : kinds.flatMap(([kind, number]) =>
            Array.from({length: number}, () => element('span', {
              class: `cpu ${kind}`, title: `${name}: ${kind}`},
            element('b', {}, fleet.tiles[kind].sign))))));
    });
}

const MOST_TILES = 32;

function tile(cpu, use, names, told, where) {
  const isTold = use.kind === 'taken' && (!told || told(use.number));
  const {sign, meaning} = fleet.tiles[use.kind];
  const who = use.kind !== 'taken' ? meaning : use.guest.name
    + (use.vcpu === undefined ? ', kept from others' : `, vCPU ${use.vcpu}`);
  return element('span', {
    class: use.kind !== 'taken' ? `cpu ${use.kind}` : isTold
      ? `cpu guest g${use.number % GUEST_COLOURS}` : 'cpu taken',
    title: `CPU ${cpu}: ${who}; ${where}`,
  }, element('b', {}, isTold ? names(use.number) : sign),
  element('small', {}, String(cpu)));
}
