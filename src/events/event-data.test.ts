/** An event has the same data about its email wherever it is read, whether or not the data is stored with it. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import {
  acceptAll,
  newEmail,
  newSender,
  SETTLING,
  settlement,
} from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import { parseMailbox } from '../mail/address.ts';
import { systemWorld } from '../service/machine/system-world.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import type { NewEmail } from '../accept/store/new-email.ts';
import { listTimeline } from '../emails/email-store.ts';
import { emailEventData } from './event-store.ts';
import { BEGINNING, type PageRequest, readStream } from './stream-store.ts';
import { newId } from '../database/ids.ts';
import { registerWorker } from '../delivery/queue/worker-store.ts';
import { cancelEmail } from '../emails/schedule-store.ts';
import { SettleStore } from '../settle/settle-store.ts';
import { newSettlement } from '../settle/settlement.ts';
import { recordVisits } from '../tracking/tracking-store.ts';
import { findDelivery } from '../webhooks/delivery-store.ts';
import { createEndpoint } from '../webhooks/endpoint-store.ts';
import { claimWebhooks } from '../webhooks/sending/webhook-queue-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
const sender = await newSender(db);
const leaseId = newId();
await registerWorker(db, { id: leaseId, instance: newId(), host: 'here', pid: 1 });
const endpointId = newId();
await createEndpoint(db, sender, {
  id: endpointId,
  url: 'https://x.test',
  events: null,
  secret: Buffer.from('x'),
});
const accepting = new AcceptStore(db.accepting, {
  limit: { max: 1_000, windowS: 60 },
  leaseId: () => leaseId,
  onWebhooksQueued: () => {},
  onUnknown: () => {},
});
const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });

/** Values that quoting, escaping or formatting could change. */
const HARD = {
  from: parseMailbox('"Shop, \\"The\\" Zo\u00eb" <hello@acme.com>')!,
  subject: 'Back\\slash, "quotes", tab\t, \u2028 and \u{1f600}',
  tags: [{ name: 'kind', value: 'o-1' }],
  metadata: { 'a "key"': 'line\nbreak', z: '', b: '\u20ac\\' },
};

const email = (
  changes: Partial<Pick<NewEmail, 'html' | 'submitted' | 'mayHandOver'>> = {},
): NewEmail => {
  const made = newEmail(sender, { ...HARD, ...changes });
  return { ...made, eventData: emailEventData(made.from, { status: 'queued' }) };
};

const common = ({ id, from, submitted }: NewEmail) => ({
  email_id: id,
  from: '"Shop, \\"The\\" Zo\u00eb" <hello@acme.com>',
  to: ['jo@example.net'],
  subject: HARD.subject,
  tags: HARD.tags,
  metadata: HARD.metadata,
  message_id: submitted?.messageId ?? `<${id}@${from.address.split('@')[1]}>`,
});

/** Reads the data of these events from the stream, which waits for older transactions, even those of other tests. */
async function readAll(ids: readonly string[], request: PageRequest): Promise<unknown[]> {
  const read = async () => {
    const page = await readStream(db, sender, request);
    assert.ok(typeof page === 'object');
    const own = page.events.filter((event) => ids.includes(event.id));
    return own.length === ids.length && own;
  };
  const own = await waitFor(read, { what: 'the stream to reach the events' });
  return own.map((event) => event.data);
}

async function readings(id: string): Promise<Record<string, unknown>[]> {
  const ref = { ...sender, id, keyId: null, domain: null };
  const timeline = await listTimeline(db, ref, { after: 0, limit: 100 });
  const filter = { types: null, emailId: null, domain: null };
  const request = { after: BEGINNING, limit: 1_000, retentionH: null };
  const streams = [filter, { ...filter, emailId: id }, { ...filter, domain: 'acme.com' }];
  const data = timeline.map((event) => event.data);
  const ids = timeline.map((event) => event.id);
  for (const one of streams) {
    assert.deepEqual(await readAll(ids, { ...request, filter: one }), data);
  }
  for (const [index, eventId] of ids.entries()) {
    const delivery = await findDelivery(db, sender, { endpointId, id: eventId });
    assert.deepEqual(JSON.parse(delivery?.event?.data ?? 'null'), data[index]);
  }
  return data;
}

test('events about an email have its fields, although these are not stored with each event', async () => {
  const delivered = email();
  const submitted = email({
    html: null,
    submitted: { raw: Buffer.from('Subject: x\r\n\r\nx'), messageId: '<own"id@acme.com>' },
  });
  await acceptAll(accepting, [delivered, submitted]);
  const smtp = { code: 250, message: 'Ok' };
  for (const one of [delivered, submitted]) {
    const { claim, attempt, retryMs, provider, late } = settlement(one);
    const { address } = one.recipients[0]!;
    const recipient = { ...sender, position: 0, address, email: one };
    const change = { status: 'delivered', smtp, reason: null, suppress: null } as const;
    const claimed = { claim, attempt, retryMs, provider, late };
    assert.equal(
      await settling.settle(newSettlement(recipient, change, systemWorld, claimed)),
      'counted',
    );
    assert.deepEqual(await readings(one.id), [
      { ...common(one), status: 'queued' },
      { ...common(one), recipient: 'jo@example.net', status: 'delivered', smtp },
    ]);
  }
  const [stored] = await db.query<{ bytes: number }>(
    `select sum(octet_length(data::text))::int as bytes from events where subject_id = $1`,
    [delivered.id],
  );
  assert.ok(stored!.bytes < 300, `${stored!.bytes} bytes are stored`);

  const claimed = await claimWebhooks(db.webhooks, leaseId, [
    { ...sender, endpointId, lowWaterMs: -Infinity, max: 10 },
  ]);
  const queued = claimed.find(({ eventId }) => eventId === delivered.eventId);
  assert.deepEqual(JSON.parse(queued?.data ?? ''), { ...common(delivered), status: 'queued' });
  assert.equal(claimed.length, 4);
  const again = await findDelivery(db, sender, { endpointId, id: delivered.eventId });
  assert.equal(again?.event?.data, queued?.data, 'the same bytes each time');
});

test('later events that copy data of the first one have these fields too', async () => {
  const visited = email();
  const canceled = email({ mayHandOver: false });
  await acceptAll(accepting, [visited, canceled]);
  const ref = { ...sender, id: canceled.id, keyId: null, domain: null };
  assert.equal((await cancelEmail(db, ref))?.canceled, 1);
  assert.deepEqual((await readings(canceled.id))[1], {
    ...common(canceled),
    status: 'canceled',
    recipients: ['jo@example.net'],
  });
  const visit = { ...sender, emailId: visited.id, position: 0, eventId: newId() };
  const seen = { type: 'email.opened', agoMs: 0, botReason: null, facts: {} } as const;
  await recordVisits(db, [{ ...visit, ...seen }]);
  assert.deepEqual((await readings(visited.id))[1], {
    ...common(visited),
    recipient: 'jo@example.net',
    status: 'queued',
    open: { is_bot: true, bot_reason: 'before_delivery' },
  });
});

test('an older event that was stored with these fields is read unchanged', async () => {
  const old = email();
  await acceptAll(accepting, [old]);
  const data = `{"email_id":"${old.id}", "from":"hello@acme.com",  "status":"queued"}`;
  await db.query('update events set data = $2::json where subject_id = $1', [old.id, data]);
  assert.deepEqual(await readings(old.id), [JSON.parse(data)]);
  const delivery = await findDelivery(db, sender, { endpointId, id: old.eventId });
  assert.equal(delivery?.event?.data, data);
});
