// Puts the parts together: tabs, the scope, the theme.

const TABS = {
  overview: 'Overview', hosts: 'Hosts', fit: 'Will it fit?',
  ...(fleet.plan ? {plan: 'Plan of moves'} : {}),
};

class HostsView {
  constructor(root) {
    this.text = '';
    this.order = 'name';
    this.filter = '';
    this.grid = new HostGrid(openHost);
    this.found = element('p', {class: 'dim', 'aria-live': 'polite'});
    const first = (choices) => Object.fromEntries(
      Object.entries(choices).map(([key, [text]]) => [key, text]));
    const again = (key) => (value) => {
      this[key] = value;
      this.show();
    };
    this.filters = select(first(FILTERS), '', again('filter'));
    replace(root, element('h2', {}, 'Hosts'),
      element('form', {submit: (event) => event.preventDefault()},
        labelled('search', element('input', {type: 'search',
          placeholder: 'host, guest or flavor',
          input: (event) => again('text')(event.target.value)})),
        labelled('show', this.filters),
        labelled('order', select(first(ORDERS), 'name', again('order'))),
        labelled('size', select({'=0': 'as fits', '=2': 'tiny', '=3': 'small',
          '=5': 'medium', '=8': 'large'}, '=0', (value) => {
          this.grid.size = Number(value.slice(1));
          this.show();
        })),
        labelled('alike as one', element('input', {type: 'checkbox',
          checked: this.grid.isGrouped, change: (event) => {
            this.grid.isGrouped = event.target.checked;
            this.show();
          }}))),
      this.found, legend(usedKinds()), this.grid.element, this.grid.end);
    // Ready before anybody has typed a word.
    setTimeout(() => hosts.forEach(wordsOf), 500);
  }

  // filter: a key of FILTERS
  show(scope = this.scope, filter = null) {
    this.scope = scope;
    if (filter in FILTERS) {
      this.filter = this.filters.value = filter;
    }
    const members = sorted(matching(scope.hosts, this.text).filter(
      FILTERS[this.filter][1]), this.order);
    this.grid.show(members);
    this.found.textContent = members.length === scope.hosts.length
      ? counted(members.length, 'host')
      : `${shown(members.length)} of ${counted(scope.hosts.length, 'host')}`;
    if (this.grid.groups < members.length) {
      this.found.textContent += `, ${shown(this.grid.groups)} that differ`;
    }
  }
}

function usedKinds() {
  const all = totalsOf(hosts);
  return Object.keys(FORMS).filter((kind) => kind === 'kept'
    || (['shared', 'floating'].includes(kind) ? all.floatingLimit
      : all.dedicated));
}

const views = {
  overview: {show: (scope) => drawOverview(
    document.getElementById('part-overview'), scope, chooseScope)},
};
const makers = {hosts: HostsView, fit: FitView, plan: PlanView};
const scopeSelect = document.getElementById('scope');
let shownTab = '';

// Views are made when they are first looked at.
function showTab() {
  const [wanted, part] = location.hash.slice(1).split('/');
  const tab = wanted in TABS ? wanted : shownTab || 'overview';
  views[tab] ??= new makers[tab](
    document.getElementById(`part-${tab}`));
  views[tab].show?.(scopes.get(scopeSelect.value), part);
  for (const name of Object.keys(TABS)) {
    document.getElementById(`part-${name}`).hidden = name !== tab;
    const link = document.getElementById(`tab-${name}`);
    if (name === tab) {
      link.setAttribute('aria-current', 'page');
    } else {
      link.removeAttribute('aria-current');
    }
  }
  shownTab = tab;
  document.getElementById(`${tab}/${part}`)?.scrollIntoView();
}

function chooseScope(key) {
  scopeSelect.value = key;
  showTab();
  scrollTo(0, 0);
}

document.title = `${fleet.title} – nova-pinning`;
document.getElementById('title').textContent = fleet.title;
function tellAge() {
  const [level, age] = ageOf(fleet.taken_at);
  replace(document.getElementById('subtitle'), mark(level), element('span', {},
    fleet.taken_at && `taken ${fleet.taken_at}, `, age));
}
tellAge();
setInterval(tellAge, 60000);
document.getElementById('source').textContent = [
  fleet.source, fleet.made_by].filter(Boolean).join(' · ');
replace(scopeSelect, [...scopes].map(([key, {text, hosts: members}]) =>
  element('option', {value: key}, `${text} (${shown(members.length)})`)));
scopeSelect.addEventListener('change', showTab);
replace(document.getElementById('tabs'), Object.entries(TABS).map(
  ([name, text]) => element('a', {href: `#${name}`, id: `tab-${name}`},
    text)));
const theme = document.getElementById('theme');
theme.addEventListener('change', () => {
  document.documentElement.className = theme.value;
});
addEventListener('hashchange', showTab);
showTab();
// For tests, which compare the page's answers with the engine's.
globalThis.fleetPage = {hosts, flavorAnswer, sizeAnswer, reason, openHost,
  ageOf};
