/**
 * The owner of a recipient domain chooses the names of its mail servers and their replies. Neither may suspend or slow
 * down another provider, even one with a name below the same domain.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startBlackHole } from '../support/black-hole.ts';
import type { FakeMx } from '../support/fake-mx.ts';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney({}, { args: ['--workers', '2'] });
after(() => journey[Symbol.asyncDispose]());
const { service, dns } = journey;

const RESETS = 8;
/** Milliseconds below a connection time-out (30 s), the first suspension (60 s) and the slowest pace (a minute). */
const AT_ONCE_MS = 20_000;
const BAD_REPUTATION =
  '421 4.7.650 The mail server has been temporarily rate limited due to IP reputation';

async function resetsArrive(mx: FakeMx, domain: string): Promise<void> {
  const before = mx.messages.length;
  const sinceMs = performance.now();
  for (let reset = 0; reset < RESETS; reset += 1) {
    await journey.send({ to: `reset${reset}@${domain}` });
  }
  await waitFor(() => mx.messages.length === before + RESETS, {
    what: `the resets to ${domain}`,
    timeoutMs: AT_ONCE_MS,
  });
  const tookMs = Math.round(performance.now() - sinceMs);
  assert.ok(tookMs < AT_ONCE_MS, `${tookMs} ms`);
}

async function waitForState(state: string, provider: string): Promise<void> {
  const isThere = async (): Promise<boolean> => {
    const rows = await service.sql(`select from providers where state = $1 and provider = $2`, [
      state,
      provider,
    ]);
    return rows.length > 0;
  };
  await waitFor(isThere, { what: `${provider} to be ${state}` });
}

test('a dead name below a domain suspends no other name below it', async () => {
  // This server hangs up, because an address that refuses connections is not tried a second time.
  const hangUp = { phases: { greeting: { drop: 'fin' as const } } };
  const dead = await journey.mailServer('dead.test', hangUp, { provider: 'bighost.test' });
  for (let email = 0; email < 4; email += 1) await journey.send({ to: `jo${email}@dead.test` });
  await waitForState('suspended', dead.name);
  const live = await journey.mailServer('live.test', {}, { provider: 'bighost.test' });
  await resetsArrive(live, 'live.test');
});

test('a reply about our reputation slows down the host that sent it, and no other', async () => {
  const evil = await journey.mailServer(
    'evil.test',
    { phases: { mail: BAD_REPUTATION } },
    { provider: 'slowhost.test' },
  );
  await journey.attempted(await journey.send({ to: 'jo@evil.test' }));
  await waitForState('slowed', evil.name);
  const live = await journey.mailServer('patient.test', {}, { provider: 'slowhost.test' });
  await resetsArrive(live, 'patient.test');
});

test('a reply of the second mail server of a domain does not count against the first', async () => {
  const shared = await journey.mailServer(
    'shared.test',
    { phases: { greeting: { drop: 'fin' } } },
    { provider: 'sharedhost.test' },
  );
  const evil = await journey.mailServer('second.test', { phases: { mail: BAD_REPUTATION } });
  dns.set('second.test', 'MX', [`10 ${shared.name}`, `20 ${evil.name}`]);
  await journey.attempted(await journey.send({ to: 'jo@second.test' }));
  await waitForState('slowed', evil.name);
  shared.set({});
  await resetsArrive(shared, 'shared.test');
});

test('silent names below a domain take no connections from live hosts of it', async (t) => {
  const silent = '127.0.1.251';
  const hole = await startBlackHole(silent, journey.port);
  t.after(() => hole[Symbol.asyncDispose]());
  for (let name = 0; name < 40; name += 1) {
    dns.set(`silent${name}.hosting.test`, 'A', [silent]);
    dns.set(`silent${name}.test`, 'MX', [`10 silent${name}.hosting.test`]);
    await journey.send({ to: `jo@silent${name}.test` });
  }
  const live = await journey.mailServer('hosted.test', {}, { provider: 'hosting.test' });
  await resetsArrive(live, 'hosted.test');
});
