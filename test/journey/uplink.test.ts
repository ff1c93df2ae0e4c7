/** Our own connection to the internet is down: no mail server anywhere answers, and no receiver is at fault. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { MailServer } from '../support/journey.ts';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-uplink-'));
after(() => rmSync(folder, { recursive: true }));
const shaping = join(folder, 'shaping.json');
writeFileSync(shaping, JSON.stringify({ uplink: { no_answer_s: 0.5, retry_s: 0.5 } }));

const journey = await startJourney(
  // Deferred mail is tried again after an hour, and suspensions begin with a minute.
  { LETTERHAUS_SHAPING: shaping, LETTERHAUS_RETRY_WAITS: '1h' },
  { args: ['--workers', '2'] },
);
after(() => journey[Symbol.asyncDispose]());
const { service, dns } = journey;

/** Below the first suspension and all retries. */
const AT_ONCE_MS = 30_000;
const DOMAINS = ['one', 'two', 'three'];
const servers: MailServer[] = [];
for (const name of DOMAINS) {
  servers.push(await journey.mailServer(`${name}.example`, {}, { provider: `${name}.test` }));
}

/** At the same time, as an uplink goes and comes. */
async function all(change: (server: MailServer) => Promise<void>): Promise<void> {
  await Promise.all(servers.map(change));
}

function sendToAll(user: string): Promise<string[]> {
  return Promise.all(DOMAINS.map((name) => journey.send({ to: `${user}@${name}.example` })));
}

const allDelivered = (ids: readonly string[]) => journey.allDelivered(ids, AT_ONCE_MS);

async function uplinkIs(state: 'up' | 'down'): Promise<void> {
  const line = new RegExp(`^letterhaus_uplink_down ${state === 'down' ? 1 : 0}$`, 'm');
  await waitFor(async () => line.test((await service.metrics()).text), {
    what: `the uplink to be ${state}`,
  });
}

test('when our uplink comes back, mail is delivered at once, and no receiver was blamed', async () => {
  await allDelivered(await sendToAll('first'));
  await all((server) => server.stop());
  // The failures before it was clear that they are ours.
  const before = await sendToAll('before');
  await uplinkIs('down');
  const during = await sendToAll('during');
  await waitFor(async () => (await delaysOf(during)).length >= DOMAINS.length, {
    what: 'an event of each',
  });
  await waitFor(async () => (await suspended()).length > 0, { what: 'a suspension' });
  const [{ reason }] = await suspended();
  assert.match(reason, /^no mail server anywhere answers: our own network is down \(host/);
  await all((server) => server.start());
  await allDelivered([...before, ...during]);
  await uplinkIs('up');
  for (const id of during) {
    assert.deepEqual(await journey.story(id), ['queued', 'delivery_delayed', 'delivered']);
    const [, delayed] = await journey.timeline(id);
    assert.partialDeepStrictEqual(delayed.data.reason, { category: 'network', blame: 'us' });
    assert.equal((await journey.email(id)).recipients[0].attempts, 1, 'only that of its delivery');
  }
  await service.logged(/no mail server anywhere answers this machine/);
  await service.logged(/a mail server answers again/);
});

async function delaysOf(ids: readonly string[]) {
  return service.sql(
    `select from events where subject_id = any($1) and type = 'email.delivery_delayed'`,
    [ids],
  );
}

async function suspended() {
  return service.sql(`select reason from providers where state = 'suspended'`);
}

test('mail whose domains could not be looked up is retried at once, too', async () => {
  await allDelivered(await sendToAll('second'));
  await all((server) => server.stop());
  dns.setFailure('*', 'servfail');
  const known = await sendToAll('known');
  const unknown = ['four', 'five'].map((name) => `jo@${name}.example`);
  const ids = [...known, ...(await Promise.all(unknown.map((to) => journey.send({ to }))))];
  await uplinkIs('down');
  for (const name of ['four', 'five']) await journey.mailServer(`${name}.example`);
  dns.setFailure('*', null);
  await all((server) => server.start());
  await allDelivered(ids);
});
