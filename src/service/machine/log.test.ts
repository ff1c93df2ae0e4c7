/**
 * Shows what the formatter of the log hides. Errors come from a real PostgreSQL. test/journey/log.test.ts reads the log
 * of a whole service.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { testDatabase } from '../../../test/support/postgres.ts';
import { errorFacts, textLine } from './log.ts';

test('a human-readable log line has time, level, message and fields', () => {
  const line = textLine(
    '{"level":"info","time":"2026-11-21T08:30:00.123Z","method":"POST","ms":4,"msg":"request"}',
  );
  assert.equal(line, '08:30:00.123 info  request method=POST ms=4\n');
});

test('replies of remote servers cannot control the terminal', () => {
  const line = textLine(
    JSON.stringify({
      level: 'warn',
      time: '',
      reply: '550 \u001b[31mno\nsuch \u0007user',
      msg: 'x',
    }),
  );
  assert.equal(line, ' warn  x reply="550 no such  user"\n');
});

test('rows and parameters of database errors are not logged', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const secret = 'jane@private.example';
  const codes = [];
  for (const [sql, values] of [
    ['select $1::uuid', [secret]],
    ['select $1::int', [`a"b ${secret}`]],
    ['select $1::jsonb', [`{"to": ${secret}}`]],
    ['insert into auth_windows values ($1, app_now(), 1), ($1, app_now(), 2)', [secret]],
    ['insert into auth_windows values ($1, null, 1)', [secret]],
    ['select no_such_column from auth_windows where client = $1', [secret]],
  ] as const) {
    const error = await db.query(sql, values).catch((thrown: unknown) => thrown);
    const facts = errorFacts(new Error('outer', { cause: error }));
    assert.ok(!JSON.stringify(facts).includes('private'), JSON.stringify(facts));
    assert.match(facts.cause?.stack ?? '', /log\.test\.ts|database\.ts/);
    codes.push(`${facts.cause?.code} ${facts.cause?.message}`);
  }
  assert.deepEqual(codes, [
    '22P02 invalid input syntax for type uuid: "…"',
    '22P02 invalid input syntax for type integer: "…"',
    '22P02 invalid input syntax for type json',
    '23505 duplicate key value violates unique constraint "auth_windows_pkey"',
    '23502 null value in column "started_at" of relation "auth_windows" violates not-null constraint',
    '42703 column "no_such_column" does not exist',
  ]);
});

test('the content of invalid JSON is not logged', () => {
  const parse = () => JSON.parse('{"to": jane@private.example}') as unknown;
  assert.throws(parse, (error) => !JSON.stringify(errorFacts(error)).includes('jane'));
});
