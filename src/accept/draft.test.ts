/**
 * Every rule for the fields of an email before anything is stored, and what a refusal says. test/api/emails.test.ts
 * sends some of these fields over HTTP.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { isRefusal } from '../core/refusals.ts';
import { type DraftInput, type DraftRules, parseDraft } from './draft.ts';
import { CHARACTER } from '../../test/support/characters.ts';

const GOOD: DraftInput = {
  from: 'Acme <hello@acme.com>',
  to: 'jo@mail.org',
  subject: 'Hi',
  html: '<p>Hi</p>',
};
const LIVE = { environment: 'live', allowPrivateNetworks: false, pagesUrl: null } as const;
const TEST = { ...LIVE, environment: 'test' } as const;

function draftOf(change: Partial<DraftInput>, rules: Partial<DraftRules> = {}) {
  const draft = parseDraft({ ...GOOD, ...change }, { ...LIVE, ...rules });
  assert.ok(!isRefusal(draft), JSON.stringify(draft));
  return draft;
}

function problemOf(change: Partial<DraftInput>, rules: Partial<DraftRules> = {}): string {
  const refusal = parseDraft({ ...GOOD, ...change }, { ...LIVE, ...rules });
  assert.ok(isRefusal(refusal), `accepted ${JSON.stringify(change)}`);
  assert.equal(refusal.refused, 'validation_error');
  return refusal.message;
}

test('the smallest email needs from, to, subject and a content', () => {
  const { sizeBytes, ...draft } = draftOf({});
  assert.ok(sizeBytes > 0);
  assert.deepEqual(draft, {
    email: {
      from: { name: 'Acme', address: 'hello@acme.com' },
      to: [{ name: null, address: 'jo@mail.org' }],
      cc: [],
      replyTo: [],
      subject: 'Hi',
      html: '<p>Hi</p>',
      text: null,
      headers: [],
      attachments: [],
      tags: [],
      metadata: {},
      unsubscribeUrl: null,
      tls: null,
      tracking: { opens: null, clicks: null, base: null },
      submitted: null,
    },
    bcc: [],
    recipients: [{ kind: 'to', address: 'jo@mail.org' }],
    emailId: null,
    scheduledAt: null,
    expiresInS: null,
  });
});

test('an invalid address is reported with its place in the list', () => {
  assert.match(
    problemOf({ to: ['a@b.co', 'c@d.co', 'bob@'] }),
    /^to\[2\]: "bob@" is not an email address/,
  );
  assert.match(problemOf({ to: 'bob' }), /^to: "bob" is not an email address/);
  assert.match(problemOf({ from: 'a@b.co, c@d.co' }), /^from: .*more than one/);
  assert.match(problemOf({ reply_to: [''] }), /^reply_to\[0\]: /);
});

test('all problems are reported at once', () => {
  const refusal = parseDraft({ ...GOOD, to: ['x', 'y'], subject: '', expires_in: 1 }, LIVE);
  assert.ok(isRefusal(refusal));
  assert.deepEqual(
    refusal.details?.map((problem) => problem.field),
    ['to[0]', 'to[1]', 'subject', 'expires_in'],
  );
});

test('1 to 50 recipients in to, cc and bcc together', () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => `u${index}@mail.org`);
  draftOf({ to: many(20), cc: many(20), bcc: many(10) });
  assert.match(problemOf({ to: many(20), cc: many(20), bcc: many(11) }), /more than 50/);
  assert.match(problemOf({ to: [] }), /^to: needs at least one/);
  assert.match(problemOf({ to: many(10_000) }), /more than 50/);
});

test('reserved domains are for test keys', () => {
  const input = { ...GOOD, to: 'a@x.test', cc: ['b@example.com'] };
  const refusal = parseDraft(input, LIVE);
  assert.ok(isRefusal(refusal));
  assert.deepEqual(
    refusal.details?.map((problem) => problem.field),
    ['to', 'cc[0]'],
  );
  assert.ok(!isRefusal(parseDraft(input, TEST)));
  assert.ok(!isRefusal(parseDraft(input, { ...LIVE, allowPrivateNetworks: true })));
});

test('no string brings a control character into a header', () => {
  const spots: ((text: string) => Partial<DraftInput>)[] = [
    (text) => ({ from: `A${text}b <a@b.co>` }),
    (text) => ({ from: `a@b.co${text}Bcc: evil@x.com` }),
    (text) => ({ to: [`a${text}@b.co`] }),
    (text) => ({ cc: `"x${text}" <a@b.co>` }),
    (text) => ({ bcc: `a@b${text}.co` }),
    (text) => ({ reply_to: `a@b.co${text}` }),
    (text) => ({ subject: `Hi${text}Bcc: evil@x.com` }),
    (text) => ({ headers: { [`X-A${text}B`]: 'x' } }),
    (text) => ({ headers: { 'X-A': `x${text}Bcc: evil@x.com` } }),
    (text) => ({ attachments: [{ filename: `a${text}.pdf`, content: '' }] }),
    (text) => ({ attachments: [{ filename: 'a', content: '', content_type: `a/b${text}` }] }),
    (text) => ({ attachments: [{ filename: 'a', content: '', content_id: `a${text}b` }] }),
    (text) => ({ unsubscribe: `https://x.com/${text}` }),
  ];
  const controls = ['\r\n', '\n', '\r', '\0', '\t', '\u001b', '\u007f', '\u0085'];
  fc.assert(
    fc.property(fc.constantFrom(...spots), fc.constantFrom(...controls), (spot, control) => {
      problemOf(spot(control));
    }),
    { numRuns: 500 },
  );
});

test('headers that the service writes itself are refused by name', () => {
  for (const name of ['From', 'bcc', 'DKIM-Signature', 'ARC-Seal', 'content-type', 'Received']) {
    assert.match(
      problemOf({ headers: { [name]: 'x' } }),
      new RegExp(`^headers.${name}: is written`),
    );
  }
  assert.deepEqual(draftOf({ headers: { 'X-Entity-Ref-ID': '1' } }).email.headers, [
    ['X-Entity-Ref-ID', '1'],
  ]);
});

test('html or text is needed; empty text next to html means no text part', () => {
  assert.match(problemOf({ html: null }), /^html: is required/);
  assert.match(problemOf({ html: '', text: '' }), /^html: is required/);
  assert.equal(draftOf({ html: null, text: 'Hi' }).email.html, null);
  assert.equal(draftOf({ text: '' }).email.text, '');
  assert.equal(draftOf({ text: null }).email.text, null);
});

test('null in an optional field counts as absent', () => {
  const nothing = { cc: null, headers: null, attachments: null, tags: null, metadata: null };
  assert.deepEqual(
    draftOf({ ...nothing, expires_in: null, tls: null, scheduled_at: null }),
    draftOf({}),
  );
});

test('a scheduled time has an offset, and is the same moment in every zone', () => {
  const at = (text: string) => draftOf({ scheduled_at: text }).scheduledAt?.toISOString();
  for (const text of [
    '2027-03-01T09:00:00Z',
    '2027-03-01T09:00Z',
    '2027-03-01T10:00:00.000+01:00',
    '2027-02-28T23:30:00-09:30',
  ]) {
    assert.equal(at(text), '2027-03-01T09:00:00.000Z', text);
  }
  assert.equal(at('2027-03-01T09:00:00.123456789Z'), '2027-03-01T09:00:00.123Z');
  assert.equal(at('2028-02-29T09:00:00Z'), '2028-02-29T09:00:00.000Z');
  assert.equal(draftOf({}).scheduledAt, null);
});

test('a time that the database cannot represent is moved to the nearest one that it can', () => {
  const at = (text: string) => draftOf({ scheduled_at: text }).scheduledAt?.toISOString();
  assert.equal(at('0000-01-01T00:00:00+23:59'), '1970-01-01T00:00:00.000Z');
  assert.equal(at('9999-12-31T23:59:59-23:59'), '9999-12-31T00:00:00.000Z');
});

test('a time without offset is refused', () => {
  for (const text of [
    '',
    'tomorrow',
    '2027-03-01',
    '2027-03-01T09:00:00',
    '2027-03-01 09:00:00Z',
    '2027-03-01T09:00:00 Z',
    '2027-03-01T09:00:00+0100',
    '2027-03-01T09:00:00+24:00',
    '2027-03-01T09:00:00+01:60',
    '2027-02-29T09:00:00Z',
    '2027-04-31T09:00:00Z',
    '2027-13-01T09:00:00Z',
    '2027-00-10T09:00:00Z',
    '2027-03-01T25:00:00Z',
    '2027-03-01T09:60:00Z',
    '2027-03-01T09:00:60Z',
    '1795249800',
    '+012027-03-01T09:00:00Z',
    `2027-03-01T09:00:00.${'1'.repeat(1_000)}Z`,
  ]) {
    assert.match(
      problemOf({ scheduled_at: text }),
      /^scheduled_at: must be a time in ISO 8601/,
      text,
    );
  }
});

test('an attachment without content is refused, never sent empty', () => {
  assert.match(
    problemOf({ attachments: [{ filename: 'a.pdf' }] }),
    /^attachments\[0\].content: is required, unless there is a path/,
  );
});

test('tracking that is impossible is refused, unless only the domain requests it', () => {
  const trackingUrl = 'https://links.acme.com';
  const wanted = { tracking: { opens: true, clicks: null } };
  assert.match(problemOf(wanted), /^tracking.opens: needs LETTERHAUS_TRACKING_URL or /);
  const long = 'x'.repeat(256 * 1024 + 1);
  for (const html of [null, '', long]) {
    const email = { text: 'Hi', html, ...wanted };
    assert.match(
      problemOf(email, { trackingUrl }),
      /^tracking.opens: needs html, of at most 256 K/,
    );
    const { tracking } = draftOf({ text: 'Hi', html }, { trackingUrl }).email;
    assert.deepEqual(tracking, { opens: null, clicks: null, base: null });
  }
  const { tracking } = draftOf(wanted, { trackingUrl }).email;
  assert.deepEqual(tracking, { opens: true, clicks: null, base: trackingUrl });
  draftOf({ tracking: { opens: false, clicks: false } });
});

test('attachments are typed by their name, and refused when they are not base64', () => {
  const [pdf, other] = draftOf({
    attachments: [
      { filename: 'a.PDF', content: 'SGVsbG8=', content_id: '<logo>' },
      { filename: 'b.xyz', content: 'SGVs\r\nbG8' },
    ],
  }).email.attachments;
  assert.deepEqual(pdf, {
    filename: 'a.PDF',
    contentType: 'application/pdf',
    contentId: 'logo',
    content: 'SGVsbG8=',
  });
  assert.equal(other?.contentType, 'application/octet-stream');
  const [csv] = draftOf({ attachments: [{ filename: 'a.csv', content: 'w7w' }] }).email.attachments;
  assert.equal(csv?.contentType, 'text/csv; charset=utf-8');
  assert.equal(other?.content, 'SGVsbG8=');
  for (const content of ['SGVsbG8*', 'not base64!', 'A', 'SGVsbG8=x']) {
    assert.match(
      problemOf({ attachments: [{ filename: 'a', content }] }),
      /^attachments\[0\].content: is not base64$/,
    );
  }
  assert.match(problemOf({ attachments: [{ filename: '', content: '' }] }), /filename: must have/);
});

test('base64 of any bytes, in any form, becomes the canonical base64 of those bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.constantFrom('base64', 'base64url'), (bytes, encoding) => {
      const content = Buffer.from(bytes).toString(encoding);
      const [attachment] = draftOf({ attachments: [{ filename: 'a', content }] }).email.attachments;
      assert.equal(attachment?.content, Buffer.from(bytes).toString('base64'));
    }),
  );
});

test('base64 with more padding or bits than its bytes need becomes canonical', () => {
  for (const content of ['eA==', 'eA=', 'eA', 'eB==', 'e A = =']) {
    const [attachment] = draftOf({ attachments: [{ filename: 'a', content }] }).email.attachments;
    assert.equal(attachment?.content, 'eA==', content);
  }
});

test('a message over 30 MB is refused, a smaller one accepted', () => {
  const attachment = (megabytes: number) => ({
    attachments: [{ filename: 'a', content: 'A'.repeat(megabytes * 1_000_000) }],
  });
  assert.match(problemOf(attachment(40)), /larger than 30 MB/);
  draftOf(attachment(24));
});

test('tags, metadata, expiry and unsubscribe keep to their limits', () => {
  draftOf({ tags: [{ name: 'a', value: 'B-_9' }], metadata: { 'any key': 'any value ✓' } });
  assert.match(problemOf({ tags: [{ name: 'a b', value: 'x' }] }), /^tags\[0\].name: /);
  assert.match(problemOf({ tags: [{ name: 'a', value: '' }] }), /^tags\[0\].value: /);
  assert.match(
    problemOf({ tags: Array.from({ length: 76 }, () => ({ name: 'a', value: 'b' })) }),
    /^tags: has more than 75 tags/,
  );
  assert.match(problemOf({ metadata: { a: 'x'.repeat(1_025) } }), /^metadata.a: is longer/);
  // With it a sender would conceal content from the members of the project.
  assert.match(
    problemOf({ metadata: { letterhaus_content: 'concealed' } }),
    /^metadata.letterhaus_content: has a name that is reserved/,
  );
  assert.equal(draftOf({ expires_in: 432_000 }).expiresInS, 432_000);
  for (const seconds of [59, 432_001, 60.5]) {
    assert.match(problemOf({ expires_in: seconds }), /^expires_in: /);
  }
  assert.equal(
    draftOf({ unsubscribe: 'https://x.com/u?t=1' }).email.unsubscribeUrl,
    'https://x.com/u?t=1',
  );
  for (const url of [
    'http://x.com',
    'https://u:p@x.com',
    'x',
    'https://x.com/ü',
    'https://x.com/<>',
  ]) {
    assert.match(problemOf({ unsubscribe: url }), /^unsubscribe: must be an https URL/);
  }
  assert.match(
    problemOf({ unsubscribe: 'https://x.com/u', headers: { 'list-unsubscribe': '<https://y>' } }),
    /^headers.list-unsubscribe: /,
  );
});

test('hosted unsubscribe pages need an address at which recipients reach them', () => {
  const hosted = { ...GOOD, unsubscribe: true };
  assert.match(problemOf(hosted), /^unsubscribe: needs LETTERHAUS_PUBLIC_URL/);
  const draft = parseDraft(hosted, { ...LIVE, pagesUrl: 'https://mail.acme.com' });
  assert.ok(!isRefusal(draft));
  assert.equal(draft.email.unsubscribeUrl, 'hosted:https://mail.acme.com/u/');
  assert.equal(draftOf({ unsubscribe: false }).email.unsubscribeUrl, null);
  assert.match(
    problemOf({ unsubscribe: 'hosted:https://mail.acme.com/u/' }),
    /^unsubscribe: must be an https URL/,
  );
});

test('any strings give a draft or a refusal that names fields', () => {
  const text = fc.oneof(fc.string(), fc.string({ unit: CHARACTER }), fc.emailAddress());
  const list = fc.oneof(text, fc.array(text, { maxLength: 60 }));
  const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });
  const input = fc.record({
    from: text,
    to: list,
    cc: optional(list),
    subject: text,
    html: optional(text),
    text: optional(text),
    headers: optional(fc.dictionary(text, text)),
    metadata: optional(fc.dictionary(text, text)),
    tags: optional(fc.array(fc.record({ name: text, value: text }))),
    unsubscribe: optional(text),
    expires_in: optional(fc.double()),
    attachments: optional(
      fc.array(fc.record({ filename: text, content: text, content_type: optional(text) })),
    ),
  });
  fc.assert(
    fc.property(input, (candidate) => {
      const draft = parseDraft(candidate, LIVE);
      if (!isRefusal(draft)) return;
      for (const { field, message } of draft.details ?? []) {
        assert.match(field, /^[!-~…]+$/);
        assert.notEqual(message, '');
      }
    }),
    { numRuns: 2_000 },
  );
});

test('a custom header occurs once, regardless of case', () => {
  const headers = { 'X-Order': '1', 'x-order': '2' };
  assert.match(problemOf({ headers }), /^headers\.x-order: appears twice/);
});
