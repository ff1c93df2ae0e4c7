/** Shows what the page of a recipient concludes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RecipientOverview } from '../../../../sdk/src/api.ts';
import { changeInWords, historyBeyondVerdict, verdictOf } from './verdict-words.ts';

const AT = '2026-11-12T09:14:00.000Z';
const LATER = '2026-11-20T09:14:00.000Z';

const NOTHING: RecipientOverview = {
  object: 'recipient',
  address: 'jo@example.com',
  domain: 'example.com',
  suppression: null,
  history: [],
  refused_requests: [],
  last_reply: null,
};

const SUPPRESSED: RecipientOverview['suppression'] = {
  object: 'suppression',
  address: 'jo@example.com',
  reason: 'hard_bounce',
  source_email_id: null,
  created_at: AT,
  expires_at: null,
  simulated: false,
  etag: '"of-this-state"',
};

const refusedAt = (at: string) => ({
  id: at,
  created_at: at,
  method: 'POST',
  path: '/v1/emails',
  status: 422,
  error: { code: 'suppressed', message: 'to: jo@example.com is suppressed: hard_bounce' },
});

const verdict = (changes: Partial<RecipientOverview>, total = 0) =>
  verdictOf(
    { ...NOTHING, ...changes },
    { object: 'email_counts', total, statuses: {}, scanned_until: null },
    (at) => at.slice(0, 10),
  );

test('a suppression comes first, with the reason and what was refused since then', () => {
  const { tone, title, text } = verdict({
    suppression: SUPPRESSED,
    refused_requests: [refusedAt(LATER), refusedAt('2026-11-01T00:00:00.000Z')],
  });
  assert.equal(tone, 'quiet');
  assert.equal(title, 'Suppressed since 2026-11-12: the mailbox refused an email permanently');
  assert.match(
    text ?? '',
    /refused before they are sent: 1 since then\. Remove the suppression if/,
  );
});

test('a suppression of an address of the simulator says that emails are still answered', () => {
  const { text } = verdict({ suppression: { ...SUPPRESSED, simulated: true } });
  assert.match(text ?? '', /^The simulator still answers/);
});

test('a refused request without a suppression is said with its sentence', () => {
  const { tone, text } = verdict({ refused_requests: [refusedAt(LATER)] });
  assert.equal(tone, 'bad');
  assert.match(text ?? '', /is suppressed/);
});

test('an address without mail reads differently from one without a reply', () => {
  assert.equal(verdict({}).title, 'No email to this address');
  assert.equal(verdict({}, 2).title, 'No mail server has replied yet');
});

test('a change names who made it, as far as it is known', () => {
  const entry = { action: 'removed', reason: 'manual', source_email_id: null, at: AT } as const;
  const actor = { type: 'member', id: null, name: 'jo@acme.com' } as const;
  assert.equal(changeInWords({ ...entry, by: 'api', actor }), 'removed by jo@acme.com');
  assert.equal(changeInWords({ ...entry, by: 'api', actor: null }), 'removed by an API key');
  assert.equal(
    changeInWords({ ...entry, action: 'added', by: 'delivery', actor: null }),
    'added after a bounce',
  );
});

test('the history leaves out a bounce that the verdict describes', () => {
  const added = { action: 'added', reason: 'hard_bounce', source_email_id: null, at: AT } as const;
  const bounce = { ...added, by: 'delivery', actor: null } as const;
  const byKey = { ...added, by: 'api', actor: null } as const;
  const count = (
    history: RecipientOverview['history'],
    suppression: RecipientOverview['suppression'] = SUPPRESSED,
  ) => historyBeyondVerdict({ suppression, history }).length;
  assert.equal(count([bounce]), 0);
  assert.equal(count([bounce], null), 1);
  assert.equal(count([byKey]), 1);
  assert.equal(count([bounce, byKey]), 2);
});
