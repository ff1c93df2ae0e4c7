/**
 * Compares screens with their pictures in test/browser/pictures, so that a change of the look is seen by whoever makes
 * it. After a change that is meant, `npm run pictures` takes them again: look at them before you submit them.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import pixelmatch from 'pixelmatch';
import { PNG } from 'pngjs';
import { startBrowser } from '../support/chromium.ts';
import { buildDashboard } from '../support/dashboard.ts';
import { DRAWN_ALIKE, type Picture, takePictures } from '../support/pictures.ts';

const KEPT = join(import.meta.dirname, 'pictures');
const DIFFERENT = join(import.meta.dirname, '../../data/pictures');

/** From which difference on two pixels differ, of 1. Machines smooth the edges of letters differently. */
const PIXEL_THRESHOLD = 0.2;
/** A line of text that is there or not makes more than this on a desk. */
const SHARE_MAX = 0.001;
const BYTES_MAX = 6_000_000;

await buildDashboard();
const browser = await startBrowser(DRAWN_ALIKE);
after(() => browser[Symbol.asyncDispose]());

const pictures = await takePictures(browser, (picture) => problemOf(picture) === null);

test('every screen has a picture, and no picture is of a screen that is gone', () => {
  const kept = readdirSync(KEPT).map((name) => name.replace('.png', ''));
  assert.deepEqual(kept.toSorted(), pictures.map(({ name }) => name).toSorted());
});

test('the pictures are small enough to be kept', () => {
  const bytes = readdirSync(KEPT).reduce(
    (sum, name) => sum + readFileSync(join(KEPT, name)).length,
    0,
  );
  assert.ok(bytes <= BYTES_MAX, `${bytes} bytes`);
});

for (const picture of pictures) {
  test(`the screen looks as in its picture: ${picture.name.replaceAll('-', ' ')}`, () => {
    assertAlike(picture);
  });
}

test('a title that is missing in a screen makes a difference that is found', () => {
  const { name, png } = pictures.find((one) => one.name === 'queue-desk-light')!;
  const changed = PNG.sync.read(png);
  // The place of the title of the page.
  for (let y = 20; y < 80; y += 1) {
    for (let x = 260; x < 700; x += 1)
      changed.data.fill(0, (y * changed.width + x) * 4, (y * changed.width + x) * 4 + 3);
  }
  assert.throws(() => assertAlike({ name, png: PNG.sync.write(changed) }, { isKept: false }));
});

/** @param options.isKept whether a picture that differs is written down, with the places of the differences */
function assertAlike(picture: Picture, { isKept = true } = {}): void {
  const problem = problemOf(picture);
  if (problem === null) return;
  if (isKept && problem.places !== undefined) {
    mkdirSync(DIFFERENT, { recursive: true });
    writeFileSync(join(DIFFERENT, `${picture.name}.png`), picture.png);
    writeFileSync(
      join(DIFFERENT, `${picture.name}-difference.png`),
      PNG.sync.write(problem.places),
    );
  }
  assert.fail(problem.text);
}

/** Returns null for a picture that looks like the kept one. `places`: where they differ. */
function problemOf({ name, png }: Picture): { text: string; places?: PNG } | null {
  const path = join(KEPT, `${name}.png`);
  if (!existsSync(path)) return { text: `There is no ${path}. Run npm run pictures.` };
  const [before, now] = [PNG.sync.read(readFileSync(path)), PNG.sync.read(png)];
  const { width, height } = before;
  if (now.width !== width || now.height !== height)
    return { text: `It has ${now.width} × ${now.height} pixels instead of ${width} × ${height}.` };
  const places = new PNG({ width, height });
  const different = pixelmatch(before.data, now.data, places.data, width, height, {
    threshold: PIXEL_THRESHOLD,
  });
  const share = different / (width * height);
  if (share <= SHARE_MAX) return null;
  const percent = (100 * share).toFixed(2);
  const text = `${percent} % of the pixels differ. Look at ${DIFFERENT}; if the change is meant, run npm run pictures.`;
  return { text, places };
}
