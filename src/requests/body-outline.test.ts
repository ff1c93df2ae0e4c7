/** Shows which part of a request body the API log has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outlineOf } from './body-outline.ts';

const outlined = (body: unknown): unknown => JSON.parse(outlineOf(body));

test('an email is outlined without its content', () => {
  const email = {
    from: 'Shop <shop@acme.com>',
    to: ['jo@example.com', 'bob@'],
    subject: 'Your login code is 482913',
    html: `<a href="https://acme.com/reset?token=x">${'x'.repeat(2_000)}</a>`,
    attachments: [{ filename: 'bill.pdf', content: 'JVBERi0=' }],
    headers: { 'X-Secret': 'x' },
    tags: [{ name: 'kind', value: 'receipt' }],
    metadata: { name: 'https://acme.com/reset' },
    htlm: 'misspelled',
    scheduled_at: null,
    count: 12,
  };
  assert.deepEqual(outlined(email), {
    from: 'Shop <shop@acme.com>',
    to: ['jo@example.com', 'bob@'],
    subject: '(text, 25 characters)',
    html: '(text, 2,045 characters)',
    attachments: [{ filename: 'bill.pdf', content: '(text, 8 characters)' }],
    headers: { 'X-Secret': '(text, 1 character)' },
    tags: [{ name: 'kind', value: '(text, 7 characters)' }],
    metadata: { name: '(text, 22 characters)' },
    htlm: '(text, 10 characters)',
    scheduled_at: null,
    count: '(number)',
  });
});

test('the outline of any body has at most 4 KB', () => {
  const to = Array.from({ length: 50 }, (_, n) => `${n}@example.com`);
  assert.deepEqual(outlined({ to }), {
    to: ['0@example.com', '1@example.com', '2@example.com', '(47 more)'],
  });
  const many = Object.fromEntries(to.map((name) => [name, 1]));
  assert.equal(Object.keys(outlined(many) as object).length, 31);
  assert.deepEqual(outlined({ name: 'x'.repeat(201) }), { name: '(text, 201 characters)' });
  const wide = (depth: number): unknown =>
    depth === 0 ? 'x' : Object.fromEntries(to.map((name) => [name, wide(depth - 1)]));
  assert.deepEqual(outlined(wide(2)), '(object, 50 fields)');
  const wider = outlined({ a: wide(3) }) as { a: Record<string, Record<string, unknown>> };
  assert.ok(JSON.stringify(wider).length <= 4_096);
  const deep = JSON.parse(`${'['.repeat(100)}1${']'.repeat(100)}`);
  assert.deepEqual(outlined(deep), [[[['(list, 1 element)']]]]);
  for (const odd of [null, 'x', 7, true, undefined]) {
    assert.ok(outlineOf(odd ?? null).length < 30);
  }
});
