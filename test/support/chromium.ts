/**
 * A headless Chromium: on Linux x64 that of the package @sparticuz/chromium, elsewhere an installed Chrome.
 *
 *   await using browser = await startBrowser();
 *   const page = await browser.newPage();
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

/** @param folder where the package unpacks its programs */
async function launch(folder: string): Promise<Browser> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    return chromium.launch({ channel: 'chrome', args: ARGUMENTS });
  }
  // The package reads it when it is imported.
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = folder;
  try {
    const { default: packaged } = await import('@sparticuz/chromium');
    packaged.setGraphicsMode = false;
    const executablePath = await packaged.executablePath();
    return await chromium.launch({ executablePath, args: ARGUMENTS });
  } finally {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  }
}
