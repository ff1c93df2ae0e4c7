/**
 * Mail that waits for an uplink or a block to end, in a real queue table: it becomes due at once, and no other mail
 * does.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import pino from 'pino';
import { newDelivery } from '../../../test/support/deliveries.ts';
import { newEmail, newSender } from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { AcceptStore } from '../../accept/store/accept-store.ts';
import { newId } from '../../database/ids.ts';
import { RECIPIENTS } from './queue-store.ts';
import type { Delivery } from '../memory/delivery.ts';
import { EarlyRetries } from './early-retries.ts';
import { DEFAULT_SHAPING } from '../shaping/settings.ts';
import { UplinkView } from '../outage/uplink-view.ts';
import { HOUR_MS } from '../../lib/units.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const { uplink: RULES } = DEFAULT_SHAPING;
const PHASE_MS = 60_000;

class Scene {
  nowMs = 10 * HOUR_MS;
  readonly leaseId = newId();
  readonly uplink: UplinkView;
  readonly earlyRetries: EarlyRetries;
  dueNow = 0;

  constructor() {
    const world = { monotonicMs: () => this.nowMs, random: () => 0.5 };
    this.uplink = new UplinkView(RULES, { clock: world, send: () => {} });
    const onDue = (): void => void (this.dueNow += 1);
    const log = pino({ level: 'silent' });
    this.earlyRetries = new EarlyRetries({ db, world, log, uplink: this.uplink, onDue });
  }

  /** Stores an accepted email, released for an hour. */
  async delayed(): Promise<Delivery> {
    const { leaseId } = this;
    const email = newEmail(await newSender(db), { to: ['jo@example.net'], mayHandOver: true });
    const store = new AcceptStore(db.accepting, {
      limit: { max: 100, windowS: 60 },
      leaseId: () => leaseId,
      onWebhooksQueued: () => {},
      onUnknown: () => {},
    });
    assert.equal((await store.accept(email)).outcome, 'accepted');
    const { projectId, id } = email;
    const message = { ...newDelivery().message, projectId, id };
    const delivery = newDelivery('jo@example.net', { message, leaseId });
    const release = { ...delivery, projectId, emailId: id, delayMs: HOUR_MS };
    assert.equal(await RECIPIENTS.release(db, [release]), 1);
    return delivery;
  }

  change(isDown: boolean): void {
    this.uplink.receive({ kind: 'uplink', isDown, failedForMs: PHASE_MS });
  }
}

async function dueInMs({ message }: Delivery): Promise<number> {
  const text = `select extract(epoch from due_at - app_now())::float8 * 1000 as ms from queue where email_id = $1`;
  const [row] = await db.query<{ ms: number }>(text, [message.id]);
  return row!.ms;
}

function waitUntilDueWithin(delivery: Delivery, ms: number): Promise<boolean> {
  return waitFor(async () => (await dueInMs(delivery)) <= ms, { what: `due within ${ms} ms` });
}

test('mail that waits while the uplink is down is retried soon, and at once when it is up', async () => {
  const scene = new Scene();
  const delivery = await scene.delayed();
  scene.earlyRetries.noteDelayed([delivery], scene.nowMs);
  scene.nowMs += PHASE_MS / 2;
  scene.change(true);
  await waitUntilDueWithin(delivery, 2 * RULES.retryMs);
  assert.ok((await dueInMs(delivery)) > 0);
  scene.change(false);
  await waitUntilDueWithin(delivery, 0);
  await waitFor(() => scene.dueNow > 0, { what: 'the worker to look' });
});

test('mail on hold, claimed mail and mail that waited before is not made due early', async () => {
  const scene = new Scene();
  const [onHold, claimed, older, moved] = [
    await scene.delayed(),
    await scene.delayed(),
    await scene.delayed(),
    await scene.delayed(),
  ];
  await db.query('update queue set held = true where email_id = $1', [onHold.message.id]);
  await db.query('update queue set claim = claim + 1 where email_id = $1', [claimed.message.id]);
  scene.earlyRetries.noteDelayed([older], scene.nowMs - 2 * PHASE_MS);
  scene.earlyRetries.noteDelayed([onHold, claimed, moved], scene.nowMs);
  scene.change(true);
  scene.change(false);
  await waitUntilDueWithin(moved, 0);
  for (const one of [onHold, claimed, older]) assert.ok((await dueInMs(one)) > HOUR_MS / 2);
});

test('mail whose wait is committed after the uplink is up again is due at once, too', async () => {
  const scene = new Scene();
  const delivery = await scene.delayed();
  const decidedMs = scene.nowMs;
  scene.change(true);
  scene.nowMs += 1_000;
  scene.change(false);
  scene.earlyRetries.noteDelayed([delivery], decidedMs);
  await waitUntilDueWithin(delivery, 0);
});

test('when a block ends, mail that was deferred a moment before or after is due at once', async () => {
  const scene = new Scene();
  const [before, long, later, other] = [
    await scene.delayed(),
    await scene.delayed(),
    await scene.delayed(),
    await scene.delayed(),
  ];
  scene.earlyRetries.noteDelayed([long], scene.nowMs - 60_000);
  scene.earlyRetries.noteDelayed([before, { ...other, provider: 'mx.other.test' }], scene.nowMs);
  scene.earlyRetries.retryAfterBlock(before.provider);
  await waitUntilDueWithin(before, 0);
  scene.nowMs += 1_000;
  scene.earlyRetries.noteDelayed([later], scene.nowMs);
  await waitUntilDueWithin(later, 0);
  for (const one of [long, other]) assert.ok((await dueInMs(one)) > HOUR_MS / 2);
});

test('retries become slower when much mail waits', () => {
  const scene = new Scene();
  const few = scene.earlyRetries.retryMs();
  assert.ok(few >= RULES.retryMs && few <= 2 * RULES.retryMs);
  const many = Array.from({ length: 8_000 }, () => newDelivery());
  scene.earlyRetries.noteDelayed(many, scene.nowMs);
  assert.ok(scene.earlyRetries.retryMs() >= 40_000);
});
