/** Problems that the validator finds become sentences that a client can act on. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { z } from 'zod';
import { BadRequest } from './errors.ts';
import { validatorCompiler } from './validation.ts';

const schema = z.strictObject({
  to: z.union([z.string(), z.array(z.string())]),
  count: z.int().min(60).max(100).optional(),
  mode: z.enum(['a', 'b']).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  at: z.iso.datetime().optional(),
  tags: z
    .array(z.strictObject({ name: z.string().min(1) }))
    .max(2)
    .optional(),
});

function problemsOf(value: unknown, httpPart = 'body', of: z.ZodType = schema): string[] {
  const check = validatorCompiler({ schema: of, method: 'POST', url: '/', httpPart });
  const { error } = check(value) as { error?: unknown };
  if (error === undefined) return [];
  assert.ok(error instanceof BadRequest);
  assert.equal(error.failure.status, 422);
  assert.ok(error.message.length > 0);
  return (error.failure.details ?? []).map(({ field, message }) => `${field}: ${message}`);
}

const SENTENCES: [unknown, string][] = [
  [{}, 'to: is required'],
  [{ to: 5 }, 'to: must be a string or an array'],
  [{ to: ['a', 5] }, 'to[1]: must be a string, not a number'],
  [{ to: null }, 'to: must be a string or an array'],
  [{ to: 'a', count: 5 }, 'count: must be at least 60'],
  [{ to: 'a', count: 61.5 }, 'count: must be a whole number, not a fraction'],
  [{ to: 'a', count: '61' }, 'count: must be a number, not a string'],
  [{ to: 'a', mode: 'c' }, 'mode: must be one of "a", "b"'],
  [{ to: 'a', headers: { X: 5 } }, 'headers.X: must be a string, not a number'],
  [{ to: 'a', headers: [] }, 'headers: must be an object, not an array'],
  [{ to: 'a', at: 'noon' }, 'at: must be a time in ISO 8601, like 2026-11-21T08:30:00Z'],
  [{ to: 'a', tags: [{ name: '' }] }, 'tags[0].name: must have at least 1 character'],
  [{ to: 'a', tags: [{}, {}, {}] }, 'tags: must have at most 2 items'],
  [{ to: 'a', repyl_to: 'b' }, 'repyl_to: is not a field of this request; check the spelling'],
  [null, ': The body must be an object, not null.'],
  [[], ': The body must be an object, not an array.'],
];

const OF_BODIES: [z.ZodType, unknown, string][] = [
  [
    z.strictObject({}).refine(() => false, 'Nothing to change: set `a`.'),
    {},
    ': Nothing to change: set `a`.',
  ],
  [z.union([z.string(), z.array(z.string())]), 5, ': The body must be a string or an array.'],
  [z.union([z.string(), z.array(z.string())]), [5], '[0]: must be a string, not a number'],
  [z.array(z.string()).min(1), [], ': The body must have at least 1 item.'],
];

test('a problem with a body as a whole is one sentence', () => {
  for (const [whole, value, sentence] of OF_BODIES) {
    assert.equal(problemsOf(value, 'body', whole)[0], sentence);
  }
});

for (const [value, sentence] of SENTENCES) {
  test(`${JSON.stringify(value)} → ${sentence}`, () => {
    assert.equal(problemsOf(value)[0], sentence);
  });
}

test('an unknown query parameter is reported as such', () => {
  assert.deepEqual(problemsOf({ to: 'a', staus: 'b' }, 'querystring'), [
    'staus: is not a query parameter of this request; check the spelling',
  ]);
});

test('a name from the client is shortened and made printable before it is shown', () => {
  const [problem = ''] = problemsOf({ to: 'a', [`\u001b[31m${'x'.repeat(5_000)}`]: 1 });
  assert.match(problem, /^\?\[31mx{1,64}…: /);
});

test('headers are documented by the schema and checked where they are read', () => {
  assert.deepEqual(problemsOf({ anything: true }, 'headers'), []);
});
