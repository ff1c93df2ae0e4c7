/**
 * The embedded PostgreSQL for tests, with the template of their databases, in its own process. Prints one JSON line
 * (KeptEngine), runs until its stdin closes, then stops the engine and removes every file.
 *
 * The pipe closes when the tests end, even by `kill -9`. Ctrl-C does not reach this process, because it leads its
 * own group. So it stops after the tests. Started by engine.ts.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEngine } from '../../src/database/embedded/engine.ts';
import { DEFAULT_SEARCH } from '../../src/database/embedded/binaries.ts';
import { ENGINE_PACKAGE, type KeptEngine } from './engine.ts';
import { makeTemplate } from './postgres.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
process.once('exit', () => rmSync(dataDir, { recursive: true, force: true }));

// Every new database is a checkpoint, after which whole pages are logged; compressing them took 5 % of the engine's
// CPU time. Root's database runs as another user, who needs access.
chmodSync(dataDir, 0o711);
const settings = join(dataDir, 'postgresql.local.conf');
writeFileSync(settings, 'wal_compression = off\n');
chmodSync(settings, 0o644);

const { [ENGINE_PACKAGE]: otherPackage } = process.env;
await using engine = await openEngine({
  dataDir,
  log: (line) => {
    // Every run of the tests creates one.
    if (!line.startsWith('There is no database yet'))
      process.stderr.write(`test engine: ${line}\n`);
  },
  world: { monotonicMs: () => performance.now() },
  // For several services with several workers, each with about 20 connections.
  connectionsMax: 400,
  ...(otherPackage && { search: { ...DEFAULT_SEARCH, packagesFrom: [otherPackage] } }),
});
const address = engine.address('postgres');
const template = otherPackage ? null : await makeTemplate(address);
const kept: KeptEngine = { address, template };
process.stdout.write(`${JSON.stringify(kept)}\n`);
process.stdin.resume();
await once(process.stdin, 'close');
