/** What the signature of an email covers and for how long, and who a complaint is counted for. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());

const DAY_S = 86_400;

const hashesOf = async (id: string): Promise<string[]> =>
  (await journey.timeline(id)).flatMap(({ attempt }) => attempt?.message_sha256 ?? []);

test('a signature ends five days after the email does, and is the same at each attempt', async () => {
  const mx = await journey.mailServer('expiring.test', { greylist: 1 });
  const id = await journey.send({ to: 'kim@expiring.test', expires_in: 2 * DAY_S });
  await journey.attempted(id);
  await journey.pass({ hours: 5 });
  const { created_at } = await journey.ended(id);
  const signatures = [
    ...mx.messages[0]!.raw.toString().matchAll(/^DKIM-Signature: [^]*? t=(\d+); x=(\d+);/gm),
  ];
  assert.equal(signatures.length, 2);
  const createdS = Math.floor(Date.parse(created_at) / 1000);
  for (const [, signedAt, until] of signatures) {
    assert.deepEqual([Number(signedAt), Number(until)], [createdS, createdS + 7 * DAY_S]);
  }
  const [first, second] = await hashesOf(id);
  assert.ok(first !== undefined && first === second);
});
