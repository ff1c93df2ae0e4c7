/**
 * Scheduled emails that are moved and canceled while workers deliver, are killed and restart: canceled emails never
 * arrive, and all others do.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { arrivals } from '../support/load.ts';
import { FROM, newScene, type Scene, to } from '../support/scene.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { DAY_MS } from '../../src/lib/units.ts';

const fromNow = (ms: number): string => new Date(Date.now() + ms).toISOString();

type Actors = Pick<Scene, 'service' | 'mx' | 'key'>;
type Cancels = { canceled: Set<string>; refusals: Map<string, string[]> };

/** Asks again and again until each email has ended. @param onRefused called whenever one cannot be canceled */
async function cancelUntilEnded(
  { service, key }: Omit<Actors, 'mx'>,
  ids: readonly string[],
  onRefused = (): void => {},
): Promise<Cancels> {
  const cancels: Cancels = { canceled: new Set(), refusals: new Map() };
  const cancelOne = async (id: string): Promise<boolean> => {
    const response = await service
      .request('POST', `/v1/emails/${id}/cancel`, { key })
      .catch(() => null);
    // The worker that had the connection died, or is not there yet.
    if (response === null || response.status === 503) return false;
    assert.ok([200, 409].includes(response.status), response.text);
    if (response.status === 200) {
      cancels.canceled.add(id);
      return true;
    }
    const { message } = response.body.error;
    onRefused();
    cancels.refusals.set(id, [...(cancels.refusals.get(id) ?? []), message]);
    // By a cancel whose response was lost.
    if (/the email is canceled/.test(message)) cancels.canceled.add(id);
    return /the email is/.test(message);
  };
  await Promise.all(
    ids.map((id) =>
      waitFor(() => cancelOne(id), { what: `email ${id} to end`, timeoutMs: 60_000 }),
    ),
  );
  return cancels;
}

/** Nothing that was canceled has arrived, and nothing else is missing. */
async function assertExact(
  { service, mx, key }: Actors,
  ids: readonly string[],
  { canceled }: Cancels,
) {
  const arrived = arrivals(mx);
  for (const id of ids) {
    const { status } = await service.email(id, key);
    assert.equal(status, canceled.has(id) ? 'canceled' : 'delivered', id);
    assert.equal(arrived.has(id), !canceled.has(id), id);
  }
}

function waitUntilDue(dueMs: number): Promise<unknown> {
  return waitFor(() => Date.now() >= dueMs, { what: 'the emails to be due', timeoutMs: 10_000 });
}

async function sendMany(
  { service, key }: Omit<Actors, 'mx'>,
  count: number,
  draft: object,
): Promise<string[]> {
  const numbers = Array.from({ length: count }, (_, index) => index);
  return Promise.all(
    numbers.map((index) => service.send({ from: FROM, to: to(index), ...draft }, { key })),
  );
}

const journey = await startJourney({}, { args: ['--workers', '2'] });
after(() => journey[Symbol.asyncDispose]());
await journey.service.addLiveDomain('acme.example.org');
const scene = {
  service: journey.service,
  mx: await journey.mailServer('receiver.example.org'),
  key: await journey.key(),
};

test('cancels race with two workers: each email is canceled or arrives, never both', async () => {
  const early = await sendMany(scene, 5, { scheduled_at: fromNow(DAY_MS) });
  const dueMs = Date.now() + 1_500;
  const due = await sendMany(scene, 60, { scheduled_at: new Date(dueMs).toISOString() });
  const untouched = await sendMany(scene, 5, {});
  await waitUntilDue(dueMs);
  const cancels = await cancelUntilEnded(scene, [...early, ...due]);
  await waitFor(() => untouched.every((id) => arrivals(scene.mx).has(id)), { what: 'the others' });
  for (const id of early) assert.ok(cancels.canceled.has(id));
  await assertExact(scene, [...early, ...due, ...untouched], cancels);
});

