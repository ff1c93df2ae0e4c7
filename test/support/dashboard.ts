/** The dashboard of a service in a browser, as somebody who works with it has it open. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { ensureDashboard } from '../../bin/dashboard.js';
import type { Browser as ApiBrowser } from './browser.ts';
import type { Service } from './service.ts';

const ROOT = join(import.meta.dirname, '../..');
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Bounds what a page may take on a machine that runs other tests meanwhile. */
const PATIENCE_MS = 30_000;

/** The files that the service serves. */
export async function buildDashboard(): Promise<void> {
  await ensureDashboard(ROOT, process.execPath);
}

type StorageState = Exclude<BrowserContextOptions['storageState'], string | undefined>;

/** For openPage: signed in as who is signed in there. */
export function signedIn(service: Service, { cookie }: ApiBrowser): StorageState {
  const [name = '', value = ''] = (cookie ?? '').split('=', 2);
  const { hostname: domain } = new URL(service.url);
  const kept = { domain, path: '/', expires: -1, httpOnly: true, secure: false } as const;
  return { cookies: [{ name, value, ...kept, sameSite: 'Strict' }], origins: [] };
}

export type OpenPage = AsyncDisposable & {
  page: Page;
  /** What the browser refused or reported, in its words; a test may expect some of it. */
  complaints: string[];
  /** Hosts other than the service's that the page tried to reach. */
  strangers: string[];
};

/** A page with a profile of its own: empty, or signed in by the `storageState` of one that is. */
export async function openPage(
  browser: Browser,
  service: Service,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const context = await browser.newContext({
    locale: 'en-US',
    viewport: { width: 1280, height: 800 },
    ...options,
  });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
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
  return {
    page,
    complaints,
    strangers,
    [Symbol.asyncDispose]: () => context.close(),
  };
}

/** What axe finds and considers serious or worse, with where. */
export async function seriousFindings(page: Page): Promise<string[]> {
  await page.evaluate(AXE);
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

/** Nothing is wider than the window. */
export async function assertFits(page: Page): Promise<void> {
  const root = 'document.documentElement';
  const content = await page.evaluate<number>(`${root}.scrollWidth`);
  const frame = await page.evaluate<number>(`${root}.clientWidth`);
  assert.ok(content <= frame, `the page is ${content} px wide in a window of ${frame} px`);
}
