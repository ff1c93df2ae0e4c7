import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Diagnosis, Email, Recipient } from '../../../../../sdk/src/api.ts';
import { verdictOf } from './verdict.ts';

const recipient = (address: string, change: Partial<Recipient>): Recipient => ({
  address,
  kind: 'to',
  status: 'delivered',
  attempts: 1,
  next_attempt_at: null,
  completed_at: '2026-11-27T08:00:01.000Z',
  reason: null,
  smtp: null,
  ...change,
});

const email = (status: Email['status'], recipients: Recipient[]): Email =>
  ({ status, recipients }) as Email;

const GREYLISTED: Partial<Recipient> = {
  status: 'deferred',
  completed_at: null,
  next_attempt_at: '2026-11-27T08:04:00.000Z',
  reason: {
    category: 'greylist',
    blame: 'receiver',
    advice: 'The server makes new senders wait; no action is needed.',
  },
};

const diagnosis = (status: Email['status'], recipients: object[]): Diagnosis =>
  ({ status, expires_at: '2026-11-30T08:00:00.000Z', recipients }) as Diagnosis;

test('the verdict is about the recipients in trouble, with their share, reason and next attempt', () => {
  const verdict = verdictOf(
    email('deferred', [
      recipient('a@x.test', {}),
      recipient('b@y.test', GREYLISTED),
      recipient('c@y.test', { ...GREYLISTED, next_attempt_at: '2026-11-27T08:03:00.000Z' }),
    ]),
    diagnosis('deferred', [
      {
        address: 'b@y.test',
        held_by: { limit: 'retry', message: 'Attempt 1 was deferred.', until: null },
        route: { provider: 'y.test' },
        next_step: '',
      },
    ]),
  );
  assert.equal(verdict.title, 'Deferred for 2 of 3 recipients: the server makes new senders wait');
  assert.deepEqual(verdict.sentences, ['No action is needed.']);
  assert.equal(verdict.nextAttemptAt, '2026-11-27T08:03:00.000Z');
  assert.equal(verdict.expiresAt, '2026-11-30T08:00:00.000Z');
  assert.deepEqual([verdict.action, verdict.provider], ['retry', 'y.test']);
});

test('an attempt in progress is not announced as the next one', () => {
  const verdict = verdictOf(
    email('sending', [
      recipient('a@x.test', {
        status: 'sending',
        completed_at: null,
        next_attempt_at: '2026-11-27T08:00:00.000Z',
      }),
    ]),
    undefined,
  );
  assert.equal(verdict.nextAttemptAt, null);
});

test('a limit that waiting does not end is named, with the action that ends it', () => {
  const held = (limit: string) =>
    verdictOf(
      email('queued', [recipient('a@x.test', { status: 'queued', completed_at: null })]),
      diagnosis('queued', [
        {
          address: 'a@x.test',
          held_by: { limit, message: 'An operator put it on hold.', until: null },
        },
      ]),
    );
  assert.deepEqual([held('hold').action, held('sender').action], ['release', 'domain']);
  assert.equal(held('hold').title, 'Queued: on hold');
  assert.ok(held('hold').sentences.includes('An operator put it on hold.'));
  assert.equal(held('connections').action, null);
});

test('each end has the action that helps', () => {
  const actionFor = (status: Recipient['status']) =>
    verdictOf(email(status, [recipient('a@x.test', { status })]), undefined).action;
  assert.equal(actionFor('failed'), 'resend');
  assert.equal(actionFor('suppressed'), 'suppression');
  assert.equal(actionFor('scheduled'), 'reschedule');
  assert.equal(actionFor('canceled'), 'resend');
  assert.equal(actionFor('delivered'), null);
});

test('an email is not sent again to an address at fault, nor with the content that was refused', () => {
  const actionFor = (category: 'mailbox' | 'content' | 'quota', addresses: string[]) => {
    const reason = { category, blame: 'recipient', advice: 'A cause: a remedy.' } as const;
    const bounced = addresses.map((one) => recipient(one, { status: 'bounced', reason }));
    return verdictOf(email('bounced', bounced), undefined).action;
  };
  assert.equal(actionFor('mailbox', ['a@x.test']), 'recipient');
  assert.equal(actionFor('mailbox', ['a@x.test', 'b@x.test']), null);
  assert.equal(actionFor('content', ['a@x.test']), null);
  assert.equal(actionFor('quota', ['a@x.test']), 'resend');
});

test('recipients that bounced for several reasons are counted together', () => {
  const bounced = (advice: string) =>
    ({
      status: 'bounced',
      reason: { category: 'mailbox', blame: 'recipient', advice },
    }) as const;
  const verdict = verdictOf(
    email('bounced', [
      recipient('a@x.test', bounced('The mailbox does not exist: check the address.')),
      recipient('b@x.test', bounced('The domain does not exist: check the address.')),
      recipient('c@x.test', {}),
    ]),
    undefined,
  );
  assert.equal(verdict.title, 'Bounced for 2 of 3 recipients');
  assert.deepEqual(verdict.sentences, ['The reasons differ. They stand beside the recipients.']);
  assert.equal(verdict.action, null);
});

test('the title and the sentence of a verdict say different things', () => {
  const of = (...statuses: Recipient['status'][]) =>
    verdictOf(
      email(
        statuses[0]!,
        statuses.map((status, index) => recipient(`r${index}@x.test`, { status })),
      ),
      undefined,
    );
  assert.deepEqual([of('canceled').title, of('canceled').sentences], ['Canceled', []]);
  assert.deepEqual([of('scheduled').title, of('scheduled').sentences], ['Scheduled', []]);
  assert.equal(of('delivered', 'delivered').title, 'Delivered to all 2 recipients');
});

test('a diagnosis of an earlier status is not used', () => {
  const delivered = email('delivered', [recipient('a@x.test', {})]);
  const verdict = verdictOf(delivered, diagnosis('deferred', []));
  assert.equal(verdict.title, 'Delivered');
  assert.deepEqual(verdict.sentences, ["The recipient's mail server accepted it."]);
  assert.equal(verdict.expiresAt, null);
});
