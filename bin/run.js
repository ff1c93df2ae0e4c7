/**
 * Runs a script of this clone, or a tool from its devDependencies, with the bundled Node:
 *
 *   node bin/run.js bench/main.ts --quick
 *   node bin/run.js --bin oxfmt .
 *
 * Script paths are relative to the clone, not to the working directory.
 */
import { bootstrap } from './bootstrap.js';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const argv = process.argv.slice(2);
const isTool = argv[0] === '--bin';
const [name, ...args] = isTool ? argv.slice(1) : argv;

if (name === undefined) {
  console.error(
    'usage: node bin/run.js <script.ts> [args]   or   node bin/run.js --bin <tool> [args]',
  );
  process.exitCode = 2;
} else {
  await bootstrap(root, isTool ? join('node_modules/.bin', name) : name, args);
}
