/** Shows which failures of a periodic task reach the log, and how often. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import pino from 'pino';
import { testDatabase } from '../../../test/support/postgres.ts';
import { DatabaseUnavailable } from '../../database/database.ts';
import { TaskSchedule } from './task-schedule.ts';

/** Returns the error that PostgreSQL raises with this SQLSTATE. */
async function raised(sqlState: string): Promise<unknown> {
  await using database = await testDatabase();
  const statement = `do $$ begin raise exception 'refused' using errcode = '${sqlState}'; end $$`;
  return await database.db.query(statement).catch((error: unknown) => error);
}

/** Runs a task with these results, null for a success. @returns the lines of the log, by the number of the run */
async function linesOf(results: readonly unknown[]): Promise<[run: number, msg: string][]> {
  const lines: [number, string][] = [];
  let runs = 0;
  const write = (line: string): void => void lines.push([runs, JSON.parse(line).msg]);
  mock.timers.enable({ apis: ['setTimeout'] });
  const schedule = new TaskSchedule(pino({}, { write }));
  const run = (): Promise<void> => {
    const result = results[runs];
    runs += 1;
    return result === null ? Promise.resolve() : Promise.reject(result);
  };
  schedule.start([{ name: 'applying the retention', everyMs: 1_000, run }]);
  while (runs < results.length) {
    mock.timers.tick(1_000);
    await new Promise(setImmediate);
  }
  mock.timers.reset();
  await schedule.stop();
  return lines;
}

const FAILED = 'applying the retention failed; it is retried until it succeeds';
const AGAIN = 'a task of maintenance succeeds again';

for (const [what, sqlState] of [
  ['takes too long', '57014'],
  ['lacks space for temporary files', '53100'],
  ['meets another change', '40001'],
] as const) {
  test(`a task whose statement ${what} is logged at its third failure, and when it succeeds`, async () => {
    const error = await raised(sqlState);
    assert.ok(error instanceof DatabaseUnavailable);
    assert.deepEqual(await linesOf([error, error, null, error, error, error, error, null]), [
      [6, FAILED],
      [8, AGAIN],
    ]);
  });
}

test('a bug is logged at the first failure, and a database that is not reached is left to its own line', async () => {
  const bug = new TypeError('no such field');
  const unreachable = await raised('57P01');
  assert.ok(unreachable instanceof DatabaseUnavailable);
  assert.deepEqual(await linesOf([bug, bug, null]), [
    [1, FAILED],
    [3, AGAIN],
  ]);
  assert.deepEqual(await linesOf([unreachable, unreachable, unreachable, unreachable, null]), []);
});
