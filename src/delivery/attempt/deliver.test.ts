/**
 * One delivery from claim to settlement with an SMTP server of the tests and without a database: stops, freezes,
 * expiry, deliveries that are given up, and a dead uplink. Whole emails are in test/journey.
 */
import { hash } from 'node:crypto';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pino from 'pino';
import { type FakeMx, startFakeMx } from '../../../test/support/fake-mx.ts';
import { newDelivery } from '../../../test/support/deliveries.ts';
import { connectionsTo, TEST_WORLD as world } from '../../../test/support/smtp-connections.ts';
import { waitFor } from '../../../test/support/wait.ts';
import type { Settlement } from '../../settle/settlement.ts';
import { Cutoff } from './cutoff.ts';
import type { Delivery } from '../memory/delivery.ts';
import { createDeliver, type Deliver, type DeliverOptions } from './deliver.ts';
import { ProviderBlocks } from '../blocks/provider-blocks.ts';
import { DEFAULT_SHAPING } from '../shaping/settings.ts';
import { Slots } from '../memory/slots.ts';
import { TlsRules } from '../route/tls-rules.ts';
import { TlsCounters } from '../route/tls-counters.ts';

const MESSAGE = 'Subject: hello\r\n\r\nHello\r\n';

const NEVER = { after: new Promise(() => {}), reply: '250 2.0.0 Taken' };

/** Blocks without any refusal. */
function blocksWithout(): ProviderBlocks {
  return new ProviderBlocks({
    db: { query: () => assert.fail('nothing is counted') },
    world,
    log: pino({ level: 'silent' }),
    rules: DEFAULT_SHAPING.block,
    sources: [],
    heloName: 'out.letterhaus.test',
    onDue: () => {},
    onEnded: () => {},
  });
}

/** Delivers every recipient to one server, and adds the settlements to the list. */
function deliverTo(
  mx: FakeMx,
  delivery: { leaseId: string },
  settled: Settlement[],
  {
    connections = connectionsTo(mx),
    health,
    ...changes
  }: Partial<DeliverOptions & { health: DeliverOptions['settling']['health'] }> = {},
): Deliver {
  return createDeliver({
    db: {
      query: async <Row>() => [{ isSuppressed: false, isDomainDeleted: false }] as Row[],
      transaction: () => assert.fail('no mailbox is full'),
    },
    world,
    log: pino({ level: 'silent' }),
    lease: { leaseId: () => delivery.leaseId, isFresh: () => true },
    onAttemptEnded: () => {},
    takesReports: true,
    earlyRetries: { noteDelayed: () => {}, retryMs: () => 1_000 },
    isLeased: () => true,
    builder: {
      build: async () => ({
        parts: [Buffer.from(MESSAGE)],
        sizeBytes: MESSAGE.length,
        sha256: hash('sha256', MESSAGE),
        smtpUtf8: false,
      }),
    },
    contents: {
      unavailable: () => assert.fail('the message is small'),
      use: () => assert.fail('the message is small'),
    },
    connections,
    blocks: blocksWithout(),
    mailRouting: {
      findRoute: async () => ({
        kind: 'hosts',
        provider: 'receiver.test',
        hosts: [{ name: 'mx.receiver.test', preference: 10, addresses: [mx.address] }],
        dropped: [],
      }),
    },
    tls: new TlsRules({
      resolver: { tlsa: () => assert.fail('no TLSA records exist') },
      policies: null,
      counters: new TlsCounters(async () => {}),
      port: mx.port,
      world,
    }),
    viaRelay: false,
    hasHostName: true,
    logRecipients: 'none',
    leastTls: 'opportunistic',
    returnPathSecret: () => Buffer.alloc(32),
    retryWaitsMs: [60_000],
    settling: {
      settle: async (settlement) => {
        settled.push(settlement);
        return 'counted';
      },
      health: { isStalled: false, waitForRecovery: async () => true, ...health },
    },
    onAttemptSettled: () => {},
    ...changes,
  });
}

test('an attempt that a stop leaves in doubt names the server that may have the message', async () => {
  await using mx = await startFakeMx({ startTls: 'offered', phases: { data: NEVER } });
  const delivery = newDelivery('jo@receiver.test', {
    leasedSinceMs: performance.now(),
    expiresAtMs: performance.now() + 3600_000,
  });
  const settled: Settlement[] = [];
  const cutoff = new Cutoff();
  const delivered = deliverTo(mx, delivery, settled)(delivery, cutoff);
  await waitFor(() => mx.messages.length === 1, { what: 'the message up to its dot' });
  cutoff.cutUnsent();
  cutoff.cutAll();
  assert.deepEqual(await delivered, { kind: 'settled' });
  const [{ status, attempt, smtp }] = settled as [Settlement];
  assert.equal(status, 'deferred');
  const { in_doubt, mx: host, ip, tls, tls_policy } = attempt as Record<string, unknown>;
  assert.equal(in_doubt, true);
  assert.deepEqual([host, ip, tls_policy], ['mx.receiver.test', mx.address, 'none']);
  assert.match((tls as { version: string }).version, /^TLSv1\./);
  assert.partialDeepStrictEqual(smtp, { mx: 'mx.receiver.test', ip: mx.address });
});

