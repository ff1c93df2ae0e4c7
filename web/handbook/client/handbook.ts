/** Makes pages do more than show text and links: search, theme, the menu of a small window, and copying code. */
import { enableSearch } from './search.ts';

const THEMES = ['system', 'light', 'dark'] as const;
const KEPT = 'letterhaus-theme';

enableSearch();
enableTheme();
enableMenu();
enableCopying();
markCurrentHeading();
followOldLinks();

function enableTheme(): void {
  const button = document.querySelector<HTMLButtonElement>('button.theme');
  const root = document.documentElement;
  const present = () => THEMES.find((theme) => theme === root.dataset['theme']) ?? 'system';
  const describe = () => {
    button?.setAttribute('aria-label', `Theme: ${present()}`);
    if (button) button.title = `Theme: ${present()}`;
  };
  describe();
  button?.addEventListener('click', () => {
    const next = THEMES[(THEMES.indexOf(present()) + 1) % THEMES.length] ?? 'system';
    localStorage.setItem(KEPT, next);
    if (next === 'system') delete root.dataset['theme'];
    else root.dataset['theme'] = next;
    describe();
  });
}

function enableMenu(): void {
  const button = document.querySelector('button.menu');
  const show = (isOpen: boolean) => {
    document.body.classList.toggle('with-menu', isOpen);
    button?.setAttribute('aria-expanded', String(isOpen));
  };
  button?.addEventListener('click', () => show(!document.body.classList.contains('with-menu')));
  document.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') show(false);
  });
  // The list of pages is long: the current one is in view.
  const nav = document.querySelector('#pages');
  const current = nav?.querySelector<HTMLElement>('[aria-current]');
  if (nav && current) nav.scrollTop = current.offsetTop - nav.clientHeight / 2;
}

/** `navigator.clipboard` exists only over HTTPS and on localhost. */
function enableCopying(): void {
  for (const block of document.querySelectorAll('.code')) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'copy';
    button.textContent = 'Copy';
    button.addEventListener('click', () => {
      void copy(block.querySelector('code')?.textContent ?? '').then((isCopied) => {
        button.textContent = isCopied ? 'Copied' : 'Press Ctrl+C';
        setTimeout(() => (button.textContent = 'Copy'), 2000);
      });
      if (navigator.clipboard === undefined) select(block.querySelector('code'));
    });
    block.append(button);
  }
}

async function copy(text: string): Promise<boolean> {
  if (navigator.clipboard === undefined) return false;
  return navigator.clipboard.writeText(text).then(
    () => true,
    () => false,
  );
}

function select(node: Node | null): void {
  if (node === null) return;
  getSelection()?.selectAllChildren(node);
}

/** Marks the heading that the reader has reached in the list "On this page". */
function markCurrentHeading(): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>('.contents a')];
  if (links.length === 0) return;
  const byId = new Map(links.map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
  const targets = [...byId.keys()].map((id) => document.querySelector(`#${CSS.escape(id)}`));
  const mark = () => {
    const passed = targets.filter((target) => target && target.getBoundingClientRect().top < 120);
    const current = byId.get(passed.at(-1)?.id ?? '') ?? links[0];
    for (const link of links) link.classList.toggle('current', link === current);
    const list = document.querySelector('.contents');
    if (list && current && list.scrollHeight > list.clientHeight)
      list.scrollTop = current.offsetTop - list.clientHeight / 2;
  };
  let isWaiting = false;
  const later = () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(() => {
      isWaiting = false;
      mark();
    });
  };
  addEventListener('scroll', later, { passive: true });
  mark();
}

/** The reference of the API was at /docs before there was a handbook: /docs#sendEmail still leads to it. */
function followOldLinks(): void {
  const { pathname, hash } = location;
  if (!/^\/docs\/?$/.test(pathname) || hash === '') return;
  if (document.querySelector(`#${CSS.escape(decodeURIComponent(hash.slice(1)))}`) === null)
    location.replace(`/docs/reference${hash}`);
}
