/**
 * Bundles the service and its packages into chunks of JavaScript, so that a start opens a hundred files instead of a
 * thousand, and an installation has no package beside Node and PostgreSQL. Modules that are started or loaded by their
 * path keep it; everything else is in `src/chunks/`. What a module computes from its own path stays right: it gets the
 * path that it has in a clone.
 */
import { readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { type Plugin, rolldown } from 'rolldown';

const ROOT = join(import.meta.dirname, '../..');
/** Modules that are started or loaded by their path. */
const ENTRIES = [
  'src/main.ts',
  'src/service/worker/worker.ts',
  'src/service/maintenance/doctor-thread.ts',
  'src/service/machine/openssl-time.ts',
  'src/delivery/shaping/settings-file.ts',
];
const CHUNKS = 'src/chunks';
/** Packages ask for these if they are installed. Letterhaus has neither. */
const ABSENT = ['pg-native', 'pg-cloudflare'];
/** Stands for the way from a chunk to the folder of the package, until the place of the chunk is known. */
const WAY = '__WAY_TO_PACKAGE__';

/**
 * @param folder of the package
 * @throws Error when a module cannot be bundled, or a package is not found
 */
export async function bundle(folder: string): Promise<void> {
  const build = await rolldown({
    input: Object.fromEntries(ENTRIES.map((path) => [path.replace(/\.ts$/, ''), join(ROOT, path)])),
    platform: 'node',
    external: ABSENT,
    plugins: [packageFile(), pathsOfClone()],
    onLog: (_level, log) => {
      if (log.code === 'UNRESOLVED_IMPORT' || log.code === 'CIRCULAR_CHUNK')
        throw new Error(log.message);
    },
  });
  await build.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: `${CHUNKS}/[name]-[hash].js`,
    // Packages of CommonJS run when they are imported, as Node runs them.
    strictExecutionOrder: true,
  });
  await build.close();
}

/** Gives modules the version alone of package.json, which else would be in every chunk that prints it. */
function packageFile(): Plugin {
  const id = join(ROOT, 'package.json');
  return {
    name: 'package-file',
    load: {
      filter: { id },
      handler: () => {
        const { version } = JSON.parse(readFileSync(id, 'utf8')) as { version: string };
        return { code: JSON.stringify({ version }), moduleType: 'json' };
      },
    },
  };
}

/**
 * Replaces the places of own modules by those that they have in a clone. A module that asks for its place in another
 * way would look for its files in the folder of the chunks, so it fails the build.
 */
function pathsOfClone(): Plugin {
  return {
    name: 'paths-of-clone',
    transform: {
      filter: { code: 'import.meta.' },
      handler: (code, id) => {
        if (!id.startsWith(join(ROOT, 'src/'))) return null;
        const path = relative(ROOT, id).replace(/\.ts$/, '.js');
        const placed = code
          .replaceAll('import.meta.url', `new URL(${WAY} + '${path}', import.meta.url).href`)
          .replaceAll(
            'import.meta.dirname',
            `(import.meta.dirname + '/' + ${WAY} + '${dirname(path)}')`,
          )
          // Asks who may read packages, which are in the chunks now.
          .replaceAll("import.meta.resolve('undici')", 'import.meta.url');
        for (const [, module = ''] of code.matchAll(/new URL\('(\.[^']+\.ts)', import\.meta/g)) {
          const loaded = relative(ROOT, join(dirname(id), module));
          if (loaded.startsWith('src/') && !ENTRIES.includes(loaded))
            throw new Error(`${loaded} is loaded by its path: name it in ENTRIES.`);
        }
        if (/import\.meta\.(?!url|dirname)/.test(placed))
          throw new Error(`${path} cannot be bundled.`);
        return placed;
      },
    },
    renderChunk: (code, { fileName }) =>
      code.replaceAll(WAY, `'${relative(dirname(fileName), '.')}/'`),
  };
}