test('a worker that resumes from a freeze before the final dot does not send it, even under a renewed lease', async () => {
  const goAhead = Promise.withResolvers<void>();
  const phases = { data_command: { after: goAhead.promise, reply: '354 Go ahead' } };
  await using mx = await startFakeMx({ phases });
  const delivery = newDelivery('jo@receiver.test', { expiresAtMs: performance.now() + 3600_000 });
  const settled: Settlement[] = [];
  let hasSlept = false;
  const deliver = deliverTo(mx, delivery, settled, {
    lease: { leaseId: () => delivery.leaseId, isFresh: () => !hasSlept },
    health: {
      get isStalled() {
        return hasSlept;
      },
      // The next heartbeat succeeds while the attempt waits for outcomes.
      waitForRecovery: async () => {
        hasSlept = false;
        return true;
      },
    },
  });
  const delivered = deliver(delivery, new Cutoff());
  const isAsked = () => mx.sessions.some(({ lines }) => lines.includes('C: DATA'));
  await waitFor(isAsked, { what: 'DATA' });
  hasSlept = true;
  goAhead.resolve();
  assert.notEqual((await delivered).kind, 'settled');
  assert.deepEqual([mx.messages, settled], [[], []]);
});

test('an email without content fails without a connection', async () => {
  await using mx = await startFakeMx();
  const expiresAtMs = performance.now() + 3600_000;
  const delivery = newDelivery('jo@receiver.test', { contentMissing: true, expiresAtMs });
  const settled: Settlement[] = [];
  assert.equal((await deliverTo(mx, delivery, settled)(delivery, new Cutoff())).kind, 'settled');
  const [{ status, attempt, reason }] = settled as [Settlement];
  assert.deepEqual([status, attempt, mx.sessions.length], ['failed', null, 0]);
  assert.match(String(Object(reason).advice), /content of the email was lost .* Send it again/);
});

