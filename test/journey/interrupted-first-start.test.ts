/** A first start that ends while it creates the database leaves nothing that the next start has to repair. */
import assert from 'node:assert/strict';
import { existsSync, globSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../support/embedded.ts';
import { cleanEnv } from '../support/letterhaus.ts';
import { ServiceProcess } from '../support/service-process.ts';
import { waitFor } from '../support/wait.ts';

const ENDS = {
  SIGTERM: (service: ServiceProcess) => service.stop('SIGTERM'),
  // Only the supervisor: initdb goes on beside the next start.
  'kill -9': (service: ServiceProcess) => service.kill9(),
};

for (const [what, end] of Object.entries(ENDS)) {
  test(`a start works after ${what} while the database was being made`, async () => {
    const dataDir = join(temporaryFolder(), 'data');
    const env = cleanEnv({ HOST: '127.0.0.1', PORT: '0', LETTERHAUS_DATA_DIR: dataDir });
    const first = new ServiceProcess(['--workers', '1'], env);
    const isMaking = () => globSync(join(dataDir, 'unfinished-*', 'pg', 'PG_VERSION')).length > 0;
    await waitFor(isMaking, { what: 'initdb to write', everyMs: 1, timeoutMs: 60_000 });
    const ended = await end(first);
    if (what === 'SIGTERM') assert.equal(ended, 0, first.logs);

    const second = new ServiceProcess(['--workers', '1'], env);
    const ready = await second.ready();
    assert.equal((await fetch(`${ready.url}/readyz`)).status, 200);
    assert.ok(existsSync(join(dataDir, 'pg', 'PG_VERSION')));
    assert.deepEqual(globSync(join(dataDir, 'unfinished-*')), []);
    assert.equal(await second.stop(), 0);
  });
}
