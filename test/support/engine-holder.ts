/**
 * A process that opens the embedded engine, so that tests can kill it. Prints one JSON line (the engine's address,
 * or the problem), runs until its stdin closes, then stops the engine. Started by embedded.ts.
 */
import { once } from 'node:events';
import { openEngine } from '../../src/database/embedded/engine.ts';
import { EngineProblem } from '../../src/database/embedded/problem.ts';
import type { HolderOptions, HolderReport } from './embedded.ts';

const { asUser, url, ...options } = JSON.parse(process.argv[2] ?? '') as HolderOptions;
if (asUser !== undefined) becomeUser(asUser);

try {
  await using engine = await openEngine({
    log: (line) => process.stderr.write(`${line}\n`),
    world: { monotonicMs: () => performance.now() },
    ...options,
  });
  if (url !== undefined) engine.publish({ url });
  const { pid, socketDir, version, isAdopted: adopted } = engine;
  report({ pid, socketDir, version, adopted });
  process.stdin.resume();
  await once(process.stdin, 'close');
} catch (error) {
  if (!(error instanceof EngineProblem)) throw error;
  report({ problem: error.kind, message: error.message });
}

function report(line: HolderReport | { problem: string; message: string }): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

/** Called late, when everything is loaded: that user may be unable to read the clone. */
function becomeUser(uid: number): void {
  process.setgroups?.([]);
  process.setgid?.(uid);
  process.setuid?.(uid);
}
