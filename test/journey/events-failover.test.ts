/**
 * Cursors of the event stream and the fail-over of the database: one whose event the standby had goes
 * on without a gap, one whose event was lost is refused, although the new primary gives the numbers of
 * the lost transactions to others.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertFailure } from '../support/api.ts';
import { openEventStream } from '../support/event-stream.ts';
import { startReplicatedPair } from '../support/replicated-postgres.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

test('after a fail-over a cursor is valid if its event was replicated, and refused if it was lost', async () => {
  await using pair = await startReplicatedPair({ synchronous: false });
  const address = pair.primary.address('letterhaus');
  await using service = await startService({
    database: { url: pair.url, address, setReachable: () => Promise.reject(new Error('kill it')) },
    args: ['--workers', '1'],
  });
  const { testKey: key } = service;
  const page = async (after: string) => {
    const { body } = await service.request('GET', `/v1/events?after=${after}`);
    return body;
  };
  const delivered = async (count: number): Promise<string> => {
    const ids = await Promise.all(Array.from({ length: count }, () => service.send()));
    for (const id of ids) await service.waitForStatus(id, 'delivered');
    return ids[0]!;
  };
  await delivered(1);
  const { cursor: kept } = await page('latest');
  const xact = `select max(xact_id::text::bigint)::int as last from events`;
  const [before] = await service.sql(xact);
  address.port = pair.standby.port;
  await waitFor(async () => (await service.sql(xact))[0].last === before.last, {
    what: 'the standby to have it',
  });
  await pair.cutReplication();
  await delivered(5);
  const { cursor: lost } = await page('latest');
  await using stream = await openEventStream(service.url, { key, lastEventId: lost });

  await pair.primary.kill9();
  await pair.promoteStandby();
  const isBack = async () =>
    (await service.request('GET', `/v1/events?after=${kept}`)).status === 200;
  await waitFor(isBack, { what: 'the stream after the fail-over', timeoutMs: 60_000 });
  const sendAgain = async () => {
    const body = { from: 'a@acme.test', to: 'delivered@simulator.test', subject: 'Hi', text: 'Hi' };
    // A response that says "may have been accepted" is repeated without a second email.
    const headers = { 'idempotency-key': 'after the fail-over' };
    const response = await service.request('POST', '/v1/emails', { body, headers });
    return response.status < 300 && { id: response.body.id as string };
  };
  const { id } = await waitFor(sendAgain, { what: 'an accepted email', timeoutMs: 60_000 });
  await service.waitForStatus(id, 'delivered', { timeoutMs: 60_000 });

  const after = await page(kept);
  const about = after.data.map(({ data }: { data: { email_id: string } }) => data.email_id);
  assert.deepEqual(about, [id, id], 'nothing is missing, and what was lost has not happened');
  const refused = await service.request('GET', `/v1/events?after=${lost}`);
  assertFailure(refused, 409, 'conflict', /is no longer valid: .* restored or failed over/);
  await stream.waitForEnd();
  assert.match(stream.text, /: this stream cannot continue: /);
  assert.deepEqual(stream.events, []);
});
