/** Our uplink drops every packet: no connection is refused, none is answered, and each attempt ends by its timeout. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startBlackHole } from '../support/black-hole.ts';
import type { MailServer } from '../support/journey.ts';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-uplink-'));
after(() => rmSync(folder, { recursive: true }));
const shaping = join(folder, 'shaping.json');
writeFileSync(shaping, JSON.stringify({ uplink: { no_answer_s: 0.5, retry_s: 0.5 } }));

const journey = await startJourney({
  LETTERHAUS_SHAPING: shaping,
  LETTERHAUS_RETRY_WAITS: '1h',
  LETTERHAUS_SMTP_TIMEOUT_S: '4',
});
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

/** Below the first suspension and all retries. */
const AT_ONCE_MS = 30_000;
const DOMAINS = ['one', 'two', 'three'];

async function uplinkIs(state: 'up' | 'down'): Promise<void> {
  const line = new RegExp(`^letterhaus_uplink_down ${state === 'down' ? 1 : 0}$`, 'm');
  await waitFor(async () => line.test((await service.metrics()).text), {
    what: `the uplink to be ${state}`,
  });
}

test('while no server answers a SYN the uplink is down, and mail is delivered when one does', async () => {
  const servers: MailServer[] = [];
  for (const name of DOMAINS) {
    servers.push(await journey.mailServer(`${name}.example`, {}, { provider: `${name}.test` }));
  }
  const sendToAll = (user: string): Promise<string[]> =>
    Promise.all(DOMAINS.map((name) => journey.send({ to: `${user}@${name}.example` })));
  await journey.allDelivered(await sendToAll('first'), AT_ONCE_MS);

  for (const server of servers) await server.stop();
  const holes = await Promise.all(
    servers.map(({ address, port }) => startBlackHole(address, port)),
  );
  // The failures before it was clear that they are ours.
  const before = await sendToAll('before');
  await uplinkIs('down');
  const during = await sendToAll('during');
  const isDelayed = async (): Promise<boolean> => {
    const stories = await Promise.all(during.map((id) => journey.story(id)));
    return stories.every((story) => story.includes('delivery_delayed'));
  };
  await waitFor(isDelayed, { what: 'an event of each' });
  for (const hole of holes) await hole[Symbol.asyncDispose]();
  for (const server of servers) await server.start();
  await journey.allDelivered([...before, ...during], AT_ONCE_MS);
  await uplinkIs('up');
  for (const id of during) {
    const [, delayed] = await journey.timeline(id);
    assert.partialDeepStrictEqual(delayed.data.reason, { category: 'network', blame: 'us' });
  }
  await service.logged(/no mail server anywhere answers this machine/);
});
