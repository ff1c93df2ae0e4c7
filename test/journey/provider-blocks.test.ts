/**
 * A provider refuses our mail because of our address or a sending domain: the mail waits, and the refusals do not count
 * against the sender.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { OWN_NAME, startJourney, type MailServer } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-blocks-'));
after(() => rmSync(folder, { recursive: true }));
const shaping = join(folder, 'shaping.json');
writeFileSync(shaping, JSON.stringify({ block: { first_s: 1, longest_s: 3 } }));

const journey = await startJourney(
  // Mail that is deferred for another reason is retried after an hour.
  { LETTERHAUS_SHAPING: shaping, LETTERHAUS_RETRY_WAITS: '1h' },
  { args: ['--workers', '2'] },
);
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
await service.addLiveDomain('other.example');

/** Far below the usual wait. */
const SOON_MS = 60_000;
const ADDRESS = '550 5.7.1 Client host [192.0.2.1] blocked using zen.spamhaus.org';
const DOMAIN = '550 5.7.1 very low reputation of the sending domain';
const UNCLEAR = '554 5.7.1 Message rejected because of user complaints';

const from = (domain: string): object => ({ from: `Hello <hello@${domain}>` });

/** One after the other, each until it was tried. */
async function sendRefused(domain: string, count: number, draft: object = {}): Promise<string[]> {
  const ids: string[] = [];
  for (let number = 1; number <= count; number += 1) {
    const id = await journey.send({ to: `jo${number}@${domain}`, ...draft });
    assert.equal((await journey.attempted(id)).status, 'deferred');
    ids.push(id);
  }
  return ids;
}

async function deferred(id: string) {
  await waitFor(async () => (await journey.email(id)).status === 'deferred', {
    what: 'the email to be deferred',
    timeoutMs: SOON_MS,
  });
  return (await journey.email(id)).recipients[0];
}

const allDelivered = (ids: readonly string[]) => journey.allDelivered(ids, SOON_MS);

/** Asserts that there is this block. A probe may be refused, and count, before the test looks. */
async function assertBlocked(mx: MailServer, expected: object): Promise<void> {
  const [{ refusals, ...block }, ...others] = await blocksOf(mx);
  assert.deepEqual([block, ...others], [expected]);
  assert.ok(refusals >= 3, `${refusals} refusals`);
}

function blocksOf({ name }: MailServer) {
  return service.sql(
    `select about, subject, refusals, senders from provider_blocks where provider = $1 and since is not null
      order by about`,
    [name],
  );
}

function transactions({ sessions }: MailServer): number {
  return sessions.flatMap(({ lines }) => lines).filter((line) => line.startsWith('C: MAIL')).length;
}

test('while a provider refuses our address, its mail waits, one message at a time is a probe, and the first delivery releases all', async () => {
  const mx = await journey.mailServer('blocking.test', { phases: { rcpt: ADDRESS } });
  const ids = await sendRefused('blocking.test', 3);
  await assertBlocked(mx, { about: 'address', subject: OWN_NAME, senders: ['acme.example'] });
  const before = transactions(mx);
  const sinceMs = performance.now();
  const waiting = await Promise.all(
    Array.from({ length: 30 }, (_, n) => journey.send({ to: `kim${n}@blocking.test` })),
  );
  // Mail of another sender is refused for the same reason.
  waiting.push(await journey.send({ to: 'lu@blocking.test', ...from('other.example') }));
  for (const id of waiting) {
    const { reason } = await deferred(id);
    assert.partialDeepStrictEqual(reason, { category: 'reputation', blame: 'us' });
    assert.match(reason.advice, new RegExp(`^${mx.name} refuses all mail from an IP address`));
  }
  await waitFor(async () => (await blocksOf(mx))[0]?.refusals >= 5, {
    what: 'two probes',
    timeoutMs: SOON_MS,
  });
  const tried = transactions(mx) - before;
  // There is at most a probe a second, however long all this takes; and a worker may not know of the block at first.
  const triedMax = 6 + Math.ceil((performance.now() - sinceMs) / 1_000);
  assert.ok(tried <= triedMax, `${tried} of 31 messages were tried, and only probes should be`);
  mx.set({});
  await allDelivered([...ids, ...waiting]);
  assert.deepEqual(await blocksOf(mx), []);
  const story = await journey.story(waiting[0]!);
  assert.ok(story.length <= 4, `the wait is one event: ${story.join(', ')}`);
});

test('mail of one refused sending domain waits, while that of others is delivered', async () => {
  const refused = { mail: DOMAIN };
  const mx = await journey.mailServer('choosy.test', { phases: refused });
  const ids = await sendRefused('choosy.test', 3);
  await assertBlocked(mx, {
    about: 'domain',
    subject: 'acme.example',
    senders: ['acme.example'],
  });
  mx.set({ phases: { rset: '250 2.0.0 Ok' }, messageReplies: { kim: DOMAIN } });
  const other = await journey.send({ to: 'lu@choosy.test', ...from('other.example') });
  assert.equal((await journey.ended(other)).status, 'delivered');
  await allDelivered(ids);
});

