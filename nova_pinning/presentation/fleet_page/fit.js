// Will it fit? Hosts on which a guest fits light up, the rest say why not.

class FitView {
  constructor(root) {
    this.only = null;
    this.flavor = fleet.flavors.length ? '0' : 'any';
    this.size = {policy: Math.min(1, fleet.policies.length - 1), vcpus: 8,
      gib: 32};
    this.grid = new HostGrid(openHost);
    this.answer = element('div', {'aria-live': 'polite'});
    this.form = element('form', {submit: (event) => event.preventDefault()});
    replace(root, element('h2', {}, 'Will it fit?'), this.form, this.answer,
      this.grid.element, this.grid.end,
      element('details', {class: 'dim'},
        element('summary', {}, 'What is exact here'),
        element('p', {}, 'All answers are the engine’s, as nova-pinning '
          + 'explain gives them for this snapshot; the page only looks them '
          + 'up. For a flavor: whether it fits on a host, how many more do '
          + 'one after another, and the reason. For a size: whether it fits, '
          + `for whole numbers up to ${shown(1024)} vCPUs and `
          + `${shown(32768)} GiB; the reason is that of the smallest guest `
          + 'of its kind that is refused there and is no larger than it. '
          + 'Availability zones, projects and isolated aggregates of a '
          + 'request are not asked for; choose a zone or an aggregate above '
          + 'instead.')));
    this.drawForm();
  }

  drawForm() {
    const choices = Object.fromEntries([
      ...fleet.flavors.map((flavor, at) => [at, flavor.name]),
      ...(fleet.policies.length ? [['any', 'a size of my own …']] : [])]
      .map(([value, text]) => [`=${value}`, text]));
    const number = (key, most, step) => element('input', {
      type: 'number', min: step, max: most, step, value: this.size[key],
      required: true, input: (event) => {
        this.size[key] = event.target.valueAsNumber;
        this.show();
      }});
    const policy = fleet.policies[this.size.policy];
    replace(this.form,
      labelled('flavor', select(choices, `=${this.flavor}`, (value) => {
        this.flavor = value.slice(1);
        this.only = null;
        this.drawForm();
        this.show();
        this.form.querySelector('select').focus();
      })),
      ...(this.flavor !== 'any' ? [] : [
        labelled('vCPUs', number('vcpus', 1024, policy.vcpu_step)),
        labelled('memory in GiB', number('gib', 32768, policy.gib_step)),
        labelled('kind', select(Object.fromEntries(fleet.policies.map(
          ({text}, at) => [`=${at}`, text])), `=${this.size.policy}`,
        (value) => {
          this.size.policy = Number(value.slice(1));
          this.only = null;
          this.drawForm();
          this.show();
        }))]));
  }

  question() {
    if (this.flavor !== 'any') {
      return flavorAnswer(Number(this.flavor));
    }
    const {policy, vcpus, gib} = this.size;
    const {vcpu_step: vcpuStep, gib_step: gibStep} = fleet.policies[policy];
    const isGood = Number.isInteger(vcpus / vcpuStep) && vcpus > 0
      && Number.isInteger(gib / gibStep) && gib > 0
      && vcpus <= 1024 && gib <= 32768;
    return isGood ? sizeAnswer(policy, vcpus, gib) : null;
  }

  show(scope = this.scope) {
    this.scope = scope;
    const answered = this.question();
    if (!answered) {
      const {vcpu_step: vcpus, gib_step: gib} =
        fleet.policies[this.size.policy];
      replace(this.answer, element('p', {class: 'answer'},
        'Give whole numbers from 1 up'
        + (vcpus > 1 ? `, the vCPUs a multiple of ${vcpus}` : '')
        + (gib > 1 ? `, the GiB a multiple of ${gib}` : '') + '.'));
      this.grid.mark = null;
      this.grid.show([]);
      return;
    }
    const answers = new Map(
      scope.hosts.map((host) => [host, answered(host)]));
    const lit = scope.hosts.filter((host) => answers.get(host).fits);
    const unlit = scope.hosts.filter((host) => !answers.get(host).fits);
    const groups = grouped(unlit, (host) => answers.get(host).why);
    this.say(lit, answers, [...groups.values()].sort(
      (one, other) => other.length - one.length));
    this.grid.mark = (host) => {
      const {fits, count, why, least, isBound} = answers.get(host);
      if (fits && isBound) {
        return {lit: true, short: `?${count ?? ''}`,
          text: 'may fit, which is not known for certain'};
      }
      return fits
        ? {lit: true, text: count === null ? 'fits' : `${count} fit`,
          short: count === null ? '✓' : `✓${count}`}
        : {lit: false, text: (least
          ? `not even ${counted(least[0], 'vCPU')} with ${least[1]} GiB: `
          : 'does not fit: ') + `it ${reason(why, 1)}`};
    };
    const only = this.only === null ? null : answers.get(this.only)?.why;
    this.grid.show(this.only === null
      ? [...lit, ...unlit]
      : scope.hosts.filter((host) => answers.get(host).why === only));
  }

  say(lit, answers, groups) {
    const guests = sum(lit, (host) => answers.get(host).count ?? 0);
    const unsure = lit.filter((host) => answers.get(host).isBound).length;
    const isFlavor = this.flavor !== 'any';
    replace(this.answer,
      element('p', {class: 'answer'}, lit.length ? [
        element('strong', {}, counted(lit.length, 'host')),
        ` of ${shown(this.scope.hosts.length)} `
        + `${lit.length === 1 ? 'has' : 'have'} room`,
        isFlavor ? `, for ${unsure ? 'at most ' : ''}`
          + `${counted(guests, 'guest')} in all.` : '.']
        : [element('strong', {}, 'It fits nowhere'),
          ` on ${counted(this.scope.hosts.length, 'host')}.`]),
      unsure ? element('p', {}, `Too little is known of ${shown(unsure)} of `
        + 'these hosts to be certain.') : null,
      element('ul', {class: 'reasons'}, groups.map((members) => {
        const {why} = answers.get(members[0]);
        const isChosen = this.only !== null
          && answers.get(this.only)?.why === why;
        return element('li', {}, element('button', {
          type: 'button', class: 'link', 'aria-pressed': String(isChosen),
          click: () => {
            this.only = isChosen ? null : members[0];
            this.show();
          }}, `${shown(members.length)} ${reason(why, members.length)}`));
      })),
      this.only === null ? null : element('p', {class: 'dim'},
        'Only these are shown.'));
  }
}
