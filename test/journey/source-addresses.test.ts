/**
 * Several source addresses, each with its name: a sending domain keeps its address towards a receiver,
 * also at retries.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { FakeSession } from '../support/fake-mx.ts';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const NAMES: Record<string, string> = {
  '127.0.0.2': 'out2.letterhaus.example',
  '127.0.0.3': 'out3.letterhaus.example',
  '127.0.0.4': 'out4.letterhaus.example',
};

// A connection for every message: a session that is used again would hide where the next comes from.
const folder = mkdtempSync(join(tmpdir(), 'letterhaus-sources-'));
after(() => rmSync(folder, { recursive: true }));
const shaping = join(folder, 'shaping.json');
writeFileSync(shaping, JSON.stringify({ default: { messages_per_connection: 1 } }));

const journey = await startJourney(
  {
    LETTERHAUS_SOURCE_IPS: Object.entries(NAMES)
      .map(([ip, name]) => `${ip}=${name}`)
      .join(', '),
    LETTERHAUS_SHAPING: shaping,
  },
  { args: ['--workers', '2'] },
);
after(() => journey[Symbol.asyncDispose]());

const SENDERS = ['acme.example', 'one.example', 'two.example', 'three.example', 'four.example'];
for (const name of SENDERS.slice(1)) await journey.service.addLiveDomain(name);

/** The sessions that brought or tried mail of a domain. */
function sessionsOf(sender: string, sessions: readonly FakeSession[]): FakeSession[] {
  const path = new RegExp(`^C: MAIL FROM:<[^>]*@send\\.${sender.replaceAll('.', '\\.')}>`);
  return sessions.filter(({ lines }) => lines.some((line) => path.test(line)));
}

test('greylisted mail is sent again from the same source address, so that the second attempt is accepted', async () => {
  const mx = await journey.mailServer('grey.test', { greylist: 1, greylistsByClient: true });
  const sent = SENDERS.flatMap((sender) =>
    [1, 2, 3].map((number) =>
      journey.send({ from: `Hello <hello@${sender}>`, to: `jo${number}@${sender}.grey.test` }),
    ),
  );
  for (const sender of SENDERS) journey.dns.set(`${sender}.grey.test`, 'MX', [`10 ${mx.name}`]);
  const ids = await Promise.all(sent);
  for (const id of ids) assert.equal((await journey.attempted(id)).status, 'deferred');
  await journey.pass({ hours: 5 });
  for (const id of ids) {
    const email = await journey.ended(id);
    assert.deepEqual([email.status, email.recipients[0].attempts], ['delivered', 2]);
  }
});

test('a sending domain uses one source address and its name towards a receiver, and all addresses are used', async () => {
  const mx = await journey.mailServer('plain.test');
  const used = new Set<string>();
  for (const sender of SENDERS) {
    for (const to of ['jo@plain.test', 'kim@plain.test', 'lu@plain.test']) {
      await journey.ended(await journey.send({ from: `Hello <hello@${sender}>`, to }));
    }
    const clients = new Set(sessionsOf(sender, mx.sessions).map(({ client }) => client));
    assert.equal(clients.size, 1, `${sender} came from ${[...clients].join(' and ')}`);
    for (const client of clients) used.add(client);
  }
  assert.ok(used.size > 1, 'different domains are spread');
  for (const { client, lines } of mx.sessions) {
    assert.ok(lines.includes(`C: EHLO ${NAMES[client]}`), `${client}: ${lines.join('\n')}`);
  }
  await waitFor(() => mx.messages.length === 15, { what: 'every message once' });
});
