/**
 * One project has 20,000 emails queued to a provider that does not answer, half of them to one
 * domain and half spread over 500 domains that it hosts. Nobody else's mail waits for them, and
 * neither does the project's own mail to others.
 */
import assert from 'node:assert/strict';
import { after, before, test, type TestContext } from 'node:test';
import { queueCopies } from '../support/backlog.ts';
import { type MailServer, startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const BACKLOG = 20_000;
const journey = await startJourney({}, { args: ['--workers', '2'] });
after(() => journey[Symbol.asyncDispose]());
const { service, dns } = journey;

/** A provider of its own: what is under mx.test shares its limits. */
async function provider(name: string, domains: readonly string[]): Promise<MailServer> {
  const mx = await journey.mailServer(`first.${name}`);
  dns.set(`mx.${name}`, 'A', [mx.address]);
  for (const domain of domains) dns.set(domain, 'MX', [`10 mx.${name}`]);
  return mx;
}

const many = Array.from({ length: 500 }, (_, index) => `d${index}.test`);
const dead = await provider('dead-mail.test', ['big.test', ...many]);
const alive = await provider('alive-mail.test', ['alive.test', 'other.test', 'third.test']);
let otherKey = '';

/** Makes a second project with a verified domain. @returns its key */
async function secondProject(): Promise<string> {
  const project = await service.cliJson('projects', 'create', 'Other');
  const scope = ['--project', project.id, '--environment', 'live'];
  const { key } = await service.cliJson('keys', 'create', ...scope);
  const { body } = await service.request('POST', '/v1/domains', {
    key,
    body: { name: 'other.example' },
  });
  await service.sql(
    `update domains set status = 'verified', verified_at = app_now() where id = $1`,
    [body.id],
  );
  return key;
}

/** Recipients that wait for the dead provider. */
async function waiting(): Promise<number> {
  const [row] = await service.sql(
    `select count(*)::int as count from queue where destination = 'big.test' or destination ~ '^d\\d+'`,
  );
  return row.count;
}

function arrived(to: string): boolean {
  return alive.messages.some(({ recipients }) => recipients.includes(to));
}

/** Waits until the email has arrived, and reports the time since its 202. */
async function arrives(t: TestContext, to: string, sinceMs: number): Promise<void> {
  await waitFor(() => arrived(to), { what: `the email to ${to}` });
  t.diagnostic(`${to}: there ${Math.round(performance.now() - sinceMs)} ms after its 202`);
}

before(async () => {
  otherKey = await secondProject();
  dead.set({ phases: { greeting: {} } });
  const template = await journey.send({ to: 'kim@big.test' });
  const half = { count: BACKLOG / 2 };
  await queueCopies(service, template, { ...half, domains: ['big.test'] });
  await queueCopies(service, template, { ...half, domains: many });
  // Both domains of the provider were met, so that workers are in the middle of it.
  await waitFor(() => dead.connections >= 2, { what: 'attempts that hang' });
});

test('a backlog of one project does not delay the email of another project', async (t) => {
  for (const to of ['one@alive.test', 'two@alive.test', 'three@other.test']) {
    await service.send({ from: 'us@other.example', to }, { key: otherKey });
    await arrives(t, to, performance.now());
  }
  assert.ok((await waiting()) > BACKLOG * 0.99, 'the backlog is still there');
  assert.equal(dead.messages.length, 0);
});

test("a backlog for one provider does not delay the project's email to another provider", async (t) => {
  for (const to of ['four@alive.test', 'five@third.test']) {
    await journey.send({ to });
    await arrives(t, to, performance.now());
  }
  assert.ok((await waiting()) > BACKLOG * 0.99, 'the backlog is still there');
});

test('mail that is only in the queue table is claimed in spite of the backlog', async (t) => {
  const senders = [
    { from: 'us@other.example', key: otherKey },
    { from: 'us@acme.example', key: await journey.key() },
  ];
  for (const [index, { from, key }] of senders.entries()) {
    const template = await service.send({ from, to: `eight${index}@alive.test` }, { key });
    await waitFor(() => arrived(`eight${index}@alive.test`), { what: 'the template' });
    await queueCopies(service, template, { count: 1, domains: ['third.test'], dueInMs: 0 });
  }
  const sinceMs = performance.now();
  const found = () => alive.messages.filter(({ recipients }) => recipients[0] === 'n0@third.test');
  await waitFor(() => found().length === 2, { what: 'both of them' });
  t.diagnostic(`both there after ${Math.round(performance.now() - sinceMs)} ms`);
  assert.ok((await waiting()) > BACKLOG * 0.99, 'the backlog is still there');
});
