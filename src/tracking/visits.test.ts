/** Visits of links in memory, before they are stored: what counts, what is dropped, and what a long outage may take. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import pino from 'pino';
import { DatabaseUnavailable } from '../database/database.ts';
import type { TrackedVisit } from './tracking-store.ts';
import {
  MANY_LINKS,
  type Visit,
  type VisitResult,
  VisitBuffer,
  VISITS_PER_MINUTE,
  WAITING_MAX,
} from './visits.ts';

const BROWSER = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';

function startVisits() {
  const stored: TrackedVisit[] = [];
  const results: Partial<Record<VisitResult, number>> = {};
  const state = { nowMs: 0, isAvailable: true, stored: (count: number) => count };
  let id = 0;
  const visits = new VisitBuffer({
    world: { monotonicMs: () => state.nowMs, newId: () => String((id += 1)) },
    log: pino({ level: 'silent' }),
    write: async (batch) => {
      if (!state.isAvailable) throw new DatabaseUnavailable('the database is unavailable');
      assert.ok(batch.length <= 100);
      stored.push(...batch);
      return { stored: state.stored(batch.length), queuedWebhooks: 0 };
    },
    onWebhooksQueued: () => assert.fail('no webhook was queued'),
    onResult: (result, count) => (results[result] = (results[result] ?? 0) + count),
  });
  return { visits, stored, results, state };
}

type Change = Partial<Omit<Visit, 'link'>> & { target?: string | null; position?: number };

function visit({ target = 'https://a.test/', position = 0, ...change }: Change = {}): Visit {
  const who = { projectId: 'p', environment: 'live' as const, emailId: 'e', position };
  const request = { isHead: false, userAgent: BROWSER, purpose: null, ip: '203.0.113.77' };
  return { ...request, ...change, link: { ...who, target } };
}

test('a click and an open are stored with their client and without the last part of its address', async () => {
  const { visits, stored, state, results } = startVisits();
  visits.add(visit());
  state.nowMs = 1_500;
  visits.add(visit({ target: null, ip: '2001:db8:1:2:3::7', userAgent: 'Mozilla/5.0' }));
  await visits.flush();
  const [click, open] = stored;
  assert.deepEqual([click?.type, click?.agoMs, click?.botReason], ['email.clicked', 1_500, null]);
  assert.deepEqual(click?.facts, {
    link: 'https://a.test/',
    ip: '203.0.113.0',
    user_agent: BROWSER,
  });
  assert.deepEqual([open?.type, open?.agoMs, open?.botReason], ['email.opened', 0, 'prefetch']);
  assert.deepEqual(open?.facts, { ip: '2001:db8:1::', user_agent: 'Mozilla/5.0' });
  assert.deepEqual(results, { stored: 2 });
});

test('a repeated request counts once within a minute', async () => {
  const { visits, stored, results, state } = startVisits();
  for (let times = 0; times < 10; times += 1) visits.add(visit());
  visits.add(visit({ target: 'https://b.test/' }));
  visits.add(visit({ position: 1 }));
  visits.add(visit({ ip: '203.0.113.78' }));
  await visits.flush();
  assert.deepEqual([stored.length, results], [4, { repeated: 9, stored: 4 }]);
  state.nowMs += 60_001;
  visits.add(visit());
  await visits.flush();
  assert.equal(stored.length, 5);
});

test('a client that requests more than its limit is not stored', async () => {
  const { visits, stored, results, state } = startVisits();
  const flood = () => {
    for (let position = 0; position < VISITS_PER_MINUTE + 50; position += 1) {
      visits.add(visit({ position, ip: `2001:db8:1:2::${position}` }));
    }
  };
  flood();
  visits.add(visit({ ip: '203.0.113.78' }));
  await visits.flush();
  assert.equal(stored.length, VISITS_PER_MINUTE + 1);
  assert.equal(results.limited, 50);
  state.nowMs += 60_001;
  flood();
  await visits.flush();
  assert.equal(stored.length, 2 * VISITS_PER_MINUTE + 1);
});

test('while the database is unavailable, visits wait within limits and none of them is lost', async () => {
  const { visits, stored, results, state } = startVisits();
  state.isAvailable = false;
  for (let position = 0; position < WAITING_MAX + 30; position += 1) {
    visits.add(visit({ position, ip: `203.0.${position % 100}.${position % 250}` }));
  }
  await visits.flush();
  assert.deepEqual([stored.length, results], [0, { dropped: 30 }]);
  state.isAvailable = true;
  await visits.stop();
  assert.equal(new Set(stored.map(({ position }) => position)).size, WAITING_MAX);
});

test('requests for many different links of a recipient at once count as a machine', async () => {
  const { visits, stored, state } = startVisits();
  const click = (number: number) => visits.add(visit({ target: `https://${number}.test/` }));
  for (let number = 1; number < MANY_LINKS; number += 1) click(number);
  await visits.flush();
  assert.deepEqual(new Set(stored.map(({ botReason }) => botReason)), new Set([null]));
  state.nowMs += 10_001;
  for (let number = 11; number < 11 + MANY_LINKS; number += 1) click(number);
  visits.add(visit({ position: 1 }));
  await visits.flush();
  const reasons = stored.slice(MANY_LINKS - 1).map(({ botReason }) => botReason);
  assert.deepEqual(reasons, [...Array.from({ length: MANY_LINKS }, () => 'many_links'), null]);
});

test('hostile user agents are stored as short, plain text', async () => {
  const { visits, stored } = startVisits();
  visits.add(visit({ userAgent: `x\0\ud800é\n${'y'.repeat(5_000)}` }));
  await visits.flush();
  const { user_agent: text } = stored[0]!.facts as { user_agent: string };
  assert.match(text, /^x\?\?\?\?y+$/);
  assert.equal(text.length, 300);
});

test('visits that the database does not store are counted', async () => {
  const { visits, results, state } = startVisits();
  state.stored = () => 1;
  for (const position of [0, 1, 2]) visits.add(visit({ position }));
  await visits.flush();
  assert.deepEqual(results, { stored: 1, not_stored: 2 });
});

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function usedBytes(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

test('waiting visits keep only the beginning of a long user agent', async () => {
  const { visits, state, stored } = startVisits();
  state.isAvailable = false;
  const before = usedBytes();
  for (let client = 0; client < WAITING_MAX; client += 1) {
    const ip = `203.0.${client >> 8}.${client & 255}`;
    const userAgent = Buffer.alloc(12_000, `Browser ${client} `).toString();
    visits.add(visit({ ip, userAgent }));
  }
  assert.ok(usedBytes() - before < 20 * 1024 * 1024);
  state.isAvailable = true;
  await visits.flush();
  assert.equal(stored.length, WAITING_MAX);
});
