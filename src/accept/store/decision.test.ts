/** The rules of accepting as a table: facts and the decision that follows from them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { address } from '../../../test/support/deliveries.ts';
import { emailBatch, newEmail } from '../../../test/support/mail-store.ts';
import {
  decide,
  decideBatch,
  type EmailFacts,
  type Facts,
  type LimitWindow,
  resultsOf,
} from './decision.ts';
import type { NewEmail } from './new-email.ts';
import { ALLOW_ALL } from '../../core/scope.ts';
import { HOUR_MS } from '../../lib/units.ts';

const NOW = new Date('2026-11-26T12:00:00.123Z');
const SENDER = { projectId: 'p', environment: 'live', keyId: 'k', domainId: 'd' } as const;

const count = (left: number) => ({ max: 10, left, leftInRow: left, resetS: 30, windowS: 60 });
const windowOf = (emails: number, recipients = 100): LimitWindow => ({
  emails: count(emails),
  recipients: count(recipients),
  hasBlocks: false,
  isToFill: false,
});
const DOMAIN = {
  id: 'd',
  dualSigned: true,
  tls: null,
  tracksOpens: false,
  tracksClicks: true,
  isPaused: false,
};
const KNOWN: Omit<EmailFacts, 'window'> = {
  isApiKeyValid: true,
  allowLists: ALLOW_ALL,
  domain: DOMAIN,
  suppressed: [],
  earlierRequest: null,
};
const holding = (...positions: number[]) => ({
  suppressed: positions.map((position) => ({
    position,
    reason: 'manual' as const,
    expires_at: null,
  })),
});
const factsOf = (window: LimitWindow, ...of: Partial<EmailFacts>[]): Facts => ({
  now: NOW,
  time: NOW.toISOString(),
  exactNow: '2026-11-26 12:00:00.123456+00',
  byEmail: of.map((own) => ({ ...KNOWN, window, ...own })),
});
const email = (changes: Parameters<typeof newEmail>[1] = {}): NewEmail => newEmail(SENDER, changes);
const inHours = (hours: number) => ({ scheduledAt: new Date(NOW.getTime() + hours * HOUR_MS) });

const KEY = { idempotency: { key: 'order 1', fingerprint: 'aa' } };
const EARLIER = { earlierRequest: { fingerprint: 'bb', response: 'earlier' } };
const REFUSED_KEY = { isApiKeyValid: false };
const NO_DOMAIN = { domain: null };
const NETWORKS = { allowLists: { ...ALLOW_ALL, allowedNetworks: ['192.0.2.0/24'] } };
const SENDERS = { allowLists: { ...ALLOW_ALL, allowedSenders: ['billing@acme.com'] } };
const RECIPIENTS = {
  allowLists: { ...ALLOW_ALL, allowedRecipients: ['staging.test', '*.staging.test'] },
};

const SINGLE: [what: string, email: NewEmail, facts: Partial<EmailFacts>, outcome: string][] = [
  ['nothing prevents it', email(), {}, 'accepted'],
  ['the key is not valid', email(), REFUSED_KEY, 'key_refused'],
  [
    'a key that is not valid comes before a repetition',
    email(KEY),
    { ...REFUSED_KEY, ...EARLIER },
    'key_refused',
  ],
  [
    'the key is used outside of its networks',
    email({ clientAddress: '198.51.100.1' }),
    NETWORKS,
    'network_refused',
  ],
  [
    'a key outside of its networks comes before a repetition',
    email({ ...KEY, clientAddress: '198.51.100.1' }),
    { ...NETWORKS, ...EARLIER },
    'network_refused',
  ],
  [
    'the key is used in one of its networks',
    email({ clientAddress: '::ffff:192.0.2.9' }),
    NETWORKS,
    'accepted',
  ],
  ['the service itself uses a key with networks', email(), NETWORKS, 'accepted'],
  ['the sender is not allowed', email(), SENDERS, 'sender_refused'],
  [
    'one of two recipients is not allowed',
    email({ to: ['a@staging.test', 'b@x.test'] }),
    RECIPIENTS,
    'recipient_refused',
  ],
  [
    'all recipients are allowed',
    email({ to: ['a@staging.test', 'b@eu.staging.test'] }),
    RECIPIENTS,
    'accepted',
  ],
  [
    'a repetition comes before lists of addresses',
    email(KEY),
    { ...SENDERS, ...EARLIER },
    'repeated',
  ],
  [
    'a notice goes to a sender that the key may not send to',
    email({ dsn: { kind: 'notice' } }),
    { allowLists: { ...ALLOW_ALL, allowedSenders: ['a@b.test'], allowedRecipients: ['b.test'] } },
    'accepted',
  ],
  ['the idempotency key was used', email(KEY), EARLIER, 'repeated'],
  [
    'a repetition comes before all other refusals',
    email({ ...KEY, ...inHours(24 * 40) }),
    { ...EARLIER, ...NO_DOMAIN, ...holding(0) },
    'repeated',
  ],
  ['it is 30 days ahead', email(inHours(24 * 30)), {}, 'accepted'],
  ['it is more than 30 days ahead', email(inHours(24 * 30 + 1)), NO_DOMAIN, 'schedule_refused'],
  ['the domain is not verified', email(), { ...NO_DOMAIN, ...holding(0) }, 'domain_refused'],
  ['every recipient is suppressed', email(), holding(0), 'suppressed'],
  [
    'it may be stored without a recipient',
    email({ acceptsSuppressed: true }),
    holding(0),
    'accepted',
  ],
  [
    'one of two recipients is suppressed',
    email({ to: ['a@x.test', 'b@x.test'] }),
    holding(1),
    'accepted',
  ],
  ['the domain is paused', email(), { domain: { ...DOMAIN, isPaused: true } }, 'accepted'],
];

for (const [what, one, known, outcome] of SINGLE) {
  test(`${outcome}: ${what}`, () => {
    const [decision] = decide([one], factsOf(windowOf(1), known));
    assert.equal(decision?.outcome, outcome);
    const [full] = decide([one], factsOf(windowOf(0), known));
    assert.equal(full?.outcome, outcome === 'accepted' ? 'limited' : outcome, 'without room');
  });
}

const to = (recipients: number) =>
  email({ to: Array.from({ length: recipients }, (_, index) => `to${index}@x.test`) });

const LIMITED: [what: string, emails: NewEmail[], window: LimitWindow, outcomes: string][] = [
  ['the first ones fit', [to(1), to(1), to(1)], windowOf(2), 'accepted accepted limited'],
  [
    'emails to few recipients come first',
    [to(3), to(1), to(2)],
    windowOf(2),
    'limited accepted accepted',
  ],
  [
    'recipients have their own limit',
    [to(3), to(1), to(2)],
    windowOf(9, 3),
    'limited accepted accepted',
  ],
  ['a lowered limit may be exceeded already', [to(1)], windowOf(-5), 'limited'],
];

for (const [what, emails, window, outcomes] of LIMITED) {
  test(`beyond the limit: ${what}`, () => {
    const facts = factsOf(window, ...emails.map(() => ({})));
    const decisions = decide(emails, facts);
    assert.equal(decisions.map(({ outcome }) => outcome).join(' '), outcomes);
  });
}

test('a refused email takes no capacity, and the headers have the remaining number', () => {
  const emails = [email(), email(), to(2)];
  const window = windowOf(5, 2);
  const facts = factsOf(window, NO_DOMAIN, {}, {});
  const decisions = decide(emails, facts);
  const rows = resultsOf(emails, decisions, { now: NOW, leaseId: 'h' });
  const states = rows.map(({ outcome, limit }) => [outcome, limit?.remaining, limit?.counts]);
  assert.deepEqual(states, [
    ['domain_refused', 4, undefined],
    ['accepted', 4, undefined],
    ['limited', 1, 'recipients'],
  ]);
});

test('each project has its own limits', () => {
  const [one, other] = [windowOf(1), windowOf(1)];
  const facts = factsOf(one, {}, { window: other }, {});
  const outcomes = decide([email(), email(), email()], facts).map(({ outcome }) => outcome);
  assert.deepEqual(outcomes, ['accepted', 'accepted', 'limited']);
});

test('an accepted email has its response, its settings and its lease', () => {
  const tracking = { opens: true, clicks: null, base: 'https://l.test' };
  const [now, later, paused] = [email({ ...KEY, tracking }), email(inHours(1)), email()];
  const facts = factsOf(windowOf(9), {}, {}, { domain: { ...DOMAIN, isPaused: true } });
  const emails = [now, { ...later, mayHandOver: false }, paused];
  const decisions = decide(emails, facts);
  const [row, scheduled, onHold] = resultsOf(emails, decisions, { now: NOW, leaseId: 'h' });
  assert.equal(
    row?.response,
    `{"id":"${now.id}","status":"queued","created_at":"${NOW.toISOString()}"}`,
  );
  assert.deepEqual(row.tracking, { opens: true, clicks: true, base: 'https://l.test' });
  assert.deepEqual([row.domainId, row.dualSigned, row.leaseId], ['d', true, 'h']);
  assert.match(scheduled?.response ?? '', /"status":"scheduled"/);
  assert.deepEqual([scheduled?.leaseId, onHold?.leaseId], [null, null]);
  assert.deepEqual(decisions[0]?.key, { ...KEY.idempotency, response: row.response });
});

const elsewhere = email({ from: { name: null, address: address('a@other.test') } });
const outcomesOf = (decisions: ReturnType<typeof decide>) =>
  decisions.map(({ outcome }) => outcome).join(' ');

test('a strict batch is stored as a whole or not stored', () => {
  const batch = emailBatch([email(), elsewhere, email()], { idempotency: KEY.idempotency });
  const all = decideBatch(batch, factsOf(windowOf(3), {}, {}, {}));
  assert.equal(outcomesOf(all), 'accepted accepted accepted');
  assert.deepEqual(
    all.map(({ key }) => key?.key),
    ['order 1', undefined, undefined],
  );
  const one = decideBatch(batch, factsOf(windowOf(3), {}, NO_DOMAIN, {}));
  assert.equal(outcomesOf(one), 'batch_refused domain_refused batch_refused');
  assert.ok(one.every(({ key }) => key === null));
  const beyond = decideBatch(batch, factsOf(windowOf(2), {}, {}, {}));
  assert.equal(outcomesOf(beyond), 'batch_refused batch_refused limited');
  const again = decideBatch(batch, factsOf(windowOf(3), EARLIER, {}, REFUSED_KEY));
  assert.equal(outcomesOf(again), 'repeated repeated key_refused');
});

test('a permissive batch stores the valid emails, and its key with the first of them', () => {
  const batch = emailBatch([elsewhere, email(), email()], { ...KEY, permissive: true });
  const decisions = decideBatch(batch, factsOf(windowOf(1), NO_DOMAIN, {}, {}));
  assert.equal(outcomesOf(decisions), 'domain_refused accepted limited');
  const response = batch.respond(['domain_refused', 'accepted', 'limited']);
  assert.equal(decisions[0]?.response, response);
  assert.deepEqual(
    decisions.map(({ key }) => key?.response),
    [undefined, decisions[0]?.response, undefined],
  );
});
