/** Shows what is settled for an outcome: the time of the next attempt, and the fields of the event. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newDelivery, newMessage } from '../../../test/support/deliveries.ts';
import { newId } from '../../database/ids.ts';
import { EXPIRED } from './outcomes-without-reply.ts';
import { outcomeOf } from './outcome.ts';
import { settlementOf } from './settle-outcome.ts';

const world = { newId, random: () => 0.5 };

function outcomeOfRcpt(code: number, enhancedCode: string | null, message: string) {
  const via = { mx: 'mx.example.net', ip: '192.0.2.1', tls: null, tls_policy: 'none' } as const;
  const reply = { code, enhancedCode, message };
  const result = {
    kind: 'replied',
    phase: 'rcpt',
    reply,
    via,
    source: '',
    transcript: [],
  } as const;
  return outcomeOf(result, 'delivered');
}

test('the first retry comes after about a minute, after seconds for a test key', () => {
  const deferred = outcomeOfRcpt(451, '4.7.1', 'Greylisted');
  const retryMs = (environment: 'live' | 'test') =>
    settlementOf(
      newDelivery('jo@example.net', { message: newMessage({ environment }) }),
      deferred,
      {
        attempt: {},
        world,
      },
    ).retryMs;
  assert.equal(retryMs('live'), 60_000);
  assert.equal(retryMs('test'), 2_000);
});

test('a 5xx that is temporary defers the email for at least half an hour', () => {
  const limited = outcomeOfRcpt(550, null, 'Ip frequency limited');
  assert.equal(limited.status, 'deferred');
  assert.equal(limited.suppress, null);
  const retryMs = (attempts: number) =>
    settlementOf({ ...newDelivery('jo@example.net'), attempts }, limited, { attempt: {}, world })
      .retryMs;
  assert.equal(retryMs(0), 30 * 60_000);
  assert.equal(retryMs(6), 2 * 60 * 60_000);
});

test('the event has recipient, sender, status and reason; the email has the rest', () => {
  const delivery = newDelivery('jo@example.net');
  const outcome = outcomeOfRcpt(550, '5.1.1', 'No such user');
  const settled = settlementOf(delivery, outcome, { attempt: {}, world });
  assert.equal(settled.eventType, 'email.bounced');
  assert.deepEqual(settled.data, {
    recipient: 'jo@example.net',
    from: 'Acme <hello@acme.com>',
    status: 'bounced',
    reason: outcome.reason,
    smtp: outcome.smtp,
  });
  assert.equal(settlementOf(delivery, EXPIRED, { attempt: null, world }).eventType, 'email.failed');
});
