/** Makes the package of the SDK: compiled from its sources, with its README and licence. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { packFolder } from './folder.ts';

const ROOT = join(import.meta.dirname, '../..');
const SDK = join(ROOT, 'sdk');

/**
 * Compiles it here and not in a script of the package, because npm runs none in this repository (.npmrc).
 * @returns the path of the package in the folder `destination`
 */
export function packSdk(destination: string): string {
  const made = mkdtempSync(join(tmpdir(), 'letterhaus-sdk-package-'));
  try {
    for (const name of ['package.json', 'README.md', 'LICENSE']) {
      copyFileSync(join(SDK, name), join(made, name));
    }
    const compiler = join(ROOT, 'node_modules/.bin/tsc');
    execFileSync(compiler, ['-p', SDK, '--outDir', join(made, 'dist')]);
    return packFolder(made, destination);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}
