/** Tests that the ledger finds each kind of error, and finds nothing in a correct run. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { countDuplicates } from './duplicates.ts';
import { compare } from './ledger.ts';
import type { Evidence, FindingKind } from './ledger-types.ts';

const SECOND_MS = 1_000;

/**
 * Returns the evidence of a correct run: an email to two recipients, delivered after a deferral and bounced, and a test
 * email.
 */
function allIsWell(): Evidence {
  const request = {
    environment: 'live' as const,
    isKeyed: true,
    batch: null,
    scheduledAtMs: null,
    isCanceled: false,
    outcome: 'accepted' as const,
    begunMs: 10 * SECOND_MS,
    unexpectedResponses: [],
  };
  const event = { emailId: 'e1', position: 0, hasAttempt: true, isInDoubt: false, canceled: null };
  const webhook = { bodies: new Set(['{}']), isVerified: true };
  return {
    requests: [
      { ...request, index: 1, ids: ['e1', 'e1'], addresses: ['jo@a.test', 'al@a.test'] },
      { ...request, index: 2, environment: 'test', ids: ['t1'], addresses: ['jo@t.test'] },
      { ...request, index: 3, outcome: 'refused', ids: [], addresses: ['no@a.test'] },
    ],
    emails: [
      { id: 'e1', index: 1, environment: 'live', subject: 'Email 1', openCount: 0, eventCount: 4 },
      { id: 't1', index: 2, environment: 'test', subject: 'Email 2', openCount: 0, eventCount: 2 },
    ],
    recipients: [
      { emailId: 'e1', position: 0, address: 'jo@a.test', status: 'delivered', attempts: 2 },
      { emailId: 'e1', position: 1, address: 'al@a.test', status: 'bounced', attempts: 1 },
      { emailId: 't1', position: 0, address: 'jo@t.test', status: 'delivered', attempts: 1 },
    ],
    events: [
      { ...event, seq: 1, type: 'email.queued', position: null, hasAttempt: false },
      { ...event, seq: 2, type: 'email.delivery_delayed' },
      { ...event, seq: 3, type: 'email.bounced', position: 1 },
      { ...event, seq: 4, type: 'email.delivered' },
      {
        ...event,
        emailId: 't1',
        seq: 1,
        type: 'email.queued',
        position: null,
        hasAttempt: false,
      },
      { ...event, emailId: 't1', seq: 2, type: 'email.delivered' },
    ],
    counts: { emails: 2, recipients: 3, delivered: 2, deferred: 1, bounced: 1 },
    copies: [
      {
        emailId: 'e1',
        address: 'jo@a.test',
        atMs: 20 * SECOND_MS,
        node: 'a',
        sessionBegunMs: 0,
        isTlsVerified: false,
      },
    ],
    webhooks: [
      {
        endpoint: 'all',
        expected: ['v1', 'v2'],
        received: new Map([
          ['v1', webhook],
          ['v2', webhook],
        ]),
      },
    ],
    cancels: [],
    streams: [],
    skews: [],
    disturbances: [],
    freezes: [],
    suppressed: [{ address: 'jo@a.test', sinceMs: 15 * SECOND_MS }],
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
}

const kinds = (evidence: Evidence): FindingKind[] => [
  ...new Set(compare(evidence).map(({ kind }) => kind)),
];

/** Returns the findings after a change of the correct evidence. */
function wrong(change: (evidence: Evidence) => Partial<Evidence>): FindingKind[] {
  const evidence = allIsWell();
  return kinds({ ...evidence, ...change(evidence) });
}

test('a correct run has no finding', () => {
  assert.deepEqual(compare(allIsWell()), []);
});

test('an accepted email that is not stored is found as lost', () => {
  const found = compare({ ...allIsWell(), emails: allIsWell().emails.slice(1) });
  assert.ok(found.some(({ kind, what }) => kind === 'lost' && what === 'e1'));
});

test('an outcome that was counted twice, or not, is found', () => {
  for (const delivered of [1, 3]) {
    const found = wrong(({ counts }) => ({ counts: { ...counts, delivered } }));
    assert.deepEqual(found, ['counts_differ']);
  }
});

test('a recipient that is missing is found as lost', () => {
  assert.deepEqual(
    wrong(({ recipients, emails, events }) => ({
      recipients: recipients.filter(({ position }) => position === 0),
      emails,
      events,
    })),
    ['lost', 'counts_differ'],
  );
});

test('a recipient that has not ended is found', () => {
  assert.ok(
    wrong(({ recipients, events }) => ({
      recipients: [{ ...recipients[0]!, status: 'deferred' }, ...recipients.slice(1)],
      events: events.filter(({ seq, emailId }) => emailId === 't1' || seq < 4),
    })).includes('unfinished'),
  );
  assert.deepEqual(
    wrong(({ emails }) => ({ emails: [{ ...emails[0]!, openCount: 1 }, emails[1]!] })),
    ['unfinished'],
  );
});

test('a delivered message that never arrived is found', () => {
  assert.deepEqual(
    wrong(() => ({ copies: [] })),
    ['never_arrived'],
  );
});

test('two emails for one request are found', () => {
  assert.ok(
    wrong(({ requests }) => ({
      requests: [{ ...requests[0]!, ids: ['e1', 'e9'] }, ...requests.slice(1)],
    })).includes('two_emails_for_one_request'),
  );
  const twin = { ...allIsWell().emails[0]!, id: 'e2', openCount: 0, eventCount: 0 };
  assert.ok(
    wrong(({ emails }) => ({ emails: [...emails, twin] })).includes('two_emails_for_one_request'),
  );
});

test('a refused email that was stored is found', () => {
  assert.ok(
    wrong(({ emails }) => ({ emails: [...emails, { ...emails[1]!, id: 'x', index: 3 }] })).includes(
      'stored_though_refused',
    ),
  );
});

test('a message without an accepted email is found', () => {
  const copy = {
    emailId: 'e1',
    address: 'eve@a.test',
    atMs: 0,
    node: 'a',
    sessionBegunMs: 0,
    isTlsVerified: false,
  };
  assert.deepEqual(
    wrong(({ copies }) => ({ copies: [...copies, copy] })),
    ['unexpected_copy'],
  );
  assert.deepEqual(
    wrong(({ copies }) => ({ copies: [...copies, { ...copy, emailId: 'none' }] })),
    ['unexpected_copy'],
  );
});

test('test mail at a server or in a DNS query is found', () => {
  const copy = {
    emailId: 't1',
    address: 'jo@t.test',
    atMs: 0,
    node: 'a',
    sessionBegunMs: 0,
    isTlsVerified: false,
  };
  assert.ok(wrong(({ copies }) => ({ copies: [...copies, copy] })).includes('copy_of_test_mail'));
  assert.deepEqual(
    wrong(() => ({ testLookups: ['t.test'] })),
    ['test_mail_in_dns'],
  );
});

test('mail to an address that was suppressed before its acceptance is found', () => {
  assert.deepEqual(
    wrong(() => ({ suppressed: [{ address: 'jo@a.test', sinceMs: 5 * SECOND_MS }] })),
    ['sent_to_suppressed'],
  );
});

const second = {
  emailId: 'e1',
  address: 'jo@a.test',
  atMs: 60_000,
  node: 'b',
  sessionBegunMs: 0,
  isTlsVerified: false,
};
test('mail sent although it was suppressed or its domain removed while it waited is found', () => {
  const stopped = { emailId: 'e1', address: 'jo@a.test', sinceMs: 19 * SECOND_MS };
  assert.deepEqual(
    wrong(() => ({ stopped: [stopped] })),
    ['sent_though_stopped'],
  );
  assert.deepEqual(
    wrong(() => ({ stopped: [{ ...stopped, sinceMs: 21 * SECOND_MS }] })),
    [],
  );
  assert.deepEqual(
    wrong(() => ({ acceptedFromRemovedDomain: [1] })),
    ['accepted_from_removed_domain'],
  );
});

test('mail sent to an unauthenticated server although TLS was enforced is found', () => {
  assert.deepEqual(
    wrong(() => ({ needsVerifiedTls: () => true })),
    ['sent_without_verified_tls'],
  );
});

const twice = ({ copies }: Evidence) => ({ copies: [...copies, second] });

test('an unexplained second copy is found', () => {
  assert.deepEqual(wrong(twice), ['unexplained_duplicate']);
});

test('a second copy is explained by a kill of the first sender between the two', () => {
  const killed = { node: 'a', fromMs: 30_000, toMs: 30_000, what: 'killed' };
  const evidence = { ...allIsWell(), ...twice(allIsWell()), disturbances: [killed] };
  assert.deepEqual(compare(evidence), []);
  assert.deepEqual(countDuplicates(evidence), { extra: 1, inDoubt: 0, atDisturbances: 1 });
});

test('a second copy is not explained by a kill of another node, or at another time', () => {
  for (const [node, atMs] of [
    ['b', 30_000],
    ['a', 10_000],
    ['a', 90_000],
  ] as const) {
    const killed = { node, fromMs: atMs, toMs: atMs, what: 'killed' };
    assert.deepEqual(
      wrong((evidence) => ({ ...twice(evidence), disturbances: [killed] })),
      ['unexplained_duplicate'],
    );
  }
});

test('a second copy is explained by an attempt in doubt, a third is not', () => {
  const doubted = ({ events }: Evidence) => ({
    events: events.map((event) => ({ ...event, isInDoubt: event.seq === 2 })),
  });
  assert.deepEqual(
    wrong((evidence) => ({ ...twice(evidence), ...doubted(evidence) })),
    [],
  );
  assert.deepEqual(
    wrong((evidence) => ({
      ...doubted(evidence),
      copies: [...evidence.copies, second, { ...second, atMs: 70_000 }],
    })),
    ['unexplained_duplicate'],
  );
});

test('a copy of a bounced message is found', () => {
  const copy = { ...second, address: 'al@a.test' };
  assert.deepEqual(
    wrong(({ copies }) => ({ copies: [...copies, copy] })),
    ['unexplained_duplicate'],
  );
});

test('a frozen worker that sends after resuming is found', () => {
  const freeze = { node: 'a', fromMs: 5_000, toMs: 19_000 };
  assert.deepEqual(
    wrong(() => ({ freezes: [freeze] })),
    ['sent_after_freeze'],
  );
  assert.deepEqual(
    wrong(({ copies }) => ({
      freezes: [freeze],
      copies: copies.map((copy) => ({ ...copy, sessionBegunMs: 19_500 })),
    })),
    [],
    'a session of after the waking is a new one',
  );
  assert.deepEqual(
    wrong(() => ({ freezes: [{ ...freeze, toMs: 21_000 }] })),
    [],
    'a stopped worker writes nothing: what arrives was in the network',
  );
});

test('a final status that the receiver cannot have caused is found', () => {
  assert.deepEqual(
    wrong(() => ({ mayEndAs: () => ['delivered'] })),
    ['wrong_ending'],
  );
});

test('a recipient may end as failed after three attempts in doubt, and not before', () => {
  const failedAfter = (doubts: number): FindingKind[] =>
    wrong(({ emails, recipients, events, counts }) => {
      const [queued] = events;
      const attempt = { ...queued!, position: 0, hasAttempt: true, isInDoubt: true };
      const last = { ...attempt, isInDoubt: doubts === 3, type: 'email.failed' };
      return {
        emails: [{ ...emails[0]!, eventCount: 5 }, emails[1]!],
        recipients: [{ ...recipients[0]!, status: 'failed', attempts: 3 }, ...recipients.slice(1)],
        events: [
          ...events.filter(({ emailId, position }) => emailId !== 'e1' || position !== 0),
          { ...attempt, seq: 2, type: 'email.delivery_delayed' },
          { ...attempt, seq: 4, type: 'email.delivery_delayed' },
          { ...last, seq: 5 },
        ],
        counts: { ...counts, delivered: 1, deferred: 2, failed: 1 },
        mayEndAs: () => ['delivered', 'bounced'],
      };
    });
  assert.deepEqual(failedAfter(3), []);
  assert.deepEqual(failedAfter(2), ['wrong_ending']);
});

test('two final statuses of one recipient are found', () => {
  const again = { ...allIsWell().events[3]!, hasAttempt: false };
  assert.deepEqual(
    wrong(({ events, emails, counts }) => ({
      events: [...events, { ...again, seq: 5, type: 'email.bounced' }],
      emails: [{ ...emails[0]!, eventCount: 5 }, emails[1]!],
      counts: { ...counts, bounced: 2 },
    })),
    ['illegal_transition'],
  );
});

test('a canceled recipient needs a client that canceled it, and the event that names it', () => {
  const canceled = (addresses: readonly string[], isCanceled: boolean): FindingKind[] =>
    wrong(({ events, recipients, requests, emails, counts }) => ({
      requests: [{ ...requests[0]!, isCanceled }, ...requests.slice(1)],
      recipients: [
        recipients[0]!,
        { ...recipients[1]!, status: 'canceled', attempts: 0 },
        recipients[2]!,
      ],
      events: events.map((one) =>
        one.type === 'email.bounced'
          ? {
              ...one,
              type: 'email.canceled',
              position: null,
              hasAttempt: false,
              canceled: addresses,
            }
          : one,
      ),
      emails,
      counts: { ...counts, bounced: 0, canceled: addresses.length },
      mayEndAs: () => ['delivered'],
    }));
  assert.deepEqual(canceled(['al@a.test'], true), []);
  assert.deepEqual(canceled(['al@a.test'], false), ['wrong_ending']);
  assert.deepEqual(canceled([], true), ['status_and_events_differ']);
});

test('a status without an event is found', () => {
  assert.deepEqual(
    wrong(({ recipients }) => ({
      recipients: recipients.map((one) =>
        one.position === 1 ? { ...one, status: 'failed' } : one,
      ),
    })),
    ['status_and_events_differ'],
  );
});

test('a lost event and a wrong counter are found', () => {
  assert.ok(
    wrong(({ events }) => ({ events: events.filter(({ seq }) => seq !== 2) })).includes(
      'events_with_gaps',
    ),
  );
  assert.deepEqual(
    wrong(({ emails }) => ({ emails: [{ ...emails[0]!, eventCount: 5 }, emails[1]!] })),
    ['events_with_gaps'],
  );
});

test('a counted attempt without an event is found', () => {
  assert.deepEqual(
    wrong(({ recipients }) => ({
      recipients: recipients.map((one) => ({ ...one, attempts: one.attempts + 1 })),
    })),
    ['attempts_and_events_differ'],
  );
});

test('a missing, additional, changed or wrongly signed webhook is found', () => {
  const webhook = { bodies: new Set(['{}']), isVerified: true };
  const byPath = (received: [string, { bodies: Set<string>; isVerified: boolean }][]) =>
    wrong(({ webhooks }) => ({ webhooks: [{ ...webhooks[0]!, received: new Map(received) }] }));
  const both = [
    ['v1', webhook],
    ['v2', webhook],
  ] as [string, typeof webhook][];
  assert.deepEqual(byPath(both), []);
  assert.deepEqual(byPath(both.slice(1)), ['webhook_missing']);
  assert.deepEqual(byPath([...both, ['v3', webhook]]), ['webhook_unexpected']);
  assert.deepEqual(byPath([['v1', { ...webhook, bodies: new Set(['{}', '[]']) }], both[1]!]), [
    'webhook_changed',
  ]);
  assert.deepEqual(byPath([['v1', { ...webhook, isVerified: false }], both[1]!]), [
    'webhook_not_verified',
  ]);
});

test('an unexpected response, and a revoked key that still works, are found', () => {
  assert.deepEqual(
    wrong(({ requests }) => ({
      requests: [{ ...requests[0]!, unexpectedResponses: ['500'] }, ...requests.slice(1)],
    })),
    ['unexpected_response'],
  );
  assert.deepEqual(
    wrong(() => ({ acceptedWithRevokedKey: [1] })),
    ['accepted_with_revoked_key'],
  );
});

test('open rows and leases of dead workers that remain are found', () => {
  for (const change of [{ queue: 1 }, { webhookQueue: 1 }, { nodes: 5 }, { nodes: 3 }]) {
    assert.deepEqual(
      wrong(({ left }) => ({ left: { ...left, ...change } })),
      ['left_over'],
    );
  }
});