test('mail that expires untried names why it waited', async () => {
  await using mx = await startFakeMx();
  const delivery = newDelivery('jo@receiver.test', { provider: 'receiver.test', expiresAtMs: 0 });
  const connections = connectionsTo(mx);
  const settled: Settlement[] = [];
  const deliver = deliverTo(mx, delivery, settled, { connections });
  await deliver(delivery, new Cutoff());
  for (let times = 0; times < 3; times += 1) {
    connections.reportUnreached(
      'receiver.test',
      [mx.address],
      'mx.receiver.test: no route to host',
    );
  }
  await waitFor(() => connections.suspendedForMs('receiver.test') > 0, { what: 'the suspension' });
  await deliver(delivery, new Cutoff());
  await deliver({ ...delivery, attempts: 1 }, new Cutoff());
  const [behind, suspended, tried] = settled.map(({ status, reason }) => ({ status, ...reason }));
  const failed = { status: 'failed', category: 'expired' };
  assert.partialDeepStrictEqual(behind, { ...failed, blame: 'us' });
  assert.match(String(Object(behind).advice), /before it could be tried: it waited behind/);
  assert.partialDeepStrictEqual(suspended, { ...failed, blame: 'receiver' });
  assert.match(
    String(Object(suspended).advice),
    /no server .* answered .* \(mx.receiver.test: no route/,
  );
  assert.partialDeepStrictEqual(tried, { ...failed, blame: 'receiver' });
  assert.match(String(Object(tried).advice), /shows the result of each attempt/);
});

test('mail that expires while its domain is not verified names that as the reason', async () => {
  await using mx = await startFakeMx();
  const delivery = newDelivery('jo@receiver.test', {
    attempts: 3,
    expiresAtMs: 0,
    isDomainUnverified: true,
  });
  const settled: Settlement[] = [];
  await deliverTo(mx, delivery, settled)(delivery, new Cutoff());
  const [{ status, reason }] = settled as [Settlement];
  const { category, blame } = reason as Record<string, unknown>;
  assert.deepEqual([status, category, blame], ['failed', 'expired', 'sender']);
  assert.equal(mx.connections, 0);
});

test('no outcome is settled for a delivery that this worker does not lease', async () => {
  await using mx = await startFakeMx();
  const delivery = newDelivery('jo@receiver.test', {
    leasedSinceMs: performance.now(),
    expiresAtMs: performance.now() + 3600_000,
  });
  const settled: Settlement[] = [];
  const deliver = deliverTo(mx, delivery, settled, { isLeased: () => false });
  await assert.rejects(deliver(delivery, new Cutoff()), /does not lease/);
  assert.deepEqual(settled, []);
});

/** A running delivery that has left its slot. */
function newSlotlessDelivery() {
  const delivery = newDelivery('jo@receiver.test', {
    leasedSinceMs: performance.now(),
    expiresAtMs: performance.now() + 3600_000,
  });
  const slots = new Slots({ slotlessBytesMax: Infinity });
  const slot = slots.start('trial', 'project', delivery.weightBytes);
  slots.leaveSlotIfSlow(slot);
  return { ...delivery, slot };
}

test('a silent server that is given up is a failed attempt, and its connection is closed', async () => {
  await using mx = await startFakeMx({ phases: { greeting: {} } });
  const delivery = newSlotlessDelivery();
  const settled: Settlement[] = [];
  const delivered = deliverTo(mx, delivery, settled)(delivery, new Cutoff());
  await waitFor(() => mx.connections === 1, { what: 'a connection' });
  delivery.slot.giveUp();
  assert.deepEqual(await delivered, { kind: 'settled' });
  await waitFor(() => mx.sessions[0]!.ended, { what: 'the end of the connection' });
  const [{ status, attempt, smtp }] = settled as [Settlement];
  assert.equal(status, 'deferred');
  assert.partialDeepStrictEqual(attempt, { phase: 'connect', in_doubt: false, ip: mx.address });
  assert.match((smtp as { message: string }).message, /was silent/);
});

test('a look-up that is given up does not count as an attempt and is repeated after a minute', async () => {
  await using mx = await startFakeMx();
  const delivery = newSlotlessDelivery();
  const mailRouting = { findRoute: () => new Promise<never>(() => {}) };
  const delivered = deliverTo(mx, delivery, [], { mailRouting })(delivery, new Cutoff());
  delivery.slot.giveUp();
  assert.deepEqual(await delivered, { kind: 'release', delayMs: 60_000 });
});

test('a message that is being sent is not given up', async () => {
  const goAhead = Promise.withResolvers<void>();
  const phases = { mail: { after: goAhead.promise, reply: '250 2.1.0 Ok' } };
  await using mx = await startFakeMx({ phases });
  const delivery = newSlotlessDelivery();
  const settled: Settlement[] = [];
  const delivered = deliverTo(mx, delivery, settled)(delivery, new Cutoff());
  await waitFor(() => delivery.slot.hasSession, { what: 'a session' });
  assert.equal(delivery.slot.group!.ungreeted.size, 0);
  goAhead.resolve();
  assert.deepEqual(await delivered, { kind: 'settled' });
  assert.equal(mx.messages.length, 1);
});

function inAnHour(): Delivery {
  const [leasedSinceMs, expiresAtMs] = [performance.now(), performance.now() + 3600_000];
  return newDelivery('jo@receiver.test', { leasedSinceMs, expiresAtMs });
}

const uplink = (isDown: boolean) => [{ kind: 'uplink' as const, isDown, failedForMs: 20_000 }];

test('while the uplink is down, a failure blames us once, counts no attempt and is retried soon', async () => {
  await using mx = await startFakeMx({ phases: { greeting: { drop: 'rst' } } });
  const delivery = inAnHour();
  const settled: Settlement[] = [];
  const connections = connectionsTo(mx);
  connections.receive(uplink(true));
  const deliver = deliverTo(mx, delivery, settled, { connections });
  assert.deepEqual(await deliver(delivery, new Cutoff()), { kind: 'settled' });
  const [{ status, attempt, reason, retryMs, eventType }] = settled as [Settlement];
  assert.deepEqual([status, eventType, attempt], ['deferred', 'email.delivery_delayed', null]);
  assert.partialDeepStrictEqual(reason, { category: 'network', blame: 'us' });
  assert.equal(retryMs, 1_000);

  const db = {
    query: async <Row>() => [{ isSuppressed: false, isDomainDeleted: false, ...reason }] as Row[],
    transaction: () => assert.fail('no mailbox is full'),
  };
  connections.receive([{ kind: 'host', address: mx.address, skippedForMs: 0 }]);
  const again = deliverTo(mx, delivery, settled, { connections, db });
  assert.deepEqual(await again(delivery, new Cutoff()), { kind: 'release', delayMs: 1_000 });
  assert.equal(settled.length, 1);
});

test('an attempt that began while the uplink was down does not count against the provider', async () => {
  const hangUp = Promise.withResolvers<void>();
  const phases = { greeting: { after: hangUp.promise, drop: 'rst' as const } };
  await using mx = await startFakeMx({ phases });
  const delivery = inAnHour();
  const settled: Settlement[] = [];
  const connections = connectionsTo(mx);
  connections.receive(uplink(true));
  const delivered = deliverTo(mx, delivery, settled, { connections })(delivery, new Cutoff());
  await waitFor(() => mx.connections === 1, { what: 'a connection' });
  connections.receive(uplink(false));
  hangUp.resolve();
  assert.deepEqual(await delivered, { kind: 'settled' });
  assert.equal((settled[0]!.reason as { blame: string }).blame, 'us');
  assert.equal(connections.skippedForMs(mx.address), 0);
});
