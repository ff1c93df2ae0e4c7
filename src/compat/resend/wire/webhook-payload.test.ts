/** Events in Resend's format. The types that Resend's client declares check the shapes. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { EVENTS } from '../../../../test/support/resend-shapes.ts';
import { EVENT_TYPES } from '../../../core/events.ts';
import { resendTypesOf, RESEND_FORMATS, parseSubscription } from './webhook-payload.ts';

const EMAIL = {
  email_id: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
  recipient: 'jo@example.com',
  from: 'Acme <hello@acme.com>',
  to: ['jo@example.com', 'kim@example.com'],
  subject: 'Hello',
  tags: [{ name: 'kind', value: 'receipt' }],
  metadata: {},
  message_id: '<a@acme.com>',
};

const createdAt = '2026-11-21T08:30:00.123Z';
const payloadOf = (type: string, data: object) =>
  JSON.parse(RESEND_FORMATS.resend({ type, createdAt, data: JSON.stringify(data) })) as {
    type: string;
    data: Record<string, unknown>;
  };

test('a click has its link, client and time', () => {
  const click = { link: 'https://acme.com/', ip: '203.0.113.0', user_agent: null, is_bot: false };
  const { type, data } = payloadOf('email.clicked', { ...EMAIL, click });
  assert.equal(type, 'email.clicked');
  assert.deepEqual(data, {
    email_id: EMAIL.email_id,
    message_id: EMAIL.message_id,
    created_at: '2024-12-23T08:31:26.238Z',
    from: EMAIL.from,
    to: ['jo@example.com'],
    subject: 'Hello',
    tags: { kind: 'receipt' },
    click: {
      ipAddress: '203.0.113.0',
      link: 'https://acme.com/',
      timestamp: createdAt,
      userAgent: '',
    },
  });
});

test('a failed email has its reason', () => {
  const reason = { category: 'expired', blame: 'receiver', advice: 'Try later.' };
  const { data } = payloadOf('email.failed', { ...EMAIL, reason });
  assert.deepEqual(data['failed'], { reason: 'expired' });
});

test('opens, clicks and expired emails have the types that Resend’s client declares', () => {
  const click = { link: 'https://acme.com/', ip: '203.0.113.0', user_agent: null, is_bot: false };
  const reason = { category: 'expired', blame: 'receiver', advice: 'Try later.' };
  const data = { 'email.opened': {}, 'email.clicked': { click }, 'email.failed': { reason } };
  for (const [type, more] of Object.entries(data)) {
    const shape = EVENTS[type as keyof typeof data];
    assert.doesNotThrow(() => shape.parse(payloadOf(type, { ...EMAIL, ...more })), type);
  }
});

test('the data of an event that Resend does not have is unchanged', () => {
  const data = { webhook_id: EMAIL.email_id, message: 'This is a test.' };
  assert.deepEqual(payloadOf('webhook.test', data).data, data);
});

test('a subscription is shown with the names that it was created with', () => {
  const names = ['email.sent', 'email.opened', 'domain.updated'];
  const types = parseSubscription([...names, 'contact.created', 'email.received']);
  assert.ok(typeof types !== 'string');
  assert.ok(types.every((type) => EVENT_TYPES.includes(type)));
  assert.deepEqual(resendTypesOf(types).toSorted(), names.toSorted());
  assert.equal(parseSubscription(['email.sent', 'email.sended']), 'email.sended');
});
