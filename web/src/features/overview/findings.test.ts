/** Findings of the overview, and facts that are not findings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Domain, Limits, Queue, Stats, Webhook } from '../../../../sdk/src/api.ts';
import { type Facts, findingsOf } from './findings.ts';

const NOTHING: Facts = {
  isOnHold: false,
  conditions: [],
  projectId: 'p1',
  domains: [],
  webhooks: [],
  providers: [],
  limits: undefined,
  stats: undefined,
};

function textsOf(facts: Partial<Facts>): string[] {
  return findingsOf({ ...NOTHING, ...facts }).map(({ text }) => text);
}

function domain(status: Domain['status'], more: Partial<Domain> = {}): Domain {
  return { id: 'd1', name: 'acme.test', status, can_sign: true, advice: [], ...more } as Domain;
}

function stats(totals: { delivered: number; bounced: number; complained: number }): Stats {
  return { totals: [{ sent: 0, ...totals }] } as unknown as Stats;
}

test('a project in order has no findings', () => {
  assert.deepEqual(textsOf({ domains: [domain('verified')] }), []);
});

test('a domain is reported that cannot send, and once', () => {
  for (const status of ['pending', 'not_started', 'degraded', 'failed'] as const) {
    assert.equal(textsOf({ domains: [domain(status)] }).length, 1, status);
  }
  assert.match(textsOf({ domains: [domain('failed', { can_sign: false })] }).join(), /DKIM key/);
});

test('of the advice about a verified domain only its reputation is reported', () => {
  const advice: Domain['advice'] = [
    { about: 'reputation', message: 'Bounces.' },
    { about: 'dmarc', message: 'Publish a policy.' },
  ];
  assert.deepEqual(textsOf({ domains: [domain('verified', { advice })] }), ['acme.test: Bounces.']);
});

test('webhooks are reported while they fail or are disabled', () => {
  const webhook = { id: 'w1', url: 'https://a.test', status: 'enabled', failing_since: null };
  const count = (more: object) =>
    textsOf({ webhooks: [{ ...webhook, ...more } as Webhook] }).length;
  assert.equal(count({}), 0);
  assert.equal(count({ status: 'disabled' }), 1);
  assert.equal(count({ failing_since: '2026-11-21T08:30:00Z' }), 1);
});

test('a suspended provider is reported while mail waits for it', () => {
  const count = (state: string, waiting: number) =>
    textsOf({
      providers: [{ provider: 'google', state, waiting }] as unknown as Queue['providers'],
    }).length;
  assert.equal(count('suspended', 1), 1);
  assert.equal(count('suspended', 0), 0);
  assert.equal(count('full', 1), 0);
});

test('storage is reported from 80 percent on', () => {
  const count = (used: number) =>
    textsOf({ limits: { storage: { used_bytes: used, max_bytes: 100 } } as Limits }).length;
  assert.equal(count(79), 0);
  assert.equal(count(80), 1);
});

test('bounces and complaints are reported above their shares, of at least 100 recipients', () => {
  assert.equal(textsOf({ stats: stats({ delivered: 95, bounced: 5, complained: 0 }) }).length, 0);
  assert.equal(textsOf({ stats: stats({ delivered: 94, bounced: 6, complained: 1 }) }).length, 2);
  assert.equal(textsOf({ stats: stats({ delivered: 9, bounced: 90, complained: 9 }) }).length, 0);
});

test('a condition of an own domain is not reported twice', () => {
  const condition = (type: string, projectId: string) =>
    ({ type, message: 'm', remedy: 'r', details: { project_id: projectId } }) as never;
  assert.deepEqual(textsOf({ conditions: [condition('domain.degraded', 'p1')] }), []);
  assert.deepEqual(textsOf({ conditions: [condition('domain.degraded', 'p2')] }), ['m']);
  assert.deepEqual(textsOf({ conditions: [condition('disk.low', 'p1')] }), ['m']);
});
