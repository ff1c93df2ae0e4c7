/**
 * The service that test files share, in its own process. Prints one JSON line (KeptService), runs until its stdin
 * closes, then ends the service and removes every file. When the service ends earlier, it prints the end of its log.
 * Started by keeper.ts.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { KeptService } from './kept-service.ts';
import { migratedDatabase } from './postgres.ts';
import { startService } from './service.ts';

const ENOUGH = '100000/60';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
const logFile = join(folder, 'service.log');

const database = await migratedDatabase();
const service = await startService({
  database,
  dataDir: join(folder, 'data'),
  logFile,
  // Two workers, so that tests find state that one worker caches and the other changes.
  args: ['--workers', '2'],
  env: {
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_LIMIT_SENDING: ENOUGH,
    LETTERHAUS_LIMIT_VERIFICATION: ENOUGH,
    LETTERHAUS_LIMIT_DOMAINS: ENOUGH,
    LETTERHAUS_LIMIT_WEBHOOKS: ENOUGH,
    LETTERHAUS_LIMIT_AUTH: ENOUGH,
  },
});
const { url, env } = service;
const kept: KeptService = { url, address: database.address, env, logFile };
process.stdout.write(`${JSON.stringify(kept)}\n`);
process.stdin.resume();
const closed = once(process.stdin, 'close').then(() => null);
const end = await Promise.race([service.ended(), closed]);
if (end !== null) {
  process.stderr.write(`the shared service ended with ${end}\n${service.logs.slice(-20_000)}`);
}
// Tests can read the log until then.
await closed;
await service[Symbol.asyncDispose]();
// Our own engine removes its databases and may be ending already.
if (process.env['DATABASE_URL']) await database[Symbol.asyncDispose]();