test('when a worker is killed after the final dot, no email that arrived is canceled', async () => {
  await using failing = await newScene({
    args: ['--workers', '2'],
    env: { LETTERHAUS_FAILPOINTS: 'smtp_after_dot=kill,smtp_after_dot=kill' },
  });
  // No message is confirmed before a cancel was refused: else, on a slow machine, all might have ended by then.
  const refused = Promise.withResolvers<void>();
  failing.mx.set({ phases: { data: { after: refused.promise, reply: '250 2.0.0 Taken' } } });
  // Due only when all are accepted: a worker that dies takes the requests with it that it has not answered.
  const ids = await sendMany(failing, 30, { scheduled_at: fromNow(DAY_MS) });
  await failing.service.clock.advance({ hours: 24, minutes: 1 });
  await failing.service.logged(/failpoint/);
  const cancels = await cancelUntilEnded(failing, ids, refused.resolve);
  const refusals = [...cancels.refusals.values()].flat();
  assert.ok(refusals.some((message) => /worker is sending|may have been delivered/.test(message)));
  await assertExact(failing, ids, cancels);
});

test('an email whose worker died after the final dot cannot be canceled, because it may have arrived', async () => {
  const { service, mx, key } = scene;
  const unanswered = { keep: true, after: new Promise(() => {}) } as const;
  mx.set({ phases: { data: unanswered } });
  const before = mx.messages.length;
  const id = await service.send({ from: FROM, to: to(1) }, { key });
  await waitFor(() => mx.messages.length > before, { what: 'the message to arrive' });
  await service.killGroup9();
  {
    const { dataDir, env } = service;
    await using idle = await startService({ env, dataDir, args: ['--only', 'api'] });
    await idle.waitForStatus(id, 'queued', { key });
    const response = await idle.request('POST', `/v1/emails/${id}/cancel`, { key });
    assert.equal(response.status, 409, response.text);
    assert.match(response.body.error.message, /the email may have been delivered/);
  }
  mx.set({});
  await service.restart();
  await service.waitForStatus(id, 'delivered', { key });
});

test('when the service is killed during cancellations, each email is canceled once or not at all', async () => {
  const { service, key } = scene;
  const ids = await sendMany(scene, 30, { scheduled_at: fromNow(DAY_MS) });
  const cancel = (id: string) => service.request('POST', `/v1/emails/${id}/cancel`, { key });
  let killed: Promise<void> | undefined;
  const answered = await Promise.all(
    ids.map(async (id) => {
      const response = await cancel(id).catch(() => null);
      killed ??= service.killGroup9();
      return response?.status === 200 ? id : null;
    }),
  );
  await killed;
  await service.restart();
  for (const id of ids) {
    const { status } = await service.email(id, key);
    if (answered.includes(id)) assert.equal(status, 'canceled');
    if (status === 'scheduled') assert.equal((await cancel(id)).status, 200);
    else assert.equal((await cancel(id)).status, 409);
    const events = await service.sql('select type from events where subject_id = $1 order by seq', [
      id,
    ]);
    assert.deepEqual(
      events.map(({ type }) => type),
      ['email.scheduled', 'email.canceled'],
    );
  }
  assert.deepEqual(await service.sql('select from queue'), []);
});

// The last one: the clock of the database is a day ahead then.
test('a scheduled email arrives at its time, and each change of it is sent as a webhook', async () => {
  const mx = await journey.mailServer('later.test');
  const send = () => journey.send({ to: 'kim@later.test', scheduled_at: fromNow(DAY_MS) });
  const [sent, canceled] = [await send(), await send()];
  const at = fromNow(DAY_MS + 60_000);
  const moved = await journey.request('PATCH', `/v1/emails/${sent}`, { scheduled_at: at });
  assert.equal(moved.status, 200, moved.text);
  const { status } = await journey.request('POST', `/v1/emails/${canceled}/cancel`);
  assert.equal(status, 200);
  assert.deepEqual(await journey.story(canceled), ['scheduled', 'canceled']);
  await journey.pass({ hours: 24, minutes: 2 });
  assert.equal((await journey.ended(sent)).status, 'delivered');
  assert.deepEqual(await journey.story(sent), ['scheduled', 'scheduled', 'delivered']);
  assert.equal(mx.messages.length, 1);
  const date = /^Date: (.*)\r$/m.exec(mx.messages[0]?.raw.toString() ?? '')?.[1] ?? '';
  assert.equal(Date.parse(date), Math.floor(Date.parse(at) / 1000) * 1000);
});