test('refusals that do not say whom they concern are about the sending domain, until several are refused', async () => {
  const mx = await journey.mailServer('vague.test', { phases: { data: UNCLEAR } });
  await sendRefused('vague.test', 3);
  assert.deepEqual(
    (await blocksOf(mx)).map(({ about, subject }: { about: string; subject: string }) => [
      about,
      subject,
    ]),
    [['domain', 'acme.example']],
  );
  const [id] = await sendRefused('vague.test', 1, from('other.example'));
  assert.partialDeepStrictEqual((await blocksOf(mx))[0], {
    about: 'address',
    senders: ['acme.example', 'other.example'],
  });
  mx.set({});
  await allDelivered([id!]);
});

test('a message that is refused again, although the provider takes other mail, bounces and suppresses nobody', async () => {
  const mx = await journey.mailServer('mixed.test', { messageReplies: { jo: UNCLEAR } });
  const id = await journey.send({ to: 'jo@mixed.test' });
  assert.equal((await journey.attempted(id)).status, 'deferred');
  const other = await journey.send({ to: 'kim@mixed.test' });
  assert.equal((await journey.ended(other)).status, 'delivered');
  await waitFor(
    async () =>
      (
        await service.sql('select from provider_blocks where provider = $1 and refusals > 0', [
          mx.name,
        ])
      ).length === 0,
    { what: 'the delivery to end the count' },
  );
  await journey.pass({ hours: 5 });
  const { status, recipients } = await journey.ended(id);
  assert.deepEqual([status, recipients[0].attempts], ['bounced', 2]);
  const again = await journey.send({ to: 'jo@mixed.test' });
  assert.equal(
    (await journey.attempted(again)).status,
    'deferred',
    'the address is not suppressed',
  );
  mx.set({});
  await journey.pass({ hours: 5 });
  await journey.ended(again);
});

test('a bounce because of us does not count against the sender', async () => {
  const { bounced } = await waitFor(
    async () => {
      const [row] = await service.sql(
        `select sum(ended)::int as ended, sum(bounced)::int as bounced,
                (select count(*)::int from recipients join emails on emails.id = recipients.email_id
                  where from_address like '%@acme.example' and status in ('delivered', 'bounced')) as all
           from reputation_counts where domain = 'acme.example'`,
      );
      return row.ended === row.all && row;
    },
    { what: 'all endings to be counted' },
  );
  assert.equal(bounced, 0);
});

test('mail that expires while its provider refuses us says so', async () => {
  const mx = await journey.mailServer('expiring.test', { phases: { rcpt: ADDRESS } });
  await sendRefused('expiring.test', 3);
  const id = await journey.send({ to: 'lu@expiring.test', expires_in: 60 });
  await deferred(id);
  await journey.pass({ minutes: 2 });
  const { status, recipients } = await journey.ended(id);
  assert.equal(status, 'failed');
  assert.partialDeepStrictEqual(recipients[0].reason, { category: 'expired', blame: 'us' });
  // The worker that lets it expire may not know of the block yet, but it knows the reason of the wait.
  const named = new RegExp(`while (?:${mx.name} refused all|the provider refused) mail`);
  assert.match(recipients[0].reason.advice, named);
  mx.set({});
});

test('a mail server that refuses us delays no mail to another one', async () => {
  const mine = await journey.mailServer('hostile.test', { phases: { greeting: ADDRESS } });
  await sendRefused('hostile.test', 3);
  assert.equal((await blocksOf(mine)).length, 1);
  await journey.mailServer('neighbour.test');
  const id = await journey.send({ to: 'jo@neighbour.test' });
  assert.equal((await journey.ended(id)).status, 'delivered');
});

test('the operator gets one warning with the reply and the page for delisting, and one line at the end', async () => {
  const mx = await journey.mailServer('warned.test', { phases: { rcpt: ADDRESS } });
  const [id] = await sendRefused('warned.test', 3);
  const lines = () =>
    service.logs
      .split('\n')
      .filter((line) => line.includes(`"subject":"${mx.name} ${OWN_NAME}"`))
      .map((line) => JSON.parse(line));
  await waitFor(() => lines().length === 1, { what: 'the warning' });
  assert.partialDeepStrictEqual(lines()[0], {
    level: 'warn',
    event: 'provider.blocked',
    provider: mx.name,
    address: OWN_NAME,
    page: 'https://check.spamhaus.org/',
  });
  // A probe may be refused before the supervisor looks.
  assert.ok(lines()[0].refusals >= 3, String(lines()[0].refusals));
  assert.match(lines()[0].msg, /Client host \[192\.0\.2\.1\] blocked using zen\.spamhaus\.org/);
  assert.match(lines()[0].remedy, /delisting: https:\/\/check\.spamhaus\.org\//);
  const blocked = new RegExp(
    `^letterhaus_provider_blocked\\{provider="other",about="address",category="reputation"\\} 1$`,
    'm',
  );
  await service.counted(blocked);
  await service.counted(
    /^letterhaus_deferrals_total\{provider="other",category="reputation",blame="us"\} \d+$/m,
  );
  mx.set({});
  await allDelivered([id!]);
  await waitFor(() => lines().length === 2, { what: 'the line at its end' });
  assert.partialDeepStrictEqual(lines()[1], { level: 'info', event: 'provider.unblocked' });
});
