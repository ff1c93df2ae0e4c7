import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import pino from 'pino';
import { Maintenance, type MaintenanceOptions } from './maintenance.ts';

const GB = 1024 ** 3;

/** Looks at the disk alone, which has this much room at each look; what the workers are told. */
async function refusalsWith(freeBytes: (number | null)[]): Promise<(string | null)[]> {
  const told: (string | null)[] = [];
  const looks = [...freeBytes];
  mock.timers.enable({ apis: ['setTimeout'] });
  const options = {
    database: {
      db: { query: () => Promise.resolve([]) },
      freeBytes: () => Promise.resolve(looks.shift() ?? null),
    },
    config: { guardEveryMs: 3_600_000 },
    pool: { refuseMail: (reason: string | null) => told.push(reason) },
    log: pino({ level: 'silent' }),
  };
  const maintenance = new Maintenance(options as unknown as MaintenanceOptions);
  maintenance.start();
  while (looks.length > 0) {
    mock.timers.tick(5_000);
    await new Promise(setImmediate);
  }
  await maintenance[Symbol.asyncDispose]();
  mock.timers.reset();
  return told;
}

test('emails are refused while less than 1 GB is free, and for that reason', async () => {
  const why = 'the disk is nearly full';
  assert.deepEqual(await refusalsWith([2 * GB, GB - 1, 0, GB, 2 * GB]), [
    null,
    why,
    why,
    null,
    null,
  ]);
});

test('the disk of a database elsewhere is not ours to judge', async () => {
  assert.deepEqual(await refusalsWith([null, null]), []);
});
