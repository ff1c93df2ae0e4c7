/**
 * A headless Chromium: on Linux x64 the one of the package @sparticuz/chromium, elsewhere an installed Chrome.
 *
 *   await using browser = await startBrowser();
 *   const page = await browser.newPage();
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Browser, chromium } from 'playwright-core';

/** The package's own arguments would turn off what is tested: policies, and one process for each site. */
const ARGUMENTS = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'];

export type TestBrowser = Browser & AsyncDisposable;

/** @param args further arguments of Chromium */
export async function startBrowser(args: readonly string[] = []): Promise<TestBrowser> {
  const browser = await launch([...ARGUMENTS, ...args]);
  return Object.assign(browser, { [Symbol.asyncDispose]: () => browser.close() });
}

async function launch(args: string[]): Promise<Browser> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return chromium.launch({ channel: 'chrome', args });
  }
  return chromium.launch({ executablePath: await unpacked(), args });
}

const ROOT = join(import.meta.dirname, '../..');
const CACHE = join(ROOT, 'node_modules/.cache');

/**
 * Returns the program of the package. It is unpacked once for each version, which takes 2 s of CPU time, and then
 * renamed. So it is complete when it has its name, and only one of several test files succeeds.
 */
async function unpacked(): Promise<string> {
  const entry = createRequire(import.meta.url).resolve('@sparticuz/chromium');
  const { version } = JSON.parse(readFileSync(join(dirname(entry), '../package.json'), 'utf8')) as {
    version: string;
  };
  const folder = join(CACHE, `chromium-${version}`);
  if (!existsSync(folder)) {
    mkdirSync(CACHE, { recursive: true });
    const prepared = mkdtempSync(`${folder}.`);
    await unpackInto(prepared);
    try {
      renameSync(prepared, folder);
    } catch (error) {
      rmSync(prepared, { recursive: true });
      if (!existsSync(folder)) throw error;
    }
  }
  return join(folder, 'chromium');
}

const UNPACK = fileURLToPath(new URL('unpack-chromium.ts', import.meta.url));

async function unpackInto(folder: string): Promise<void> {
  const env = { ...process.env, TMPDIR: folder };
  await promisify(execFile)(process.execPath, [UNPACK], { env });
}
