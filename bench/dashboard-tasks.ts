/**
 * The second table of `npm run bench -- dashboard`: how many clicks and keys, and how long, common tasks take in a real
 * browser among the stored emails. The page counts the clicks and keys itself. The time runs from the first of them to
 * the frame with the result, so it includes all screens between, at the speed of a program. Typed names and
 * numbers are counted as keys.
 */
import assert from 'node:assert/strict';
import type { Locator, Page } from 'playwright-core';
import type { Browser as Member } from '../test/support/browser.ts';
import type { Service } from '../test/support/service.ts';
import { eventually } from '../test/support/wait.ts';
import { startReceiver, type Receiver } from '../test/support/webhook-receiver.ts';
import { alignColumns } from './report.ts';
import { median, show } from './numbers.ts';

type Task = {
  name: string;
  /** Screen at which the task begins, with a place that it has. */
  from: string;
  ready: (page: Page) => Locator;
  steps: (page: Page) => Promise<void>;
  result: (page: Page) => Locator;
};

const RARE = 'marta@fjordline.example';
/** Before the filled addresses in the alphabet, so that it is on the first page. */
const SUPPRESSED = 'anna@customers0.test';

type TasksOptions = {
  service: Service;
  owner: Member;
  rounds: number;
  say: (line: string) => void;
};

/** @returns the table as text */
export async function measureTasks(
  page: Page,
  { service, owner, rounds, say }: TasksOptions,
): Promise<string> {
  const project = String((await owner.get('/v1/session')).body.projects[0].id);
  await using receiver = await startReceiver({ status: 500, body: 'no such table: orders' });
  await prepare(service, receiver);
  const home = `${service.url}/dashboard/${project}`;
  const rows = [];
  for (const task of tasks(receiver.url)) {
    const sample = [];
    for (let round = 0; round < rounds; round += 1) sample.push(await perform(page, task, home));
    const [first] = sample;
    const times = sample.map(({ ms }) => ms);
    say(
      `  ${task.name}: ${first!.clicks} clicks, ${first!.keys} keys, ${times.map(show).join(', ')} ms`,
    );
    rows.push([
      task.name,
      String(first!.clicks),
      String(first!.keys),
      show(median(times)),
      show(Math.max(...times)),
    ]);
  }
  return `${alignColumns([['task', 'clicks', 'keys', 'ms', 'worst'], ...rows])}\n`;
}

/** Gives the tasks something to find, and waits until it can be found. */
async function prepare(service: Service, receiver: Receiver): Promise<void> {
  const key = await service.liveKey();
  const post = async (path: string, body: object): Promise<void> => {
    const response = await service.request('POST', path, { key, body });
    assert.ok(response.status < 300, response.text);
  };
  await service.sql(
    `update emails set to_list = $1
      where id = (select id from emails where environment = 'live' order by id limit 1 offset 1000)`,
    [[RARE]],
  );
  // Maintenance makes the blocks of searches anew, with this address.
  await service.sql('delete from weekly_search_blocks');
  await post('/v1/webhooks', { url: receiver.url });
  await post('/v1/suppressions', { address: SUPPRESSED, reason: 'hard_bounce' });
  await receiver.waitForCount(1);
  const search = async (): Promise<void> => {
    const { body } = await service.request('GET', '/v1/emails?q=rdl', { key });
    assert.deepEqual([body.data.length, body.scanned_until ?? null], [1, null]);
  };
  await eventually(search, { timeoutMs: 600_000 });
}

