// A plan of moves: the hosts before and after it, and at each move between.

class PlanView {
  constructor(root) {
    this.plan = fleet.plan;
    this.done = 0;
    const {moves, remarks, stuck, title} = this.plan;
    this.names = [...new Set(moves.flatMap(
      ({source, target}) => [source, target]))].filter(
      (name) => hostsByName.has(name));
    this.letters = new Map(this.plan.letters);
    this.told = new Map([...this.letters.keys()].map(
      (uuid, number) => [uuid, number]));
    this.now = element('p', {class: 'answer', 'aria-live': 'polite'});
    this.hosts = element('div', {class: 'planned'});
    this.slider = element('input', {
      type: 'range', min: 0, max: moves.length, value: 0,
      'aria-label': 'Moves that are done',
      input: () => this.go(this.slider.valueAsNumber)});
    this.list = element('ol', {class: 'moves'}, moves.map((move, at) =>
      element('li', {}, element('button', {type: 'button', class: 'link',
        click: () => this.go(at + 1)}, this.text(move)))));
    replace(root, element('h2', {}, title),
      remarks.map((remark) => element('p', {}, remark)),
      stuck.length ? element('ul', {}, stuck.map(([name, host, why]) =>
        element('li', {}, `${name} on ${host}: ${why}`))) : null,
      moves.length ? element('div', {class: 'steps'},
        element('button', {type: 'button', click: () => this.go(0)},
          'before'),
        element('button', {type: 'button',
          click: () => this.go(this.done - 1)}, '‹ back'),
        this.slider,
        element('button', {type: 'button',
          click: () => this.go(this.done + 1)}, 'next move ›'),
        element('button', {type: 'button',
          click: () => this.go(moves.length)}, 'after')) : null,
      moves.length ? this.now : null, this.hosts,
      moves.length ? element('h3', {}, 'The moves') : null, this.list);
    this.go(0);
  }

  text(move) {
    return `${this.letters.get(move.guest)}: ${move.name} `
      + `(${counted(move.vcpus, 'vCPU')}, ${memory(move.memory_mib)}) from `
      + `${move.source} to ${move.target}`
      + (move.kind === 'live' ? '' : `, ${move.kind}`
        + (move.cold_reason ? ` (${move.cold_reason})` : ''))
      + (move.parking ? ', out of the way for a time' : '');
  }

  go(done) {
    const {moves} = this.plan;
    this.done = Math.max(0, Math.min(moves.length, done));
    this.slider.value = this.done;
    const guests = new Map(this.names.map((name) =>
      [name, hostsByName.get(name).guests.map(guestOf)]));
    for (const move of moves.slice(0, this.done)) {
      const source = guests.get(move.source) ?? [];
      const at = source.findIndex((guest) => guest.uuid === move.guest);
      const [guest] = at < 0 ? [] : source.splice(at, 1);
      if (guest) {
        guests.get(move.target)?.push({...guest, cells: move.to});
      }
    }
    const last = moves[this.done - 1];
    this.now.textContent = !this.done ? 'Before the first move'
      : `After move ${this.done} of ${moves.length}: ${this.text(last)}`;
    replace(this.hosts, this.names.map((name) => this.host(
      hostsByName.get(name), guests.get(name), last)));
    [...this.list.children].forEach((item, at) => {
      item.classList.toggle('done', at < this.done);
      item.toggleAttribute('aria-current', at === this.done - 1);
    });
  }

  // The host with the guests that are moved told apart.
  host(host, guests, last) {
    const uses = cpuUses(host, guests);
    for (const use of uses.values()) {
      if (use.guest) {
        use.number = this.told.get(use.guest.uuid) ?? -1;
      }
    }
    const free = [...uses.values()].filter(({kind}) => kind === 'free');
    return element('div', {class: last && [last.source, last.target]
      .includes(host.name) ? 'plan-host now' : 'plan-host'},
    element('h3', {}, `${host.name} `, element('small', {},
      `${free.length} free`)),
    largeDrawing(host, uses, (number) => this.plan.letters[number][1],
      (number) => number >= 0));
  }
}
