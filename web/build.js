/**
 * Builds the dashboard into a folder that does not exist yet, and the handbook into `handbook/` below it:
 * `node web/build.js <folder>`. Every file that gains by it is also written compressed, so that the service compresses
 * nothing.
 */
import { appendFile, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import tailwindcss from '@tailwindcss/vite';
import { build } from 'vite';
import { buildHandbook } from './handbook/build.ts';

const COMPRESSIBLE = /\.(js|css|html|json|svg|txt)$/;

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: node web/build.js <folder>');

await build({
  root: import.meta.dirname,
  configFile: false,
  base: '/dashboard/',
  logLevel: 'warn',
  plugins: [tailwindcss()],
  define: { 'import.meta.env.VERSION': JSON.stringify(await readVersion()) },
  build: {
    outDir: folder,
    emptyOutDir: false,
    target: 'es2022',
    // The notices that the licences of the bundled packages ask for.
    license: { fileName: 'licences.md' },
    // Inlined files would need `data:` in the policy of the pages.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The editor of templates is one file, which only its screen loads. test/browser/dashboard.test.ts limits what the
    // first screen loads.
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      // Packages mark modules that run in a browser, which all do here.
      onwarn: (warning, warn) => warning.code === 'MODULE_LEVEL_DIRECTIVE' || warn(warning),
      output: {
        // One chunk for what changes only with the lockfile, so that a new version loads less.
        codeSplitting: {
          groups: [{ name: 'react', test: /node_modules\/(react|react-dom|scheduler)\// }],
        },
      },
    },
  },
});
await noteFontLicence();
await buildHandbook(join(folder, 'handbook'));
for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
  if (entry.isFile() && COMPRESSIBLE.test(entry.name))
    await compress(join(entry.parentPath, entry.name));
}

/** The dashboard has the version of the service that serves it. */
async function readVersion() {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8');
  return /** @type {{ version: string }} */ (JSON.parse(text)).version;
}

/** The build collects the licences of scripts, and not that of a font. */
async function noteFontLicence() {
  const licence = await readFile(
    new URL(import.meta.resolve('@fontsource-variable/geist/LICENSE')),
    'utf8',
  );
  await appendFile(join(folder ?? '', 'licences.md'), `\n## Geist (font) - OFL-1.1\n\n${licence}`);
}

/** @param {string} path */
async function compress(path) {
  const content = await readFile(path);
  // Half a second of work more than 9, and 5 % less to load; 11 takes another second for 2 %.
  const params = { [constants.BROTLI_PARAM_QUALITY]: 10 };
  const [br, gz] = await Promise.all([
    promisify(brotliCompress)(content, { params }),
    promisify(gzip)(content, { level: 9 }),
  ]);
  if (br.length < content.length) await writeFile(`${path}.br`, br);
  if (gz.length < content.length) await writeFile(`${path}.gz`, gz);
}