const tasks = (webhookUrl: string): Task[] => [
  {
    name: 'find by a part of the address',
    from: 'live/emails',
    ready: (page) => page.getByRole('list', { name: 'Emails' }).getByText('Your order').first(),
    steps: async (page) => {
      for (const typed of ['/', 'r', 'd', 'l']) await page.keyboard.press(typed);
    },
    result: (page) => page.getByRole('list', { name: 'Emails' }).getByText(RARE),
  },
  {
    name: 'why a customer is suppressed',
    from: 'live/overview',
    ready: (page) => page.getByRole('link', { name: 'Suppressions' }).first(),
    steps: async (page) => {
      await page.getByRole('link', { name: 'Suppressions' }).first().click();
      await page.getByRole('link', { name: SUPPRESSED }).click();
    },
    result: (page) => page.getByRole('heading', { name: /^Suppressed since/ }),
  },
  {
    name: 'why a webhook fails',
    from: 'live/overview',
    ready: (page) => page.getByRole('link', { name: 'Webhooks' }).first(),
    steps: async (page) => {
      await page.getByRole('link', { name: 'Webhooks' }).first().click();
      await page.getByRole('link', { name: webhookUrl }).click();
    },
    result: (page) => page.getByRole('heading', { name: /the receiver answers 500/ }),
  },
  {
    name: 'set a limit',
    from: 'live/emails',
    ready: (page) => page.getByRole('link', { name: 'Projects' }).first(),
    steps: async (page) => {
      await page.getByRole('link', { name: 'Projects' }).first().click();
      await page.getByRole('button', { name: 'Change accepted emails' }).click();
      await page.getByRole('dialog').getByLabel('At most').focus();
      await page.keyboard.press('ControlOrMeta+a');
      await page.keyboard.type('5000');
      await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
    },
    result: (page) => page.getByText('5,000 in 1 min'),
  },
  {
    name: 'yesterday against the day before',
    from: 'live/overview',
    ready: (page) => page.getByRole('button', { name: /^Period: Last 24 hours/ }),
    steps: async (page) => {
      await page.getByRole('button', { name: /^Period: Last 24 hours/ }).click();
      await page.getByRole('button', { name: 'Yesterday', exact: true }).click();
    },
    result: (page) =>
      page.getByRole('img', { name: /^Outcomes in the period Yesterday: .*Day before/ }),
  },
  {
    name: 'a template, from nothing to sent',
    from: 'test/templates',
    ready: (page) => page.getByRole('button', { name: 'Create a template' }),
    steps: async (page) => {
      await page.getByRole('button', { name: 'Create a template' }).click();
      await page.getByLabel('Name').focus();
      await page.keyboard.type(`Order ${Date.now()}`);
      await page.getByRole('radio', { name: /^Receipt/ }).click();
      await page.getByRole('button', { name: 'Create', exact: true }).click();
      await page.getByRole('button', { name: 'Send a test' }).click();
      await page.getByRole('button', { name: 'Send', exact: true }).click();
    },
    result: (page) => page.getByRole('link', { name: 'Show the email' }),
  },
];

type Performed = { clicks: number; keys: number; ms: number };

async function perform(page: Page, task: Task, home: string): Promise<Performed> {
  await page.goto(`${home}/${task.from}`);
  await task.ready(page).waitFor();
  await page.evaluate(countInput);
  await task.steps(page);
  await task.result(page).first().waitFor();
  return page.evaluate<Performed>('globalThis.readInput()');
}

/** Runs in the page. Counts what a person does, not the clicks that scripts make of keys. */
function countInput(): void {
  // oxlint-disable-next-line typescript/no-explicit-any
  const { document, performance } = globalThis as any;
  let [clicks, keys, startedAt] = [0, 0, 0];
  const begin = (): void => {
    if (startedAt === 0) startedAt = performance.now();
  };
  document.addEventListener(
    'click',
    ({ detail }: { detail: number }) => {
      begin();
      // A label clicks its field once more, and Enter clicks its button: both without a place of the pointer.
      if (detail > 0) clicks += 1;
    },
    true,
  );
  document.addEventListener(
    'keydown',
    ({ key }: { key: string }) => {
      begin();
      if (!['Control', 'Meta', 'Shift'].includes(key)) keys += 1;
    },
    true,
  );
  (globalThis as { readInput?: () => Performed }).readInput = () => ({
    clicks,
    keys,
    ms: performance.now() - startedAt,
  });
}
