/** The embedded PostgreSQL is killed with -9 under load, as by a machine without memory. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { logLines } from '../support/log-lines.ts';
import { arrivals, assertSettled, duplicates, runLoad } from '../support/load.ts';
import { waitForArrivals, FROM, newScene, waitForEmptyQueue, to } from '../support/scene.ts';
import { waitFor } from '../support/wait.ts';

const EMAILS = 400;

test('a killed database is restarted, and every email that got a 202 arrives once', async (t) => {
  await using scene = await newScene({ database: 'own', args: ['--workers', '2'] });
  const { service, mx, key } = scene;
  const postmaster = (): number =>
    Number(readFileSync(join(service.dataDir, 'pg', 'postmaster.pid'), 'utf8').split('\n')[0]);
  const killed = postmaster();
  let killedAtMs = 0;
  const load = await runLoad(service, {
    key,
    count: EMAILS,
    from: FROM,
    to,
    onAccepted: (count) => {
      if (killedAtMs > 0 || count < EMAILS / 2) return;
      killedAtMs = performance.now();
      process.kill(killed, 'SIGKILL');
    },
  });
  assert.equal(load.broken, 0, 'every request got a response');
  for (const response of load.refused) {
    assert.equal(response.status, 503, response.text);
    assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
    assert.match(response.body.error.message, /nothing was accepted|may have been accepted/);
    assert.ok(Number(response.headers.get('retry-after')) > 0);
  }
  const back = async () => {
    const body = { from: FROM, to: to(EMAILS), subject: 'Hello', text: 'Hello' };
    const response = await service.request('POST', '/v1/emails', { key, body });
    return response.status === 202 && { id: response.body.id as string };
  };
  const { id } = await waitFor(back, { what: 'emails to be accepted again' });
  const tookMs = Math.round(performance.now() - killedAtMs);
  t.diagnostic(`${load.refused.length} refused, accepting again ${tookMs} ms after the kill`);
  assert.notEqual(postmaster(), killed);
  const accepted = [...load.accepted, id];
  await waitForArrivals(mx, accepted);
  await waitForEmptyQueue(service);
  await assertSettled(service, accepted);
  assert.equal(duplicates(arrivals(mx)), 0, 'replies of mail servers were kept until they counted');
  const exited = logLines(service).filter(({ msg }) => msg.startsWith('The database exited'));
  assert.deepEqual(
    exited.map(({ level }) => level),
    ['warn'],
  );
  assert.match(exited[0]!.msg, /killed by SIGKILL.* no mail is accepted meanwhile.*postgres\.log/);
});
