/** The dashboard of a service, open in a browser. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type {
  Browser,
  BrowserContext,
  BrowserContextOptions,
  Locator,
  Page,
} from 'playwright-core';
import { ensureDashboard } from '../../bin/dashboard.js';
import type { Browser as ApiBrowser } from './browser.ts';
import type { Service } from './service.ts';
import { eventually } from './wait.ts';

const ROOT = join(import.meta.dirname, '../..');
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Milliseconds that a page may take on a machine that runs other tests. */
const PAGE_TIMEOUT_MS = 30_000;

/** Builds the files that the service serves. */
export async function buildDashboard(): Promise<void> {
  await ensureDashboard(ROOT, process.execPath, { hasTools: true });
}

type Cookies = Parameters<BrowserContext['addCookies']>[0];

/** Returns the cookies for takePage, with the session of an API browser. */
export function signedIn(service: Service, { cookie }: ApiBrowser): Cookies {
  const [name = '', value = ''] = (cookie ?? '').split('=', 2);
  const { hostname: domain } = new URL(service.url);
  const kept = { domain, path: '/', expires: -1, httpOnly: true, secure: false } as const;
  return [{ name, value, ...kept, sameSite: 'Strict' }];
}

export type OpenPage = AsyncDisposable & {
  page: Page;
  /** Refusals and reports of the browser, in its words. A test may expect some. */
  complaints: string[];
  /** Hosts other than the service's that the page tried to reach. */
  strangers: string[];
};

const WINDOW = { width: 1280, height: 800 };
const PHONE = { width: 320, height: 640 };

export async function openPage(
  browser: Browser,
  service: Service,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const page = await newPage(browser, options);
  return { ...watched(page, service), [Symbol.asyncDispose]: () => page.context().close() };
}

const idle = new WeakMap<Browser, Page[]>();

/**
 * Returns a page with its own profile: empty, or with these cookies. It may have served another test and then still
 * has the files of the dashboard cached, because a new page takes a third of a second of CPU time. A test must
 * remove the functions and scripts that it adds to the page.
 */
export async function takePage(
  browser: Browser,
  service: Service,
  { cookies = [], colorScheme = 'light' }: { cookies?: Cookies; colorScheme?: Theme | null } = {},
): Promise<OpenPage> {
  const free = idle.get(browser) ?? [];
  idle.set(browser, free);
  const page = free.pop() ?? (await newPage(browser));
  await page.emulateMedia({ colorScheme });
  await page.context().addCookies(cookies);
  return {
    ...watched(page, service),
    async [Symbol.asyncDispose]() {
      // The browser reports about the old content before this completes. It loads a file of the service, because
      // another site would start a new process.
      await page.goto(`${service.url}/dashboard/icon.svg`);
      page.removeAllListeners();
      await page.evaluate('localStorage.clear()');
      await page.context().clearCookies();
      await page.setViewportSize(WINDOW);
      free.push(page);
    },
  };
}

async function newPage(browser: Browser, options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ locale: 'en-US', viewport: WINDOW, ...options });
  context.setDefaultTimeout(PAGE_TIMEOUT_MS);
  return context.newPage();
}

function watched(page: Page, service: Service): Omit<OpenPage, keyof AsyncDisposable> {
  const complaints: string[] = [];
  const strangers: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  const note = (url: string) => {
    if (!url.startsWith(service.url)) strangers.push(url);
  };
  page.on('requestfinished', (request) => note(request.url()));
  // Requests that the policy of a page blocks do not leave the browser.
  page.on('requestfailed', (request) => {
    if (!/csp/i.test(request.failure()?.errorText ?? '')) note(request.url());
  });
  return { page, complaints, strangers };
}

/**
 * Shows a screen. If the dashboard is open it is navigated by its router, which costs half of loading it.
 * @param shown text, or a locator, that this screen has and the previous one has not
 */
export async function visit(page: Page, address: string, shown: string | Locator): Promise<void> {
  const content = typeof shown === 'string' ? page.getByText(shown) : shown;
  assert.equal(await content.count(), 0, `before ${address} there was ${String(shown)}`);
  const isOpen = await page.evaluate<boolean>(`document.querySelector('main') !== null`);
  // The router follows this.
  if (isOpen) await page.evaluate(`history.pushState(null, '', ${JSON.stringify(address)})`);
  else await page.goto(address);
  await content.filter({ visible: true }).first().waitFor();
}

