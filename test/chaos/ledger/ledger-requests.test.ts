/** Tests that the ledger finds mail sent after a cancel or too early, partial batches, and gaps in the event stream. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareRequests } from './ledger-requests.ts';
import type { Evidence } from './ledger-types.ts';
import { HOUR_MS } from '../../../src/lib/units.ts';

const ADDRESS = 'jo@a.test';

const request = {
  environment: 'live' as const,
  isKeyed: true,
  outcome: 'accepted' as const,
  addresses: [ADDRESS],
  batch: null,
  scheduledAtMs: null,
  isCanceled: false,
  begunMs: 0,
  unexpectedResponses: [],
};
const email = { environment: 'live' as const, openCount: 0, eventCount: 1 };
const copy = { address: ADDRESS, node: 'a', sessionBegunMs: 0, isTlsVerified: false };
const stream = {
  reader: 'pages',
  expected: ['v1', 'v2'],
  received: ['v1', 'v2'],
  unexpectedResponses: [],
};
const event = { seq: 2, position: 0, hasAttempt: true, isInDoubt: true, canceled: null };

/** Returns the evidence of two emails in one batch. The second one is canceled. */
function evidence(change: Partial<Evidence> = {}): Evidence {
  return {
    requests: [
      { ...request, index: 1, ids: ['e1'], batch: 1 },
      { ...request, index: 2, ids: ['e2'], batch: 1, isCanceled: true },
    ],
    emails: [
      { ...email, id: 'e1', index: 1, subject: 'Email 1' },
      { ...email, id: 'e2', index: 2, subject: 'Email 2' },
    ],
    recipients: [
      { emailId: 'e1', position: 0, address: ADDRESS, status: 'delivered', attempts: 1 },
      { emailId: 'e2', position: 0, address: ADDRESS, status: 'canceled', attempts: 0 },
    ],
    events: [],
    counts: {},
    copies: [{ ...copy, emailId: 'e1', atMs: 10_000 }],
    webhooks: [],
    cancels: [{ emailId: 'e2', addresses: [ADDRESS], askedMs: 5_000, answeredMs: 6_000 }],
    streams: [stream],
    skews: [],
    disturbances: [],
    freezes: [],
    suppressed: [],
    acceptedWithRevokedKey: [],
    acceptedFromRemovedDomain: [],
    stopped: [],
    mayEndAs: () => null,
    needsVerifiedTls: () => false,
    left: { queue: 0, webhookQueue: 0, nodes: 0, workers: 0 },
    testLookups: [],
    attacks: [],
    shown: { ids: [], own: new Set() },
    ...change,
  };
}

const kinds = (change: Partial<Evidence>): string[] =>
  compareRequests(evidence(change)).map(({ kind }) => kind);

test('a correct run has no finding', () => {
  assert.deepEqual(compareRequests(evidence()), []);
});

test('a message that arrives after the 200 of its cancel is found, unless an attempt was in doubt', () => {
  const copies = [{ ...copy, emailId: 'e2', atMs: 6_001 }];
  assert.deepEqual(kinds({ copies }), ['sent_after_cancel']);
  const inDoubt = { ...event, emailId: 'e2', type: 'email.delivery_delayed' };
  assert.deepEqual(kinds({ copies, events: [inDoubt] }), []);
});

test('a canceled recipient that ends otherwise is found', () => {
  const recipients = evidence().recipients.map((one) => ({ ...one, status: 'delivered' }));
  assert.deepEqual(kinds({ recipients }), ['wrong_ending']);
});

test('a message that arrives before its time is found, by the clock of the database', () => {
  const [first, second] = evidence().requests as [object, object];
  const requests = [{ ...first, scheduledAtMs: HOUR_MS }, second] as Evidence['requests'];
  assert.deepEqual(kinds({ requests }), ['sent_before_its_time']);
  assert.deepEqual(kinds({ requests, skews: [{ fromMs: 9_000, skewMs: HOUR_MS }] }), []);
  const later = { fromMs: 20_000, skewMs: HOUR_MS };
  assert.deepEqual(kinds({ requests, skews: [later] }), ['sent_before_its_time']);
});

test('a batch that is stored in part is found; a batch that is not stored at all is no finding', () => {
  assert.deepEqual(kinds({ emails: evidence().emails.slice(1) }), ['batch_in_part']);
  assert.deepEqual(kinds({ emails: [] }), []);
});

test('an email with the content of another one is found', () => {
  const [first, second] = evidence().emails;
  assert.deepEqual(kinds({ emails: [{ ...first!, subject: 'Email 7' }, second!] }), [
    'wrong_content',
  ]);
});

test('an event that a reader of the stream missed, or got twice, is found', () => {
  assert.deepEqual(kinds({ streams: [{ ...stream, received: ['v2'] }] }), ['event_not_streamed']);
  const twice = { ...stream, received: ['v1', 'v2', 'v1'] };
  assert.deepEqual(kinds({ streams: [twice] }), ['event_streamed_twice']);
});

test('a reader of the event stream that was refused is found', () => {
  const refused = { ...stream, unexpectedResponses: ['429 for /v1/events'] };
  assert.deepEqual(kinds({ streams: [refused] }), ['unexpected_response']);
});
