/** Statements of webhooks and of the event stream, for statements.ts. */
import * as stream from '../../src/events/stream-store.ts';
import { recordEvent } from '../../src/events/event-store.ts';
import { newId } from '../../src/database/ids.ts';
import type { Page } from '../../src/database/page.ts';
import * as deliveries from '../../src/webhooks/delivery-store.ts';
import * as lists from '../../src/webhooks/deliveries/list-store.ts';
import { readStatistics } from '../../src/webhooks/deliveries/statistics-store.ts';
import * as endpoints from '../../src/webhooks/endpoint-store.ts';
import * as webhooks from '../../src/webhooks/sending/webhook-queue-store.ts';
import {
  type WebhookOutcome,
  WebhookOutcomes,
} from '../../src/webhooks/sending/webhook-outcomes.ts';
import * as replays from '../../src/webhooks/replay-store.ts';
import { SETTLING } from './mail-store.ts';
import { BUSY_ADDRESS } from './fill.ts';
import type { Exercise, Stage } from './statements.ts';

const PAGE: Page = { limit: 20, after: null, before: null };

/** Reads from the middle, from the end, and with filters that exclude everything. */
export async function readStreams({ db, sender, someEmailId }: Stage): Promise<void> {
  const all = { types: null, emailId: null, domain: null };
  const read = (after: stream.StreamPoint, filter: stream.StreamFilter) =>
    stream.readStream(db, sender, { after, filter, limit: 100, retentionH: 2160 });
  const latest = await stream.latestPoint(db, sender);
  for (const after of [stream.BEGINNING, { ...latest, subjectId: someEmailId }, latest]) {
    await read(after, all);
    await read(after, { ...all, emailId: someEmailId });
  }
  await stream.findNewer(db, [{ ...sender, at: latest }]);
}

export async function filterStreams({ db, sender }: Stage): Promise<void> {
  const after = stream.BEGINNING;
  const none = { types: ['email.complained' as const], emailId: null, domain: null };
  for (const filter of [none, { ...none, types: null, domain: 'nowhere.test' }]) {
    await stream.readStream(db, sender, { after, filter, limit: 100, retentionH: 2160 });
  }
}

async function notifyBatch(stage: Stage): Promise<void> {
  const { db, leaseId, sender, deadEndpointId } = stage;
  await webhooks.findDueEndpoints(db.webhooks, Date.now() - 250);
  const { projectId } = sender;
  const endpoint = { projectId, endpointId: deadEndpointId, lowWaterMs: -Infinity, max: 32 };
  const claimed = await webhooks.claimWebhooks(db.webhooks, leaseId, [endpoint]);
  const [released, settled] = [claimed.slice(0, 8), claimed.slice(8)];
  const claims = released.map((claim) => ({ ...claim, delayMs: 0 }));
  await webhooks.WEBHOOKS.release(db.webhooks, claims);
  const outcomes = new WebhookOutcomes(db.webhooks, {
    ...SETTLING,
    leaseId: () => leaseId,
    onSettled: () => {},
  });
  const attempt = { status: 500, latency_ms: 3, answer: '', error: null };
  await Promise.all(
    settled.map((one, index) => {
      const kind: WebhookOutcome['kind'] = index % 2 === 0 ? 'delivered' : 'failed';
      return outcomes.settle({ ...one, kind, retryMs: 5_000, suspendMs: 0, attempt });
    }),
  );
  await db.query('update webhook_endpoints set blocked_until = null, failures = 0');
}

async function closedEndpoint({ db, sender }: Stage): Promise<void> {
  const id = newId();
  const endpoint = { id, url: 'https://closed.test', events: null, secret: Buffer.from('x') };
  await endpoints.createEndpoint(db, sender, endpoint);
  await recordEvent(db, { scope: sender, type: 'domain.created', data: {} });
  await endpoints.deleteEndpoint(db, sender, id);
  const closed = { projectId: sender.projectId, endpointId: id };
  await webhooks.failPendingDeliveries(db.webhooks, closed, 500);
}

async function useEndpoints({ db, sender, endpointId: id }: Stage): Promise<void> {
  const other = { id: newId(), url: 'https://x.test', events: [], secret: Buffer.from('x') };
  await endpoints.createEndpoint(db, sender, other);
  await endpoints.listEndpoints(db, sender, PAGE);
  const found = await endpoints.findEndpoint(db, sender, other.id);
  await db.transaction((tx) => endpoints.lockEndpoint(tx, sender, other.id));
  await endpoints.findSecrets(db, sender, id);
  await endpoints.updateEndpoint(db, sender, { id: found!.id, status: 'disabled' });
  await endpoints.reenableEndpoint(db, sender, found!.id);
  await endpoints.rotateSecret(db, sender, { id: other.id, secret: Buffer.from('y') });
  await endpoints.deleteEndpoint(db, sender, other.id);
}

