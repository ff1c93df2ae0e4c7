/**
 * The database becomes unavailable, comes back, or loses its connections at the worst moment. Requests get a 503
 * with the reason. When the database is back, mail resumes without help.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { arrivals, assertSettled, duplicates, runLoad } from '../support/load.ts';
import { proxiedDatabase } from '../support/postgres.ts';
import { waitForArrivals, FROM, newScene, waitForEmptyQueue, to } from '../support/scene.ts';
import type { ApiResponse } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

/** The name of the accept statement, as it stands between the zero bytes of a Bind message. */
const ACCEPT = '\0accept_fast';
/** The promise is 5 s; a busy machine gets more. */
const RECOVERY_MAX_MS = 20_000;

const database = await proxiedDatabase();
const scene = await newScene({ database, args: ['--workers', '1'] });
after(async () => {
  await scene[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});
const { service, mx, key } = scene;
const { proxy } = database;

function post(index: number, idempotencyKey?: string): Promise<ApiResponse> {
  const body = { from: FROM, to: to(index), subject: 'Hello', text: 'Hello' };
  const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey };
  return service.request('POST', '/v1/emails', { key, body, headers });
}

/** How many messages have arrived for the recipient with this number. */
function copies(index: number): number {
  return mx.messages.filter(({ recipients }) => recipients.includes(to(index))).length;
}

function assertUnavailable(response: ApiResponse, sentence: RegExp): void {
  assert.equal(response.status, 503, response.text);
  assert.equal(response.body.error.code, 'service_unavailable');
  assert.match(response.body.error.message, sentence);
  assert.ok(Number(response.headers.get('retry-after')) > 0, 'Retry-After');
}

test('while the database is unavailable, sends get 503 with the reason; mail resumes within 5 s', async (t) => {
  let refusing: Promise<void> | undefined;
  const load = await runLoad(service, {
    key,
    count: 200,
    from: FROM,
    to,
    onAccepted: (count) => {
      if (count >= 100) refusing ??= proxy.refuse();
    },
  });
  await refusing;
  assert.equal(load.broken, 0, 'every request got a response');
  for (const response of load.refused) {
    assertUnavailable(response, /nothing was accepted|may have been accepted/);
  }
  assertUnavailable(await post(1), /nothing was accepted or changed/);
  assertUnavailable(await service.request('GET', '/v1/emails', { key }), /cannot be reached/);
  const isUnready = async () => {
    const response = await service.request('GET', '/readyz', { key: null });
    return response.status === 503 && response;
  };
  const notReady = await waitFor(isUnready, { what: 'the node to know it' });
  assertUnavailable(notReady, /database does not answer/);
  assert.equal((await service.request('GET', '/healthz', { key: null })).status, 200);

  await proxy.heal();
  const healedAtMs = performance.now();
  const response = await waitFor(() => post(300).then((one) => one.status === 202 && one), {
    what: 'emails to be accepted again',
    timeoutMs: RECOVERY_MAX_MS,
  });
  const accepted = [...load.accepted, response.body.id as string];
  await waitForArrivals(mx, [response.body.id]);
  const recoveryMs = Math.round(performance.now() - healedAtMs);
  t.diagnostic(`delivering again after ${recoveryMs} ms`);
  assert.ok(recoveryMs < RECOVERY_MAX_MS);
  await waitForArrivals(mx, accepted);
  await waitForEmptyQueue(service, 60_000);
  t.diagnostic(`everything settled after ${Math.round(performance.now() - healedAtMs)} ms`);
  await assertSettled(service, accepted);
  assert.equal(duplicates(arrivals(mx)), 0);
});

test('a short database stall delays responses and loses nothing', async () => {
  proxy.stall();
  let answered = false;
  const onAccepted = (): void => void (answered = true);
  const load = runLoad(service, { key, count: 40, from: FROM, to, onAccepted });
  const anAcceptance = waitFor(() => answered, { what: 'a response', timeoutMs: 1_000 });
  await assert.rejects(anAcceptance, 'nobody is answered before it is on disk');
  await proxy.heal();
  const { accepted } = await load;
  assert.equal(accepted.length, 40);
  await waitForArrivals(mx, accepted);
});

test('when the connection is lost while an email is stored, the response says whether it was stored', async () => {
  for (const cutWhen of ['sent', 'answered'] as const) {
    const sprung = proxy.trap({ text: ACCEPT, cutWhen });
    const response = await post(501);
    await sprung;
    assert.equal(response.status, 202, `${cutWhen}: ${response.text}`);
    await service.waitForStatus(response.body.id, 'delivered', { key });
  }
  assert.equal(copies(501), 2);
});

test('an email with an unknown outcome is repeated under its Idempotency-Key and sent once', async (t) => {
  const cut = proxy.trap({ text: ACCEPT, cutWhen: 'answered' }).then(() => proxy.refuse());
  assertUnavailable(await post(502, 'order-1'), /may have been accepted.*Idempotency-Key is safe/);
  await cut;
  await proxy.heal();
  const healedAtMs = performance.now();
  const repeated = await waitFor(
    () => post(502, 'order-1').then((one) => one.status !== 503 && one),
    { what: 'the response to the repetition', timeoutMs: RECOVERY_MAX_MS },
  );
  assert.equal(repeated.status, 200, repeated.text);
  await waitForArrivals(mx, [repeated.body.id]);
  t.diagnostic(`delivered ${Math.round(performance.now() - healedAtMs)} ms after the outage`);
  await waitForEmptyQueue(service);
  assert.equal(copies(502), 1);
});

test('a worker that dies during a database outage is replaced', async () => {
  const [killed] = await service.workerPids();
  await proxy.refuse();
  process.kill(killed!, 'SIGKILL');
  const isReplaced = async (): Promise<boolean> =>
    (await service.workerPids()).some((pid) => pid !== killed) &&
    (await post(990).catch(() => null))?.status === 503;
  await waitFor(isReplaced, { what: 'another worker to answer' });
  await proxy.heal();
  const again = async () => (await post(991)).status === 202;
  await waitFor(again, { what: 'emails to be accepted again' });
  await waitFor(() => copies(991) > 0, { what: 'the email' });
});
