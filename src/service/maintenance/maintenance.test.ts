/**
 * Shows why mail is refused for lack of disk, with free space that the test sets. test/journey/database-disk.test.ts
 * has a whole service.
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import pino from 'pino';
import type { Unready } from '../../core/unready.ts';
import type { Statement } from '../../database/database.ts';
import type { OperatorEvents } from '../../core/operator-events.ts';
import { Maintenance, type MaintenanceOptions } from './maintenance.ts';
import { GIB } from '../../lib/units.ts';

function newConditions(): OperatorEvents & { open: Set<string> } {
  const open = new Set<string>();
  return {
    open,
    raise: ({ type }) => void open.add(type),
    clear: ({ type }) => void open.delete(type),
  };
}

/**
 * Checks the disk alone, with this much space at each check.
 * @returns why mail is refused after each
 */
async function refusalsWith(
  freeBytes: (number | null)[],
  size: { sizes: number[]; databaseBytesMax: number } | null = null,
): Promise<(string | null)[]> {
  const refusals = new Map<string, string | null>();
  const reasons: (string | null)[] = [];
  const operatorEvents = newConditions();
  // The check at the start also measures the storage of projects.
  const freeBytesAtCheck = [...freeBytes.slice(0, 1), ...freeBytes];
  const sizes = [...(size?.sizes.slice(0, 1) ?? []), ...(size?.sizes ?? [])];
  const note = () => reasons.push([...refusals.values()].find((one) => one !== null) ?? null);
  mock.timers.enable({ apis: ['setTimeout'] });
  const options = {
    database: {
      db: {
        query: (statement: Statement | string) =>
          Promise.resolve(
            typeof statement === 'string' && statement.includes('pg_database_size')
              ? [{ bytes: sizes.shift() }]
              : [],
          ),
      },
      readFreeDiskBytes: () => Promise.resolve(freeBytesAtCheck.shift() ?? null),
    },
    config: {
      reputationEveryMs: 3_600_000,
      domainsEveryMs: 3_600_000,
      databaseBytesMax: size?.databaseBytesMax ?? null,
    },
    clock: { check: async () => {} },
    certificates: [],
    pool: {
      refuseMail: (source: string, refusal: Unready | null) => {
        refusals.set(source, refusal?.reason ?? null);
        if (refusal !== null) assert.equal(operatorEvents.open.size, 1, 'the operator is notified');
      },
    },
    operatorEvents,
    log: pino({ level: 'silent' }),
  };
  const maintenance = new Maintenance(options as unknown as MaintenanceOptions);
  maintenance.start();
  await new Promise(setImmediate);
  note();
  while (freeBytesAtCheck.length > 0) {
    mock.timers.tick(5_000);
    await new Promise(setImmediate);
    note();
  }
  await maintenance[Symbol.asyncDispose]();
  mock.timers.reset();
  return reasons;
}

test('emails are refused with that reason while less than 1 GiB is free', async () => {
  const why = 'the disk is nearly full';
  assert.deepEqual(await refusalsWith([2 * GIB, GIB - 1, 0, GIB, 2 * GIB]), [
    null,
    why,
    why,
    null,
    null,
  ]);
});

test('the disk of a remote database is not checked', async () => {
  assert.deepEqual(await refusalsWith([null, null]), [null, null]);
});

test('emails are refused while the database has its maximum size', async () => {
  const why = 'the database has reached its largest size';
  const sizes = [1 * GIB, 2 * GIB, 3 * GIB, 1 * GIB];
  const looks = sizes.map(() => null);
  assert.deepEqual(await refusalsWith(looks, { sizes, databaseBytesMax: 2 * GIB }), [
    null,
    why,
    why,
    null,
  ]);
});

test('workers are notified to poll as soon as the work of a dead node is released', async () => {
  const notified: string[] = [];
  let ownHeartbeats = 0;
  mock.timers.enable({ apis: ['setTimeout'] });
  const query = (statement: Statement | string): Promise<object[]> => {
    const text = typeof statement === 'string' ? statement : statement.text;
    if (text.includes('left join nodes')) {
      ownHeartbeats += 1;
      return Promise.resolve([
        { required: 0, id: 'silent', instance: 'other', beat: 7 },
        { required: 0, id: 'alive', instance: 'own', beat: ownHeartbeats },
      ]);
    }
    if (/delete from nodes/.test(text)) notified.push('freed');
    if (/queue_drops/.test(text)) return Promise.resolve([]);
    return Promise.resolve([{ freed: 3 }]);
  };
  const options = {
    database: { db: { query }, instance: 'own', readFreeDiskBytes: () => Promise.resolve(null) },
    config: { reputationEveryMs: 3_600_000, domainsEveryMs: 3_600_000, databaseBytesMax: null },
    clock: { check: async () => {} },
    certificates: [],
    pool: { pollNow: () => notified.push('poll') },
    operatorEvents: newConditions(),
    log: pino({ level: 'silent' }),
  };
  const maintenance = new Maintenance(options as unknown as MaintenanceOptions);
  maintenance.start();
  for (let checks = 0; checks < 7; checks += 1) {
    assert.deepEqual(notified, [], `after ${checks} checks`);
    mock.timers.tick(2_500);
    for (let turns = 0; turns < 10; turns += 1) await new Promise(setImmediate);
  }
  await maintenance[Symbol.asyncDispose]();
  mock.timers.reset();
  assert.deepEqual(notified, ['freed', 'poll']);
});
