/**
 * Shows what follows for a recipient from the end of a dialogue. src/mail/replies/classify.test.ts has what replies
 * mean.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AttemptResult, outcomeOf } from './outcome.ts';

const via = { mx: 'mx.example.net', ip: '192.0.2.1', tls: null, tls_policy: 'none' } as const;

function replied(phase: 'rcpt' | 'data' | 'greeting', code: number, text: string): AttemptResult {
  const [, enhancedCode = null, message = text] = /^(\d\.\d+\.\d+) (.*)$/.exec(text) ?? [];
  const reply = { code, enhancedCode, message };
  return { kind: 'replied', phase, reply, via, source: '', transcript: [] };
}

test('a 250 to the message is delivered by MX and sent through a relay', () => {
  const result = replied('data', 250, '2.0.0 OK');
  assert.equal(outcomeOf(result, 'delivered').status, 'delivered');
  assert.equal(outcomeOf(result, 'sent').status, 'sent');
});

test('an unknown mailbox bounces and is suppressed permanently', () => {
  const outcome = outcomeOf(replied('rcpt', 550, '5.1.1 No such user'), 'delivered');
  assert.equal(outcome.status, 'bounced');
  assert.deepEqual(outcome.suppress, { reason: 'hard_bounce', days: null });
  assert.equal(outcome.reason?.category, 'mailbox');
});

test('a refusal because of our reputation bounces and does not suppress the recipient', () => {
  const outcome = outcomeOf(
    replied('data', 550, '5.7.1 Our system has detected low reputation of the sending IP'),
    'delivered',
  );
  assert.equal(outcome.status, 'bounced');
  assert.equal(outcome.suppress, null);
});

test('a refusal in the greeting defers the email', () => {
  const outcome = outcomeOf(replied('greeting', 554, 'No SMTP service here'), 'delivered');
  assert.equal(outcome.status, 'deferred');
});

test('a lost connection defers the email, before and after the final dot', () => {
  for (const [phase, inDoubt] of [
    ['data_command', false],
    ['data', true],
  ] as const) {
    const lost = { kind: 'failed', phase, cause: 'closed', message: 'lost', inDoubt } as const;
    const outcome = outcomeOf({ ...lost, via, source: '', transcript: [] }, 'delivered');
    assert.equal(outcome.status, 'deferred');
    assert.equal(outcome.suppress, null);
  }
});

test('mail to a domain without a mail server ends at once with the reason', () => {
  const of = (kind: 'null_mx' | 'no_such_domain' | 'no_mail_host' | 'refused' | 'temporary') =>
    outcomeOf({ kind: 'unroutable', noHosts: { kind, message: 'so it is' } }, 'delivered');
  assert.equal(of('null_mx').status, 'bounced');
  assert.equal(of('null_mx').smtp?.enhanced_code, '5.1.10');
  assert.equal(of('null_mx').suppress, null);
  assert.equal(of('no_such_domain').status, 'bounced');
  assert.deepEqual(of('no_such_domain').suppress, { reason: 'hard_bounce', days: 7 });
  assert.equal(of('no_mail_host').status, 'bounced');
  assert.equal(of('refused').status, 'failed');
  assert.equal(of('temporary').status, 'deferred');
});
