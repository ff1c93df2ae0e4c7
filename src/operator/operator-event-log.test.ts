/** Shows what processes log and store about a condition, also while the database is unavailable. */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import type { NewCondition } from '../core/operator-events.ts';
import { listConditions, raiseCondition } from './condition-store.ts';
import { OperatorEventLog } from './operator-event-log.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

beforeEach(async () => {
  await database.sql('truncate operator_conditions, events');
});

const LOW: NewCondition = {
  type: 'disk.low',
  subject: 'mail1.example.org',
  message: 'The disk of mail1.example.org has 0.4 GB left; emails are refused.',
  remedy: 'Make room on the disk.',
  details: { free_bytes: 400_000_000 },
};

type Line = { level: string; text: string; facts: Record<string, unknown> };

/** One process, with its own log and clock. */
function newProcess(queries = db) {
  const lines: Line[] = [];
  let nowMs = 0;
  const to = (level: string) => (facts: Record<string, unknown>, text: string) =>
    void lines.push({ level, facts, text });
  const reported = new OperatorEventLog({
    db: queries,
    log: { warn: to('warn'), info: to('info'), error: to('error') } as never,
    world: { monotonicMs: () => nowMs },
  });
  return { events: reported, lines, advance: (ms: number) => (nowMs += ms) };
}

test('the log of the node that opens a condition has the warning with its remedy, and then its end', async () => {
  const [one, other] = [newProcess(), newProcess()];
  one.events.raise(LOW);
  await one.events.flush();
  other.events.raise(LOW);
  await other.events.flush();
  assert.deepEqual(one.lines, [
    {
      level: 'warn',
      text: LOW.message,
      facts: {
        event: 'disk.low',
        subject: 'mail1.example.org',
        remedy: LOW.remedy,
        free_bytes: 400_000_000,
      },
    },
  ]);
  other.events.clear(LOW);
  await other.events.flush();
  one.events.clear(LOW);
  await one.events.flush();
  assert.equal(one.lines.length, 1);
  assert.deepEqual(
    other.lines.map(({ level, text, facts }) => [level, text, facts['state']]),
    [['info', 'The disk has enough free space again.', 'cleared']],
  );
});

test('a state that is reported at every check is stored once a minute', async () => {
  let statements = 0;
  const counting = {
    query: (...args: Parameters<typeof db.query>) => {
      statements += 1;
      return db.query(...args);
    },
  };
  const { events, advance, lines } = newProcess(counting as never);
  for (let look = 0; look < 24; look += 1) {
    events.raise(LOW);
    await events.flush();
    advance(5_000);
  }
  assert.equal(statements, 2);
  events.clear(LOW);
  events.raise(LOW);
  events.clear(LOW);
  await events.flush();
  assert.deepEqual(await listConditions(db, 1), []);
  assert.equal(lines.at(-1)?.level, 'info');
});

test('while the database is unavailable a condition is logged at once and recorded when it is back', async () => {
  const { events, lines } = newProcess();
  await database.setReachable(false);
  events.raise(LOW);
  await events.flush();
  events.raise(LOW);
  await events.flush();
  assert.deepEqual(
    lines.map(({ level, text }) => [level, text]),
    [['warn', LOW.message]],
  );
  await database.setReachable(true);
  await waitFor(
    async () => {
      await events.flush();
      return (await listConditions(db, 1)).length === 1;
    },
    { what: 'the condition' },
  );
  assert.equal(lines.length, 1, 'the line is not repeated');
});

test('a condition of a machine that was removed ends when its time is over', async () => {
  const { events, lines } = newProcess();
  await raiseCondition(db, { ...LOW, lapsesAfterMs: -1 });
  await events.clearLapsed();
  assert.deepEqual(await listConditions(db, 1), []);
  assert.match(lines[0]?.text ?? '', /no longer reported/);
});
