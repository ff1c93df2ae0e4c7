/**
 * The search: a dialog that finds passages of all pages. The index is a file of this service, loaded when the dialog
 * opens first, so nothing leaves the machine and it works offline.
 */
import MiniSearch, { type SearchResult } from 'minisearch';
import { type Entry, INDEX_OPTIONS } from './index-options.ts';

const RESULTS_MAX = 30;
/** Passages of one page, so that a long page does not hide the others. */
const RESULTS_PER_PAGE = 3;
const EXCERPT_CHARACTERS = 140;

type Found = SearchResult & Entry;

export function enableSearch(): void {
  const button = document.querySelector<HTMLButtonElement>('button.search');
  const url = document.documentElement.dataset['index'];
  if (!button || url === undefined) return;
  const dialog = new SearchDialog(url);
  button.addEventListener('click', () => dialog.open());
  document.addEventListener('keydown', (event) => {
    const isTyping =
      event.target instanceof HTMLElement && event.target.closest('input, textarea, select');
    const isKey =
      event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyping;
    if (!isKey && !(event.key === 'k' && (event.ctrlKey || event.metaKey))) return;
    event.preventDefault();
    dialog.open();
  });
}

class SearchDialog {
  readonly #url: string;
  readonly #dialog = document.createElement('dialog');
  readonly #input = document.createElement('input');
  readonly #list = document.createElement('div');
  readonly #status = document.createElement('p');
  #index: Promise<MiniSearch<Entry>> | null = null;
  #marked = 0;

  constructor(url: string) {
    this.#url = url;
    this.#dialog.className = 'search';
    this.#dialog.setAttribute('aria-label', 'Search');
    this.#input.type = 'search';
    this.#input.placeholder = 'Search the handbook';
    this.#status.setAttribute('role', 'status');
    for (const [name, value] of Object.entries({
      role: 'combobox',
      'aria-label': 'Search the handbook',
      'aria-controls': 'found',
      'aria-expanded': 'true',
      'aria-autocomplete': 'list',
      autocomplete: 'off',
      spellcheck: 'false',
    }))
      this.#input.setAttribute(name, value);
    this.#list.id = 'found';
    this.#list.className = 'found';
    this.#list.setAttribute('role', 'listbox');
    this.#list.setAttribute('aria-label', 'Passages');
    this.#dialog.append(this.#input, this.#status, this.#list);
    document.body.append(this.#dialog);
    this.#listen();
  }

  open(): void {
    if (this.#dialog.open) return;
    this.#dialog.showModal();
    this.#input.select();
    void this.#search();
  }

  #listen(): void {
    this.#input.addEventListener('input', () => void this.#search());
    this.#input.addEventListener('keydown', (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const { length } = this.#items();
      // A browser would only clear the field.
      if (event.key === 'Escape') this.#dialog.close();
      if (event.key === 'Enter') this.#items()[this.#marked]?.click();
      if (step === undefined || length === 0) return;
      event.preventDefault();
      this.#mark((this.#marked + step + length) % length);
    });
    this.#dialog.addEventListener('click', ({ target }) => {
      const isLink = target instanceof Element && target.closest('a') !== null;
      if (target === this.#dialog || isLink) this.#dialog.close();
    });
  }

  #items(): HTMLAnchorElement[] {
    return [...this.#list.querySelectorAll('a')];
  }

  async #search(): Promise<void> {
    const text = this.#input.value.trim();
    this.#index ??= loadIndex(this.#url);
    const index = await this.#index.catch(() => null);
    if (text !== this.#input.value.trim()) return; // more was typed meanwhile
    if (index === null) {
      this.#index = null; // the next letter tries again
      this.#show([], 'The index could not be loaded.');
    } else if (text === '') this.#show([], '');
    else {
      const found = find(index, text);
      this.#show(found, found.length === 0 ? `Nothing found for “${text}”.` : '');
    }
  }

  #show(found: readonly Found[], status: string): void {
    this.#status.textContent = status;
    this.#list.replaceChildren(...found.map(itemOf));
    this.#mark(0);
  }

  #mark(place: number): void {
    this.#marked = place;
    for (const [index, item] of this.#items().entries()) {
      item.setAttribute('aria-selected', String(index === place));
      if (index === place && place > 0) item.scrollIntoView({ block: 'nearest' });
    }
    const id = this.#items()[place]?.id;
    if (id === undefined) this.#input.removeAttribute('aria-activedescendant');
    else this.#input.setAttribute('aria-activedescendant', id);
  }
}

async function loadIndex(url: string): Promise<MiniSearch<Entry>> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`status ${response.status}`);
  return MiniSearch.loadJSON<Entry>(await response.text(), INDEX_OPTIONS);
}

/** Passages with all words come first; if there are none, those with some. */
function find(index: MiniSearch<Entry>, text: string): Found[] {
  const options = {
    prefix: true,
    fuzzy: (term: string) => (term.length > 4 ? 0.2 : false),
    boost: { page: 4, heading: 3 },
    boostDocument: (_id: unknown, _term: string, stored?: Record<string, unknown>) =>
      /^\/docs\/(decisions|rfcs|architecture|contributing|tests)/.test(String(stored?.['url']))
        ? 0.4
        : 1,
  };
  const withAll = index.search(text, { ...options, combineWith: 'AND' });
  const found = withAll.length > 0 ? withAll : index.search(text, options);
  return withoutCrowds(found as Found[]).slice(0, RESULTS_MAX);
}

function withoutCrowds(found: readonly Found[]): Found[] {
  const counts = new Map<string, number>();
  return found.filter(({ page }) => {
    const count = (counts.get(page) ?? 0) + 1;
    counts.set(page, count);
    return count <= RESULTS_PER_PAGE;
  });
}

function itemOf(found: Found, index: number): HTMLAnchorElement {
  const link = document.createElement('a');
  link.id = `found-${index}`;
  link.href = found.url;
  link.tabIndex = -1;
  link.setAttribute('role', 'option');
  const place = document.createElement('small');
  place.textContent = found.page;
  const title = document.createElement('b');
  title.append(...withMarks(found.heading || found.page, found.terms));
  const excerpt = document.createElement('span');
  excerpt.append(...withMarks(excerptOf(found), found.terms));
  link.append(...(found.heading === '' ? [] : [place]), title, excerpt);
  return link;
}

/** Returns the text around the first word that was found. */
function excerptOf({ text, terms }: Found): string {
  const lower = text.toLowerCase();
  const places = terms.map((term) => lower.indexOf(term)).filter((place) => place >= 0);
  const first = Math.min(...places, text.length);
  const start = first < 60 || first === text.length ? 0 : text.indexOf(' ', first - 50) + 1;
  const cut = text.slice(start, start + EXCERPT_CHARACTERS);
  const isCut = start + EXCERPT_CHARACTERS < text.length;
  return `${start > 0 ? '… ' : ''}${isCut ? `${cut.slice(0, cut.lastIndexOf(' '))} …` : cut}`;
}

function withMarks(text: string, terms: readonly string[]): (string | HTMLElement)[] {
  const pattern = terms.map((term) => term.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')).join('|');
  if (pattern === '') return [text];
  return text.split(new RegExp(`(${pattern})`, 'gi')).map((part, index) => {
    if (index % 2 === 0) return part;
    const mark = document.createElement('mark');
    mark.textContent = part;
    return mark;
  });
}
