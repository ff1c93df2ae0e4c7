/** Findings of the overview: when there is one, its weight, and facts that are not findings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Domain, Limits, Queue, Webhook } from '../../../../../sdk/src/api.ts';
import { type CountedPart } from '../figures/figures.ts';
import { type Facts, type Finding, findingsOf, rateLimitsOf } from './findings.ts';
import { overallOf, statesOf, stripText } from './verdict.ts';

const HOUR_MS = 3_600_000;
const NOW_MS = Date.parse('2026-11-25T10:30:00Z');
const FIRST_HOUR_MS = Date.parse('2026-11-24T11:00:00Z');

const LIMITS = {
  storage: { used_bytes: 0, max_bytes: 100 },
  reputation: { on: true, bounces: 0.05, complaints: 0.003, min: 500, pauses: false },
} as Limits;

/** The last 24 hours; `counts` are those of the hours from their number on. */
function hoursWith(counts: Record<number, Partial<CountedPart>> = {}): CountedPart[] {
  return Array.from({ length: 24 }, (_, index) => ({
    startMs: FIRST_HOUR_MS + index * HOUR_MS,
    endMs: FIRST_HOUR_MS + (index + 1) * HOUR_MS,
    isUnfinished: index === 23,
    slowestS: null,
    emails: 0,
    recipients: 0,
    delivered: 0,
    deferred: 0,
    bounced: 0,
    complained: 0,
    ...counts[index],
  }));
}

const NOTHING: Facts = {
  isOnHold: false,
  conditions: [],
  projectId: 'p1',
  domains: [],
  webhooks: [],
  providers: [],
  limits: LIMITS,
  hours: hoursWith(),
  nowMs: NOW_MS,
};

const found = (facts: Partial<Facts>): Finding[] => findingsOf({ ...NOTHING, ...facts });
const weightsOf = (facts: Partial<Facts>): string[] => found(facts).map(({ weight }) => weight);

function domain(status: Domain['status'], more: Partial<Domain> = {}): Domain {
  return { id: 'd1', name: 'acme.test', status, can_sign: true, advice: [], ...more } as Domain;
}

test('a project in order has no findings', () => {
  assert.deepEqual(found({ domains: [domain('verified')] }), []);
});

test('a domain is reported that cannot send, and once', () => {
  for (const status of ['pending', 'not_started', 'degraded', 'failed'] as const) {
    assert.equal(found({ domains: [domain(status)] }).length, 1, status);
  }
  const [unsigned] = found({ domains: [domain('failed', { can_sign: false })] });
  assert.match(unsigned!.title, /DKIM key/);
});

test('the reputation of a verified domain is urgent, and other advice can wait', () => {
  const advice: Domain['advice'] = [
    { about: 'dmarc', message: 'Publish a policy.' },
    { about: 'reputation', message: 'Bounces.' },
  ];
  const domains = [domain('verified', { advice })];
  assert.deepEqual(weightsOf({ domains }), ['high', 'low']);
  assert.equal(found({ domains })[0]!.detail, 'Bounces.');
});

test('webhooks are reported while they fail or are disabled', () => {
  const webhook = { id: 'w1', url: 'https://a.test', status: 'enabled', failing_since: null };
  const count = (more: object) => found({ webhooks: [{ ...webhook, ...more } as Webhook] }).length;
  assert.equal(count({}), 0);
  assert.equal(count({ status: 'disabled' }), 1);
  assert.equal(count({ failing_since: '2026-11-21T08:30:00Z' }), 1);
});

test('a provider is reported while mail waits for it: suspended, slowed, or due for half an hour', () => {
  const weights = (state: string, waiting: number, dueMinutes = 0) => {
    const oldest_due_at = new Date(NOW_MS - dueMinutes * 60_000).toISOString();
    const row = { provider: 'google', state, waiting, limit: null, oldest_due_at };
    return weightsOf({ providers: [row] as unknown as Queue['providers'] });
  };
  assert.deepEqual(weights('suspended', 1), ['high']);
  assert.deepEqual(weights('slowed', 1), ['medium']);
  assert.deepEqual(weights('suspended', 0), []);
  assert.deepEqual(weights('full', 1), []);
  assert.deepEqual(weights('full', 1, 31), ['medium']);
  assert.deepEqual(weights('full', 1, 241), ['high']);
});

test('storage is reported from 80 percent on', () => {
  const count = (used: number) => {
    const storage = { used_bytes: used, max_bytes: 100 };
    return found({ limits: { ...LIMITS, storage } }).length;
  };
  assert.equal(count(79), 0);
  assert.equal(count(80), 1);
});

