/** `npm run pictures`: takes again the pictures that test/browser/pictures.test.ts compares. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { startBrowser } from '../test/support/chromium.ts';
import { buildDashboard } from '../test/support/dashboard.ts';
import { DRAWN_ALIKE, takePictures } from '../test/support/pictures.ts';

const folder = join(import.meta.dirname, '../test/browser/pictures');
await buildDashboard();
await using browser = await startBrowser(DRAWN_ALIKE);
const pictures = await takePictures(browser);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
for (const { name, png } of pictures) writeFileSync(join(folder, `${name}.png`), png);
process.stdout.write(`${pictures.length} pictures are in ${folder}.\n`);