/** Clicks a button that copies, and waits until it says so, which it does for a second only. */
export async function copyBy(button: Locator): Promise<void> {
  const copied = button.page().getByRole('button', { name: 'Copied' });
  // On a busy machine the word would be gone before a wait that begins after the click.
  await Promise.all([copied.waitFor(), button.click()]);
}

/** Chooses an action behind "…" of a row. */
export async function chooseForRow(page: Page, row: string, action: string): Promise<void> {
  await page.getByRole('button', { name: `More actions for ${row}` }).click();
  await page.getByRole('menuitem', { name: action }).click();
}

/** Returns the editor of a template, once it has replaced the plain field that the page begins with. */
export async function sourceEditor(page: Page, label = 'HTML, in Liquid'): Promise<Locator> {
  const editor = page.getByRole('textbox', { name: label }).and(page.locator('[contenteditable]'));
  await editor.waitFor();
  return editor;
}

/**
 * Replaces the text of the editor of a template, by its keys. `fill` selects only the lines that the editor has
 * rendered, which are those around the visible ones: on a slow machine it leaves the rest of a long text.
 */
export async function writeSource(editor: Locator, text: string): Promise<void> {
  await editor.press('ControlOrMeta+a');
  await editor.press('Backspace');
  await editor.page().keyboard.insertText(text);
}

/** Returns whether the URL is the event stream of an open page. */
export function isOfEvents(one: { url(): string }): boolean {
  return one.url().includes('/v1/events?');
}

/** Opens a page and waits for its event stream. Without it the page would miss later events. */
export async function goToLive(page: Page, address: string): Promise<void> {
  await Promise.all([page.waitForResponse(isOfEvents), page.goto(address)]);
}

const THEMES = ['light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

/** Asserts that the page, in its current state, is accessible in every theme and fits a phone. */
export async function assertGoodInAllThemes(page: Page): Promise<void> {
  for (const colorScheme of THEMES) {
    await page.emulateMedia({ colorScheme });
    await assertGood(page, `${page.url()}, ${colorScheme}`);
  }
}

/** Asserts that the page, in its current state, is accessible and fits a phone. Leaves a large window. */
export async function assertGood(page: Page, what = page.url()): Promise<void> {
  await assertAccessible(page, what);
  await page.setViewportSize(PHONE);
  await page.locator('button[aria-label="Navigation"]').waitFor();
  await assertFits(page);
  await page.setViewportSize(WINDOW);
}

/** Asserts that the page is accessible, once clicks, loads and transitions are drawn. */
export async function assertAccessible(page: Page, what = page.url()): Promise<void> {
  const impacts = ['serious', 'critical'];
  await eventually(async () => assert.deepEqual(await findingsOf(page, impacts), [], what));
}

/** The rules of axe whose result depends on colors. */
export const OF_COLORS = ['color-contrast', 'link-in-text-block'] as const;
type Rules = readonly string[] | null;

/**
 * Asserts that axe finds nothing at all, also of what it only advises.
 * @param rules those of axe to check; null: all
 */
export async function assertFlawless(page: Page, what: string, rules: Rules = null): Promise<void> {
  const impacts = ['minor', 'moderate', 'serious', 'critical'];
  await eventually(async () => assert.deepEqual(await findingsOf(page, impacts, rules), [], what));
}

/** Returns axe's findings with these impacts, with their places. */
async function findingsOf(
  page: Page,
  impacts: readonly string[],
  rules: Rules = null,
): Promise<string[]> {
  if (!(await page.evaluate<boolean>(`'axe' in globalThis`))) await page.evaluate(AXE);
  const violations = await page.evaluate(async (runOnly) => {
    type Violation = {
      id: string;
      impact: string;
      nodes: { target: string[]; failureSummary: string }[];
    };
    // oxlint-disable-next-line typescript/no-explicit-any
    const { axe, document } = globalThis as any;
    const { violations: found } = await axe.run(document, {
      // Scripts cannot run in the sandboxed frame of the preview.
      iframes: false,
      // Describing what passed takes a quarter of the time.
      resultTypes: ['violations'],
      ...(runOnly && { runOnly }),
    });
    return found as Violation[];
  }, rules);
  return violations
    .filter(({ impact }) => impacts.includes(impact))
    .flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
    );
}

export async function assertFits(page: Page): Promise<void> {
  const sizes =
    '(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])(document.documentElement)';
  await eventually(async () => {
    const [content = 0, frame = 0] = await page.evaluate<number[]>(sizes);
    assert.ok(content <= frame, `the page is ${content} px wide in a window of ${frame} px`);
  });
}