test('bounces and complaints are reported above the limits of the project, of at least 100 recipients', () => {
  const ids = (hour: Partial<CountedPart>, limits = LIMITS) =>
    found({ hours: hoursWith({ 20: hour }), limits }).map(({ id, weight }) => `${id} ${weight}`);
  assert.deepEqual(ids({ delivered: 95, bounced: 5 }), []);
  assert.deepEqual(ids({ delivered: 94, bounced: 6, complained: 1 }), [
    'rate.bounced high',
    'rate.complained high',
  ]);
  assert.deepEqual(ids({ delivered: 999, bounced: 1, complained: 2 }), ['rate.complained medium']);
  assert.deepEqual(ids({ delivered: 9, bounced: 90, complained: 9 }), []);
  const strict = { ...LIMITS, reputation: { ...LIMITS.reputation, bounces: 0.01 } };
  assert.deepEqual(ids({ delivered: 97, bounced: 3 }, strict), ['rate.bounced high']);
});

test('a burst of bounces is reported before the rate of the day is too high', () => {
  const weights = (bounced: number) => {
    const hours = hoursWith({ 5: { delivered: 9_000 }, 23: { delivered: 200 - bounced, bounced } });
    return weightsOf({ hours });
  };
  assert.deepEqual(weights(10), []);
  assert.deepEqual(weights(12), ['medium']);
  assert.deepEqual(weights(40), ['high']);
});

test('attempts are reported when more than half of the last two hours are deferred', () => {
  const count = (hour: number, deferred: number) =>
    found({ hours: hoursWith({ [hour]: { delivered: 30, deferred } }) }).length;
  assert.equal(count(23, 40), 1);
  assert.equal(count(23, 30), 0);
  assert.equal(count(20, 40), 0, 'it is over');
});

test('a rate holds since the first of the latest hours above its limit, over hours without mail', () => {
  const hours = hoursWith({
    2: { delivered: 10, bounced: 90 },
    5: { delivered: 100 },
    20: { delivered: 60, bounced: 40 },
    22: { delivered: 60, bounced: 40 },
  });
  const [finding] = found({ hours });
  assert.equal(finding!.since, '2026-11-25T07:00:00.000Z');
  assert.equal(finding!.figure!.value, '170');
});

test('a condition of an own domain is not reported twice', () => {
  const titles = (type: string, projectId: string) => {
    const facts = { type, subject: 's', message: 'm', remedy: 'r', since: '2026-11-25T00:00:00Z' };
    const one = { ...facts, details: { project_id: projectId } };
    return found({ conditions: [one as never] }).map(({ title }) => title);
  };
  assert.deepEqual(titles('domain.degraded', 'p1'), []);
  assert.deepEqual(titles('domain.degraded', 'p2'), ['m']);
  assert.deepEqual(titles('disk.low', 'p1'), ['m']);
});

test('the verdict tells a single finding with its action, and counts several', () => {
  const hours = hoursWith({ 20: { delivered: 60, bounced: 40 } });
  assert.equal(overallOf([]).tone, 'good');
  const webhook = { id: 'w1', url: 'https://a.test', status: 'enabled' };
  const webhooks = [{ ...webhook, failing_since: '2026-11-25T01:00:00Z' } as Webhook];
  const failing = overallOf(found({ webhooks }));
  assert.deepEqual([failing.tone, failing.since], ['wait', '2026-11-25T01:00:00Z']);
  assert.deepEqual([failing.cause, failing.only?.id], ['a webhook fails', 'webhook.failing:w1']);
  assert.equal(failing.sentences[0], 'Deliveries to the webhook at a.test fail.');
  const both = overallOf(found({ webhooks, hours }));
  assert.deepEqual([both.tone, both.since], ['bad', '2026-11-25T07:00:00.000Z']);
  assert.deepEqual([both.cause, both.sentences], ['2 findings need action', []]);
});

test('the verdict does not repeat its title in a sentence', () => {
  const { cause, sentences } = overallOf(found({ domains: [domain('pending')] }));
  assert.equal(cause, 'acme.test is not verified');
  assert.deepEqual(sentences, ['You cannot send from this domain.']);
});

test('each hour shows its own rates, and the findings that held in it', () => {
  const hours = hoursWith({
    2: { delivered: 10, bounced: 30 },
    3: { delivered: 1, bounced: 1 },
    4: { delivered: 40, deferred: 60 },
    5: { delivered: 100 },
  });
  const limits = rateLimitsOf(LIMITS);
  const states = statesOf(hours, [], limits);
  assert.deepEqual(states.slice(0, 7), ['quiet', 'quiet', 'bad', 'good', 'wait', 'good', 'quiet']);
  const since = new Date(hours[22]!.startMs + 600_000).toISOString();
  const finding = { ...found({ hours })[0]!, weight: 'medium' as const, since };
  assert.deepEqual(statesOf(hours, [finding], limits).slice(21), ['quiet', 'wait', 'wait']);
  assert.match(stripText(hours, states), /^no mail until .*, degraded until .*, no mail now$/);
});
