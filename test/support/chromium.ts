/**
 * A headless Chromium: on Linux x64 that of the package @sparticuz/chromium, elsewhere an installed Chrome.
 *
 *   await using browser = await startBrowser();
 *   const page = await browser.newPage();
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

/** The package's own arguments would switch off what is tested: policies, one process for each site. */
const ARGUMENTS = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'];

export type TestBrowser = Browser & AsyncDisposable;

export async function startBrowser(): Promise<TestBrowser> {
  const folder = mkdtempSync(join(tmpdir(), 'posthorn-browser-'));
  try {
    const browser = await launch(folder);
    return Object.assign(browser, {
      async [Symbol.asyncDispose]() {
        await browser.close();
        rmSync(folder, { recursive: true, force: true });
      },
    });
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
}

/** @param folder for its profile */
async function launch(folder: string): Promise<Browser> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return chromium.launch({ channel: 'chrome', args: ARGUMENTS });
  }
  const executablePath = await unpacked();
  return withTmpdir(folder, () => chromium.launch({ executablePath, args: ARGUMENTS }));
}

/**
 * The program of the package, unpacked once for each version: that takes 2 s of CPU time. It is complete when it
 * has its name, because it is renamed; of several test files at once, one is first.
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
    await withTmpdir(prepared, unpack);
    try {
      renameSync(prepared, folder);
    } catch (error) {
      rmSync(prepared, { recursive: true });
      if (!existsSync(folder)) throw error;
    }
  }
  return join(folder, 'chromium');
}

const CACHE = join(import.meta.dirname, '../../node_modules/.cache');

/** The package unpacks into TMPDIR, as it is when the package is imported. */
async function unpack(): Promise<void> {
  const { default: packaged } = await import('@sparticuz/chromium');
  packaged.setGraphicsMode = false;
  await packaged.executablePath();
}

async function withTmpdir<Result>(folder: string, work: () => Promise<Result>): Promise<Result> {
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = folder;
  try {
    return await work();
  } finally {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  }
}
