// Many hosts in little, of which a click opens one. Only so many are drawn as
// have been scrolled to, and hosts that are alike can stand for each other.

const MOST_APART = 2500;
const AT_ONCE = 250;

class HostGrid {
  // open: told the host that is chosen; mark: what to say of a host, as
  // {lit, text}, null for nothing
  constructor(open) {
    this.open = open;
    this.mark = null;
    // Of a CPU in pixels; 0 for what suits the number of drawings.
    this.size = 0;
    this.sizes = [3, 5, 8];
    this.isGrouped = hosts.length > MOST_APART;
    this.buttons = new Map();
    this.shown = new WeakMap();
    this.element = element('div', {
      class: 'grid', role: 'group', 'aria-label': 'Hosts',
      keydown: (event) => this.onKey(event),
      click: (event) => {
        const group = this.shown.get(event.target.closest('button'));
        if (group) {
          this.open(group[0], group);
        }
      }});
    this.end = element('div', {class: 'end'});
    this.watch = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) {
        this.more();
      }
    }, {rootMargin: '600px'});
    this.watch.observe(this.end);
    addEventListener('beforeprint', () => this.more(this.waiting.length));
  }

  show(members) {
    let groups = members.map((host) => [host]);
    if (this.isGrouped) {
      groups = [...grouped(
        members, (host) => groupKey(host, this.mark)).values()];
    }
    this.waiting = groups;
    this.groups = groups.length;
    this.drawnSize = this.size || this.sizes[
      groups.length > 300 ? 0 : groups.length > 60 ? 1 : 2];
    this.element.replaceChildren();
    this.more();
    this.element.firstElementChild?.setAttribute('tabindex', '0');
  }

  more(number = AT_ONCE) {
    const next = this.waiting.splice(0, number);
    this.element.append(...next.map((group) => this.button(group)));
    this.end.textContent = this.waiting.length
      ? `${counted(this.waiting.length, 'more host')} further down` : '';
    if (next.length) {
      // It may still be in sight, of which no observer would tell again.
      this.watch.unobserve(this.end);
      this.watch.observe(this.end);
    }
  }

  // The button of a host, which is kept, as it has to look now.
  button(group) {
    const [host] = group;
    const size = this.drawnSize;
    const key = `${host.index} ${size}`;
    let made = this.buttons.get(key);
    if (!made) {
      made = element('button', {type: 'button'}, smallDrawing(
        host, size), size >= 5 ? element('span', {}, host.name) : null);
      this.buttons.set(key, made);
    }
    this.shown.set(made, group);
    const marked = this.mark?.(host) ?? null;
    const about = describe(host, group.length)
      + (marked ? `; ${marked.text}` : '');
    fill(made, {tabindex: '-1', title: about, 'aria-label': about,
      class: ['host', host.disabled === null ? '' : 'off',
        isOdd(host) ? 'odd' : '',
        marked === null ? '' : marked.lit ? 'lit' : 'unlit'].join(' ')});
    made.querySelector('i')?.remove();
    const badge = [marked?.short, group.length > 1
      && `×${shown(group.length)}`].filter(Boolean).join(' ');
    if (badge) {
      made.append(element('i', {}, badge));
    }
    return made;
  }

  onKey(event) {
    const buttons = [...this.element.children];
    const at = buttons.indexOf(document.activeElement);
    const columns = buttons.findIndex((button, number) => number
      && button.offsetTop !== buttons[0].offsetTop);
    const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns,
      ArrowUp: -columns, Home: -at, End: buttons.length - 1 - at}[event.key];
    const target = step === undefined ? undefined : buttons[at + step];
    if (at >= 0 && target) {
      event.preventDefault();
      buttons[at].setAttribute('tabindex', '-1');
      target.setAttribute('tabindex', '0');
      target.focus();
    }
  }
}

// Hosts that look alike: of one shape and class, with as much free in their
// cells, whichever cells these are.
function groupKey(host, mark) {
  host.look ??= lookOf(host);
  const marked = mark?.(host);
  return marked ? `${host.look} ${marked.lit} ${marked.text}` : host.look;
}

function lookOf(host) {
  const free = new Map();
  for (const {kind, cell} of cpuUses(host).values()) {
    if (kind === 'free') {
      free.set(cell, (free.get(cell) ?? 0) + 1);
    }
  }
  return JSON.stringify([
    fleet.shapes.indexOf(host.shape), host.class, host.disabled !== null,
    isOdd(host), host.down.length > 0, Boolean(host.gaps),
    [...free.values()].sort(), host.stranded,
    host.dedicated ? 0 : Math.round(20 * soldShare(host))]);
}

function describe(host, alike = 1) {
  const parts = [alike > 1 ? `${host.name} and ${alike - 1} like it`
    : host.name];
  if (host.dedicated) {
    parts.push(`${host.taken} of ${host.dedicated} CPUs taken, `
      + `${host.state.free} free`
      + (host.stranded ? `, ${host.stranded} of them stranded` : ''));
  }
  if (host.floatingLimit) {
    parts.push(`${host.floating} of ${host.floatingLimit} floating vCPUs `
      + 'sold');
  }
  if (host.down.length) {
    parts.push(`${counted(host.down.length, 'guest')} that no other host has `
      + 'room for');
  }
  if (host.disabled !== null) {
    parts.push(`disabled: ${host.disabled}`);
  }
  if (host.findings.length) {
    parts.push(counted(host.findings.length, 'finding'));
  }
  return parts.join('; ');
}

const ORDERS = {
  name: ['name', null],
  free: ['most free CPUs', (host) => -host.state.free],
  stranded: ['most stranded CPUs', (host) => -host.stranded],
  sold: ['fullest', (host) => -soldShare(host)],
  guests: ['most guests', (host) => -host.guests.length],
};

function sorted(members, order) {
  const [, value] = ORDERS[order];
  return value === null ? members : [...members].sort(
    (one, other) => value(one) - value(other) || one.index - other.index);
}

const FILTERS = {
  '': ['all', () => true],
  free: ['with free CPUs', (host) => host.state.free > 0],
  stranded: ['with stranded CPUs', (host) => host.stranded > 0],
  empty: ['without guests', (host) => !host.guests.length],
  full: ['without a free CPU', (host) => !host.state.free],
  disabled: ['disabled', (host) => host.disabled !== null],
  lost: ['with guests that no other host has room for',
    (host) => host.down.length > 0],
  unknown: ['of which not all is known', (host) => Boolean(host.gaps)],
  findings: ['with findings', (host) => host.findings.length > 0],
};

// What a host is found by: its name and those of its guests and flavors.
function wordsOf(host) {
  host.words ??= [host.name, host.zone, ...host.aggregates,
    ...host.guests.map((guest) =>
      `${guest[0]} ${fleet.guest_flavors[guest[1]]} ${guest[6]}`),
  ].join('\n').toLowerCase();
  return host.words;
}

function matching(members, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) {
    return members;
  }
  return members.filter((host) => wordsOf(host).includes(wanted));
}

function select(choices, chosen, changed, attributes = {}) {
  const made = element('select', {
    ...attributes, change: () => changed(made.value)},
  Object.entries(choices).map(([value, text]) => element(
    'option', {value, selected: value === chosen}, text)));
  return made;
}

const labelled = (text, ...controls) =>
  element('label', {}, element('span', {}, text), ...controls);
