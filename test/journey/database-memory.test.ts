/** Large emails arrive while the database is frozen: they are refused, and memory stays bounded. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import pg from 'pg';
import { migratedDatabase } from '../support/postgres.ts';
import { waitForArrivals, FROM, newScene, to } from '../support/scene.ts';
import type { ApiResponse, RequestOptions, Service } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const EMAILS = 150;
const EMAIL_BYTES = 5_000_000;
/** The service ends the connection of a request whose headers it has not read by then (src/http/app.ts). */
const HEADERS_WITHIN_MS = 10_000;
const TOO_MANY = /Nothing was accepted: too many (large|messages)/;
/** On a busy machine the emails in memory wait so long for the database that they are refused, too. */
const REFUSALS = new RegExp(`${TOO_MANY.source}|nothing was accepted or changed`);

/** The most memory that a process ever had, in MB. */
function peakMb(pid: number): number {
  const [, kb] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
  return Math.round(Number(kb) / 1024);
}

/**
 * Repeats a request that took too long to write: on a busy machine all of them together may take longer than one is
 * allowed to. A connection that breaks sooner fails the test.
 */
async function sendUntilAnswered(service: Service, options: RequestOptions): Promise<ApiResponse> {
  const sentAtMs = performance.now();
  try {
    const response = await service.request('POST', '/v1/emails', options);
    if (response.status !== 408) return response;
  } catch (error) {
    if (performance.now() - sentAtMs < HEADERS_WITHIN_MS) throw error;
  }
  return sendUntilAnswered(service, options);
}

test('750 MB of emails sent to a frozen database get 503 or 202, and memory stays below 600 MB', async (t) => {
  await using database = await migratedDatabase();
  await using scene = await newScene({ database, args: ['--workers', '1'] });
  const { service, mx, key } = scene;
  const [{ pid }] = await service.sql('select pid from nodes');
  const beforeMb = peakMb(pid);
  const content = Buffer.alloc((EMAIL_BYTES * 3) / 4).toString('base64');
  const email = JSON.stringify({
    from: FROM,
    to: to(1),
    subject: 'Large',
    text: 'See the attachment.',
    attachments: [{ filename: 'large.bin', content }],
  });
  // Encoded once, or this process would use more time than the service.
  const body = new TextEncoder().encode(email);

  const lock = new pg.Client(database.address);
  await lock.connect();
  await lock.query('begin; select from limit_windows for update');
  const refused: ApiResponse[] = [];
  const sending = Array.from({ length: EMAILS }, async () => {
    const response = await sendUntilAnswered(service, { key, body });
    if (response.status !== 202) refused.push(response);
    return response;
  });
  await waitFor(() => refused.length > EMAILS / 2, {
    what: 'most to be refused',
    timeoutMs: 120_000,
  });
  await lock.end();
  const responses = await Promise.all(sending);
  const grownMb = peakMb(pid) - beforeMb;
  t.diagnostic(`${refused.length} of ${EMAILS} refused, ${grownMb} MB more than ${beforeMb} MB`);

  const accepted = responses.filter(({ status }) => status === 202);
  assert.ok(accepted.length > 0 && refused.length > EMAILS / 2);
  for (const response of refused) {
    assert.equal(response.status, 503, response.text);
    assert.match(response.body.error.message, REFUSALS);
    assert.ok(Number(response.headers.get('retry-after')) > 0);
  }
  assert.ok(
    refused.some((response) => TOO_MANY.test(response.body.error.message)),
    'memory was the reason',
  );
  assert.ok(grownMb < 600, `${grownMb} MB`);
  assert.deepEqual(await service.sql('select pid from nodes'), [{ pid }], 'nobody died');
  await waitForArrivals(
    mx,
    accepted.map((response) => response.body.id),
  );
});
