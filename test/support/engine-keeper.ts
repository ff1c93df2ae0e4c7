/**
 * The embedded PostgreSQL for tests, with the template of their databases, in a process of its own:
 * prints one JSON line (KeptEngine), lives until its stdin closes, then stops the engine and removes every file.
 *
 * The pipe ends with the tests: however they end, `kill -9` included, their end of it closes. Ctrl-C
 * does not reach this process (it leads its own group), so nothing stops before the tests have.
 * Started by engine.ts.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openEngine } from '../../src/store/postgres/embedded/engine.ts';
import type { KeptEngine } from './engine.ts';
import { makeTemplate } from './postgres.ts';

const dataDir = mkdtempSync(join(tmpdir(), 'posthorn-test-'));
process.once('exit', () => rmSync(dataDir, { recursive: true, force: true }));

await using engine = await openEngine({
  dataDir,
  log: (line) => process.stderr.write(`test engine: ${line}\n`),
  world: { monotonicMs: () => performance.now() },
  // Several services of several workers at a time, each with some 20 connections.
  load: { most: 400, workers: 2 },
});
const address = engine.connection('postgres');
const kept: KeptEngine = { address, template: await makeTemplate(address) };
process.stdout.write(`${JSON.stringify(kept)}\n`);
process.stdin.resume();
await once(process.stdin, 'close');
