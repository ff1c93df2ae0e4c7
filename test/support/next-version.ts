/** The next version of Letterhaus: a copy of this code with its own version and migrations. */
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { join } from 'node:path';
import { temporaryFolder } from './embedded.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

export type NextVersion = {
  /** The file that Node runs as the command or the service. */
  main: string;
  /** A folder with the program `letterhaus`. */
  bin: string;
};

/** @param migrations texts by file name: `9001.do.grown.sql` */
export function nextVersion(version: string, migrations: Record<string, string>): NextVersion {
  const folder = temporaryFolder();
  for (const name of ['src', 'migrations']) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  for (const name of ['node_modules', 'runtime', 'web', 'docs']) {
    symlinkSync(join(ROOT, name), join(folder, name));
  }
  const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ ...manifest, version }));
  for (const [file, sql] of Object.entries(migrations)) {
    writeFileSync(join(folder, 'migrations', file), sql);
  }
  const main = join(folder, 'main.js');
  writeFileSync(
    main,
    `import { enableCompileCache } from 'node:module';
enableCompileCache(${JSON.stringify(join(folder, 'cache'))});
await import('./src/main.ts');
`,
  );
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'letterhaus'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`);
  chmodSync(join(bin, 'letterhaus'), 0o755);
  return { main, bin };
}
