/**
 * `npm run bench -- dashboard`: measures how soon the dashboard shows the requested content in a real browser, with a
 * million emails stored. The page itself measures the time from the click or key press to the first frame with the
 * content. SQL fills the tables with mail of twelve weeks. Each round loads the page anew, visits the screens in turn,
 * and visits all of them again. The first visit loads the code and data of a screen. Later visits show kept data while
 * they load. Then dashboard-tasks.ts measures common tasks.
 */
import type { Page } from 'playwright-core';
import { type Browser as Member, OWNER, ownerOf } from '../test/support/browser.ts';
import { startBrowser } from '../test/support/chromium.ts';
import { buildDashboard, openPage } from '../test/support/dashboard.ts';
import { fillMail, makeWeeks } from '../test/support/fill.ts';
import { asOwner } from '../test/support/postgres.ts';
import { type Service, startService } from '../test/support/service.ts';
import { measureTasks } from './dashboard-tasks.ts';
import { median, show } from './numbers.ts';
import { alignColumns } from './report.ts';

export type DashboardOptions = { emails: number; rounds: number };

const WEEKS = 12;
const HTML_BYTES = 2_048;

/** Selectors of places in the page, each with the text that it has when the content is complete. */
type Content = { place: string; text: string }[];
type Act = (page: Page) => Promise<void>;
/** `prepare` is not measured. */
type Step = { name: string; content: Content; prepare?: Act; act: Act };

/** Screens of the navigation, each with a text that only its content has. */
const SCREENS: readonly [label: string, shown: string][] = [
  ['Overview', 'acme.com is not verified yet'],
  ['Templates', 'No templates yet'],
  ['Queue', 'The queue is empty'],
  ['Domains', 'acme.com'],
  ['API keys', 'lh_live_'],
  ['Webhooks', 'https://hooks.acme.test/'],
  ['Suppressions', '@nowhere.test'],
  ['Members', OWNER.email],
  ['Audit log', 'Created a domain'],
  ['API log', '/v1/domains'],
  ['Projects', 'LETTERHAUS_LIMIT_SENDING'],
  ['Settings', 'Second factor'],
  // Emails come last, because the searches begin there.
  ['Emails', 'Your order'],
];

/** Returns the searches, each with a text that its first result shows. */
const searches = (emails: number): [typed: string, shown: string][] => [
  ['status:bounced', `Your order ${emails - 92}`],
  ['to:jo777@customers3.test', 'jo777@customers3.test'],
  [`"your order ${emails - 100}"`, `Your order ${emails - 100}`],
  ['"your order 4711"', 'Your order 4711'],
];

const WAIT_MAX_MS = 20_000;
const FIRST_ROW = 'ul[aria-label="Emails"] li';

