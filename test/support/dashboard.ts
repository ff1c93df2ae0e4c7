/** The dashboard of a service in a browser, as somebody who works with it has it open. */
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

/** Bounds what a page may take on a machine that runs other tests meanwhile. */
const PATIENCE_MS = 30_000;

/** The files that the service serves. */
export async function buildDashboard(): Promise<void> {
  await ensureDashboard(ROOT, process.execPath);
}

type Cookies = Parameters<BrowserContext['addCookies']>[0];

/** For takePage: signed in as who is signed in there. */
export function signedIn(service: Service, { cookie }: ApiBrowser): Cookies {
  const [name = '', value = ''] = (cookie ?? '').split('=', 2);
  const { hostname: domain } = new URL(service.url);
  const kept = { domain, path: '/', expires: -1, httpOnly: true, secure: false } as const;
  return [{ name, value, ...kept, sameSite: 'Strict' }];
}

export type OpenPage = AsyncDisposable & {
  page: Page;
  /** What the browser refused or reported, in its words; a test may expect some of it. */
  complaints: string[];
  /** Hosts other than the service's that the page tried to reach. */
  strangers: string[];
};

const WINDOW = { width: 1280, height: 800 };
const PHONE = { width: 320, height: 640 };

/** A page of a browser that has never been here. */
export async function openPage(
  browser: Browser,
  service: Service,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const page = await newPage(browser, options);
  return { ...watched(page, service), [Symbol.asyncDispose]: () => page.context().close() };
}

/** Their tests are over. */
const idle = new WeakMap<Browser, Page[]>();

/**
 * A page with a profile of its own: empty, or with these cookies. Unlike that of openPage it may have been that of
 * another test, and has then only the files of the dashboard: a new page takes a third of a second of CPU time.
 * What a test adds to the page itself (functions, scripts) it has to take away.
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
      // What the browser still has to say about the old content, it says before this is done. It is a file of the
      // service, because with another site the browser would change to a new process.
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
  context.setDefaultTimeout(PATIENCE_MS);
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
  // What the policy of a page blocks does not leave the browser.
  page.on('requestfailed', (request) => {
    if (!/csp/i.test(request.failure()?.errorText ?? '')) note(request.url());
  });
  return { page, complaints, strangers };
}

/**
 * Shows a screen: when the dashboard is open already as a link does, which costs half of loading it.
 * @param shown text, or more exactly what, this screen has and the one before has not
 */
export async function visit(page: Page, address: string, shown: string | Locator): Promise<void> {
  const content = typeof shown === 'string' ? page.getByText(shown) : shown;
  assert.equal(await content.count(), 0, `before ${address} there was ${String(shown)}`);
  const isOpen = await page.evaluate<boolean>(`document.querySelector('main') !== null`);
  // The router follows.
  if (isOpen) await page.evaluate(`history.pushState(null, '', ${JSON.stringify(address)})`);
  else await page.goto(address);
  await content.filter({ visible: true }).first().waitFor();
}

/** The stream by which an open page hears of what happens. */
export function isOfEvents(one: { url(): string }): boolean {
  return one.url().includes('/v1/events?');
}

/** Opens a page that shows what happens from now on: before its stream is open it would hear of nothing. */
export async function goToLive(page: Page, address: string): Promise<void> {
  await Promise.all([page.waitForResponse(isOfEvents), page.goto(address)]);
}

const THEMES = ['light', 'dark'] as const;
type Theme = (typeof THEMES)[number];

/** Whatever the theme, the page as it is now is accessible, and fits a phone. */
export async function assertGoodInAllThemes(page: Page): Promise<void> {
  for (const colorScheme of THEMES) {
    await page.emulateMedia({ colorScheme });
    await assertGood(page, `${page.url()}, ${colorScheme}`);
  }
}

/** The page as it is now is accessible, and fits a phone. It is shown in a large window then. */
export async function assertGood(page: Page, what = page.url()): Promise<void> {
  await assertAccessible(page, what);
  await page.setViewportSize(PHONE);
  await page.locator('button[aria-label="Navigation"]').waitFor();
  await assertFits(page);
  await page.setViewportSize(WINDOW);
}

/** Once what was just clicked, loaded or coloured is drawn. */
export async function assertAccessible(page: Page, what = page.url()): Promise<void> {
  await eventually(async () => assert.deepEqual(await seriousFindings(page), [], what));
}

/** What axe finds and considers serious or worse, with where. */
async function seriousFindings(page: Page): Promise<string[]> {
  if (!(await page.evaluate<boolean>(`'axe' in globalThis`))) await page.evaluate(AXE);
  const violations = await page.evaluate(async () => {
    type Violation = {
      id: string;
      impact: string;
      nodes: { target: string[]; failureSummary: string }[];
    };
    // oxlint-disable-next-line typescript/no-explicit-any
    const { axe, document } = globalThis as any;
    // The preview's frame is sandboxed: no script runs there.
    const { violations: found } = await axe.run(document, { iframes: false });
    return found as Violation[];
  });
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${id}: ${target.join(' ')}: ${failureSummary}`),
    );
}

/** Nothing is wider than the window, once the page has been laid out in it. */
export async function assertFits(page: Page): Promise<void> {
  const sizes =
    '(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth])(document.documentElement)';
  await eventually(async () => {
    const [content = 0, frame = 0] = await page.evaluate<number[]>(sizes);
    assert.ok(content <= frame, `the page is ${content} px wide in a window of ${frame} px`);
  });
}