async function useDeliveries({ db, sender, endpointId, someEmailId }: Stage): Promise<void> {
  const list = (status: lists.DeliveryFilter['status'], page: Page) =>
    lists.listDeliveries(db, sender, { endpointId, status, page });
  const { rows } = await list(null, PAGE);
  for (const page of [PAGE, { ...PAGE, before: rows.at(-1)?.id ?? newId() }]) {
    await list(null, page);
    await list('failed', page);
  }
  const id = rows[0]?.id ?? newId();
  await deliveries.findDelivery(db, sender, { endpointId, id });
  await deliveries.listDeliveriesOfEmail(db, { ...sender, id: someEmailId }, 100);
  await replays.replayDeliveries(db, sender, { endpointId, ids: [id] });
  const event = { type: 'test', createdAt: new Date().toISOString(), data: '{}' };
  const attempt = { at: '', status: 200, latency_ms: 1, answer: null, error: null };
  const test = { endpointId, id: newId(), event, status: 'delivered', attempt } as const;
  await deliveries.recordTestDelivery(db, sender, test);
}

async function useDeliveryRange({ db, sender, endpointId }: Stage): Promise<void> {
  for (const status of [null, 'failed'] as const) {
    const matches = { type: 'email.bounced', code: { like: '5__' } } as const;
    const range = { endpointId, ...lastWeek(), status, ...matches, limit: 100 };
    await deliveries.findDeliveryIds(db, sender, { ...range, after: newId() });
    await deliveries.countDeliveries(db, sender, range);
  }
}

function lastWeek(): { since: Date; until: Date } {
  return { since: new Date(Date.now() - 7 * 86_400_000), until: new Date() };
}

/** Begins a replay of a range, continues it once, and ends it by a disabled endpoint or at its end. */
async function useReplays({ db, sender, endpointId, deadEndpointId }: Stage): Promise<void> {
  for (const id of [endpointId, deadEndpointId]) {
    const any = { status: null, type: null, code: null };
    const range = { endpointId: id, ...lastWeek(), ...any, total: 100 };
    const replay = await replays.createReplay(db, sender, range);
    await replays.findRunningReplay(db, sender, id);
    await replays.hasNodeWithoutFilters(db);
    await replays.findReplay(db, sender, { endpointId: id, id: replay?.id ?? newId() });
  }
  await replays.advanceReplays(db.webhooks);
  await db.query(`update webhook_endpoints set status = 'disabled' where project_id = $1`, [
    sender.projectId,
  ]);
  await replays.advanceReplays(db.webhooks);
  await db.query(`update webhook_endpoints set status = 'enabled' where project_id = $1`, [
    sender.projectId,
  ]);
}

/** Lists deliveries of the endpoint without the newest events. */
function listDelivered({ db, sender, deadEndpointId: endpointId }: Stage): Promise<unknown> {
  const filter = { status: 'delivered', type: null } as const;
  return lists.listDeliveries(db, sender, { ...filter, endpointId, page: PAGE });
}

/** Lists deliveries about an email and about a recipient with much mail. */
async function listDeliveriesAbout(stage: Stage): Promise<void> {
  const { db, sender, endpointId, someEmailId } = stage;
  for (const about of [{ emailId: someEmailId }, { recipientKey: BUSY_ADDRESS }]) {
    await lists.listDeliveries(db, sender, { endpointId, about, page: PAGE });
  }
}

async function useStatistics({ db, sender, endpointId }: Stage): Promise<void> {
  await readStatistics(db, sender, { endpointId, ...lastWeek(), intervals: 48 });
}

export const WEBHOOK_EXERCISES: readonly Exercise[] = [
  { what: 'webhooks: notify of a batch', asks: 32, run: notifyBatch },
  { what: 'webhooks: end a closed provider', asks: 10, run: closedEndpoint },
  { what: 'webhooks: endpoints', asks: 10, run: useEndpoints },
  { what: 'webhooks: deliveries', asks: 100, run: useDeliveries },
  // Reads the whole partition of a week that has just begun: it is then smaller than its index.
  { what: 'webhooks: deliveries in a range', asks: 500, run: useDeliveryRange },
  // The events of 500 emails to one address.
  {
    what: 'webhooks: deliveries about an email or recipient',
    asks: 1_500,
    run: listDeliveriesAbout,
  },
  // 20,000 deliveries, and the queue.
  { what: 'webhooks: statistics', asks: 30_000, run: useStatistics },
  // Each step queues 500.
  { what: 'webhooks: replays', asks: 500, run: useReplays },
  {
    what: 'webhooks: deliveries by status, none',
    asks: 50_000,
    run: listDelivered,
  },
];