/** @returns the table as text */
export async function measureDashboard(
  { emails, rounds }: DashboardOptions,
  say: (line: string) => void,
): Promise<string> {
  await buildDashboard();
  await using service = await startService({ env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1' } });
  const owner = await ownerOf(service);
  const path = await fill(service, owner, { emails, say });
  await using browser = await startBrowser();
  const samples = new Map<string, { first: number[]; again: number[] }>();
  for (let round = 1; round <= rounds; round += 1) {
    say(`  round ${round} of ${rounds}`);
    await using open = await openPage(browser, service);
    await signIn(open.page, service, path);
    for (const visit of ['first', 'again'] as const) {
      for (const step of stepsOf(emails)) {
        const sample = samples.get(step.name) ?? { first: [], again: [] };
        samples.set(step.name, sample);
        sample[visit].push(await timeOf(open.page, step));
      }
    }
  }
  say('  tasks');
  await using open = await openPage(browser, service);
  await signIn(open.page, service, path);
  const tasks = await measureTasks(open.page, { service, owner, rounds: Math.max(3, rounds), say });
  const screens = alignColumns([
    ['ms to the content', 'first', 'again', 'worst'],
    ...[...samples].map(([name, { first, again }]) => [
      name,
      show(median(first)),
      show(median(again)),
      show(Math.max(...first, ...again)),
    ]),
  ]);
  return `${screens}\n\n${tasks}`;
}

/** @returns the path of the live environment's pages */
async function fill(
  service: Service,
  owner: Member,
  { emails, say }: { emails: number; say: (line: string) => void },
): Promise<string> {
  const project = String((await owner.get('/v1/session')).body.projects[0].id);
  const key = await service.liveKey();
  const make = async (path: string, body: object): Promise<string> =>
    (await service.request('POST', path, { key, body })).body.id;
  const domainId = await make('/v1/domains', { name: 'acme.com' });
  const endpointId = await make('/v1/webhooks', {
    url: 'https://hooks.acme.test/',
    events: ['email.delivered'],
  });
  const { body: current } = await service.request('GET', '/v1/api-keys/current', { key });
  const sender = { projectId: project, environment: 'live', keyId: current.id, domainId } as const;
  await asOwner(service.address(), (db) => makeWeeks(db, WEEKS));
  await fillMail(service.address(), {
    sender,
    count: emails,
    open: 0,
    weeks: WEEKS,
    endpointId,
    deadEndpointId: endpointId,
    htmlBytes: HTML_BYTES,
    anew: true,
    onProgress: (count) => say(`  ${count.toLocaleString('en-US')} emails`),
  });
  // Autovacuum leaves tables in this state when a service has been running for a while.
  await service.sql('vacuum analyze');
  return `/dashboard/${project}/live`;
}

async function signIn(page: Page, service: Service, path: string): Promise<void> {
  await page.goto(`${service.url}${path}/emails`);
  await page.getByLabel('Email').fill(OWNER.email);
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('list', { name: 'Emails' }).getByRole('link').first().waitFor();
}

function stepsOf(emails: number): Step[] {
  const screens = SCREENS.map(([label, text]) => ({
    name: label,
    content: [
      { place: 'main h1', text: label },
      { place: 'main', text },
    ],
    act: visit(label),
  }));
  const found = searches(emails).map(([typed, text]) => ({
    name: `search ${typed}`,
    content: [{ place: FIRST_ROW, text }],
    // The filters of the search before it are chips, which typing does not replace.
    prepare: visit('Emails'),
    act: search(typed),
  }));
  const content = [
    { place: 'main h1', text: 'Your order' },
    { place: 'main', text: 'Timeline' },
  ];
  return [...screens, ...found, { name: 'one email', content, act: openFirstEmail }];
}

const visit = (label: string) => (page: Page) =>
  page
    .getByRole('navigation', { name: 'Screens' })
    .getByRole('link', { name: label, exact: true })
    .click();

const search = (typed: string) => async (page: Page) => {
  await page.getByLabel('Search emails').fill(typed);
  await page.keyboard.press('Enter');
};

const openFirstEmail = (page: Page) =>
  page.getByRole('list', { name: 'Emails' }).getByRole('link').first().click();

/** @returns milliseconds from the event in the page to the first frame with the content */
async function timeOf(page: Page, step: Step): Promise<number> {
  await step.prepare?.(page);
  await page.evaluate(watchFor, { content: step.content, waitMaxMs: WAIT_MAX_MS });
  await step.act(page);
  const ms = await page.evaluate<number | null>('globalThis.shownAfterMs');
  if (ms === null) throw new Error(`${step.name}: the content did not appear at ${page.url()}`);
  return ms;
}

/** Runs in the page and starts the time at the click, or at the press of Enter. */
function watchFor({ content, waitMaxMs }: { content: Content; waitMaxMs: number }): void {
  // oxlint-disable-next-line typescript/no-explicit-any
  const { document, requestAnimationFrame, ...page } = globalThis as any;
  (globalThis as { shownAfterMs?: Promise<number | null> }).shownAfterMs = new Promise(
    (resolve) => {
      const begin = ({ type, key }: { type: string; key?: string }): void => {
        if (type === 'keydown' && key !== 'Enter') return;
        document.removeEventListener('click', begin, true);
        document.removeEventListener('keydown', begin, true);
        const startedAt = page.performance.now();
        const look = (): void => {
          const isThere = content.every(({ place, text }) =>
            document.querySelector(place)?.innerText.includes(text),
          );
          const ms = page.performance.now() - startedAt;
          if (isThere || ms > waitMaxMs) resolve(isThere ? ms : null);
          else requestAnimationFrame(look);
        };
        requestAnimationFrame(look);
      };
      document.addEventListener('click', begin, true);
      document.addEventListener('keydown', begin, true);
    },
  );
}
