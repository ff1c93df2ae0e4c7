/** Tests that a fail-over which loses commits excuses their loss, and nothing else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compare } from './ledger.ts';
import type { Evidence } from './ledger-types.ts';
import { excuse, isOfLostEmail, type Rewind } from './excused.ts';

const STRANGER = '01a21c34-6c8b-77f9-acac-44925a3cd130';
const FROM_MS = 100_000;
const TO_MS = 110_000;
const LONG_BEFORE_MS = 50_000;
const BETWEEN_MS = 105_000;
const AFTER_MS = 115_000;

type Mail = {
  id: string;
  /** Time of the request and of its response. */
  atMs: number;
  isStored: boolean;
  copiesAtMs: readonly number[];
};

/**
 * Builds the evidence of these mails. Each mail has its own recipient, and each stored mail was delivered. The endpoint
 * received the events of the stored mails and `furtherEvents`.
 */
function aftermath(
  mails: readonly Mail[],
  furtherEvents: readonly string[] = [],
): [Evidence, Rewind] {
  const stored = mails.filter(({ isStored }) => isStored);
  const address = 'jo@a.test';
  const evidence: Evidence = {
    requests: mails.map(({ id, atMs }, index) => ({
      index,
      environment: 'live',
      isKeyed: true,
      batch: null,
      scheduledAtMs: null,
      isCanceled: false,
      outcome: 'accepted',
      ids: [id],
      addresses: [address],
      begunMs: atMs,
      unexpectedResponses: [],
    })),
    emails: stored.map((mail) => ({
      id: mail.id,
      index: mails.indexOf(mail),
      environment: 'live',
      subject: `Email ${mails.indexOf(mail)}`,
      openCount: 0,
      eventCount: 1,
    })),
    recipients: stored.map(({ id }) => ({
      emailId: id,
      position: 0,
      address,
      status: 'delivered',
      attempts: 1,
    })),
    events: stored.map(({ id }) => ({
      emailId: id,
      seq: 1,
      type: 'email.delivered',
      position: 0,
      hasAttempt: true,
      isInDoubt: false,
      canceled: null,
    })),
    counts: { emails: stored.length, recipients: stored.length, delivered: stored.length },
    copies: mails.flatMap(({ id, copiesAtMs }) =>
      copiesAtMs.map((atMs) => ({
        emailId: id,
        address,
        atMs,
        node: 'a',
        sessionBegunMs: 0,
        isTlsVerified: false,
      })),
    ),
    webhooks: [
      {
        endpoint: 'all',
        expected: stored.map(({ id }) => id),
        received: new Map(
          [...stored.map(({ id }) => id), ...furtherEvents].map((id) => [
            id,
            { bodies: new Set(['{}']), isVerified: true },
          ]),
        ),
      },
    ],
    cancels: [],
    streams: [],
    skews: [],
    disturbances: [],
    freezes: [],
    suppressed: [],
    acceptedWithRevokedKey: [],
    acceptedFromRemovedDomain: [],
    stopped: [],
    mayEndAs: () => null,
    needsVerifiedTls: () => false,
    left: { queue: 0, webhookQueue: 0, nodes: 4, workers: 4 },
    testLookups: [],
    attacks: [],
    shown: { ids: [], own: new Set() },
  };
  const rewind = {
    fromMs: FROM_MS,
    toMs: TO_MS,
    firstAccepted: new Map(mails.map(({ id, atMs }) => [id, { askedMs: atMs, answeredMs: atMs }])),
    receivedBefore: new Map([['all', new Set(['byPath long before'])]]),
  };
  return [evidence, rewind];
}

const found = (mails: readonly Mail[], furtherEvents?: readonly string[]): string[] =>
  compare(excuse(...aftermath(mails, furtherEvents)).evidence).map(({ kind }) => kind);

const mail = (change: Partial<Mail>): Mail => ({
  id: 'e1',
  atMs: LONG_BEFORE_MS,
  isStored: true,
  copiesAtMs: [LONG_BEFORE_MS],
  ...change,
});

test('an email accepted between copy and swap may be missing, and is counted', () => {
  const gone = mail({ atMs: BETWEEN_MS, isStored: false, copiesAtMs: [BETWEEN_MS, AFTER_MS] });
  assert.deepEqual(found([gone]), []);
  const { lost } = excuse(...aftermath([gone]));
  assert.deepEqual([...lost], [gone.id]);
  assert.ok(!isOfLostEmail(`queued email ${STRANGER} has no content`, lost));
});

test('an email accepted before the copy or after the swap must not be missing', () => {
  for (const atMs of [LONG_BEFORE_MS, AFTER_MS]) {
    const gone = mail({ atMs, isStored: false, copiesAtMs: [] });
    assert.deepEqual(found([gone]), ['lost']);
    assert.ok(found([{ ...gone, copiesAtMs: [AFTER_MS] }]).includes('unexpected_copy'));
  }
});

test('a message sent between copy and swap may be sent again, and is counted', () => {
  const again = mail({ copiesAtMs: [BETWEEN_MS, AFTER_MS] });
  assert.deepEqual(found([again]), []);
  assert.equal(excuse(...aftermath([again])).repeated, 1);
});

test('a message settled long before the copy, or accepted after the swap, must be sent once', () => {
  const before = mail({ copiesAtMs: [LONG_BEFORE_MS, AFTER_MS] });
  const after = mail({ atMs: AFTER_MS, copiesAtMs: [AFTER_MS, AFTER_MS + 1] });
  assert.deepEqual(found([before]), ['unexplained_duplicate']);
  assert.deepEqual(found([after]), ['unexplained_duplicate']);
});

test('a webhook may be about a missing event, but not if it came before the copy', () => {
  assert.deepEqual(found([mail({})], ['result between']), []);
  assert.deepEqual(found([mail({})], ['byPath long before']), ['webhook_unexpected']);
});

test('a cancel with a response between copy and swap may be undone, one before may not', () => {
  for (const [answeredMs, expected] of [
    [BETWEEN_MS, []],
    [LONG_BEFORE_MS + 1, ['sent_after_cancel', 'wrong_ending']],
  ] as const) {
    const [evidence, rewind] = aftermath([mail({ copiesAtMs: [AFTER_MS] })]);
    const cancel = { emailId: 'e1', addresses: ['jo@a.test'], askedMs: answeredMs, answeredMs };
    const excused = excuse({ ...evidence, cancels: [cancel] }, rewind).evidence;
    assert.deepEqual(
      compare(excused)
        .map(({ kind }) => kind)
        .toSorted(),
      expected,
    );
  }
});

test('a worker may miss the content of an email that the fail-over lost, and of no other', () => {
  const line = `{"level":"error","err":{"message":"queued email ${STRANGER} has no content"}}`;
  assert.ok(isOfLostEmail(line, new Set([STRANGER])));
  assert.ok(!isOfLostEmail(line, new Set()));
  assert.ok(!isOfLostEmail('{"level":"error","msg":"another fault"}', new Set([STRANGER])));
});
