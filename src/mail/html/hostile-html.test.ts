/** Gives html that repeats one piece to everything that parses html. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cpuMs } from '../../../test/support/cpu.ts';
import { address } from '../../../test/support/deliveries.ts';
import { EMAIL_DEFAULTS } from '../email.ts';
import { checkHtmlSupport } from './html-support.ts';
import { lintEmail } from './lint-email.ts';
import { textFromHtml } from './text-from-html.ts';
import { trackHtml } from './tracked-html.ts';
import { TrackingTokens } from '../links/tracking-link.ts';

const TRACKED = {
  tracking: { opens: true, clicks: true, base: 'https://links.test' },
  recipient: {
    projectId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
    environment: 'live' as const,
    emailId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21ab',
    position: 0,
  },
  tokens: new TrackingTokens([Buffer.alloc(32, 1)]),
  isUntracked: () => false,
};

const READERS: Record<string, (html: string) => unknown> = {
  lint: (html) =>
    lintEmail({
      ...EMAIL_DEFAULTS,
      from: { name: null, address: address('hello@acme.com') },
      to: [],
      subject: 'Hello',
      html,
    }),
  report: checkHtmlSupport,
  text: textFromHtml,
  // Longer html is not tracked.
  tracking: (html) => trackHtml(html.slice(0, 250_000), TRACKED),
};

/** Html that consists of a beginning, a repeated unit and an end. */
const SHAPES: readonly (readonly [before: string, unit: string, after: string])[] = [
  ['<img src=', ' ', 'x>'],
  ['<a href="', ' ', 'x">'],
  ['<a href = ', ' ', '>'],
  ['<a', ' href', '>'],
  ['<a', ' href=', '>'],
  ["<a x='", ' href="', "'>"],
  ['<p style="', 'display', '">'],
  ['<p style="display', ' ', '">'],
  ['<p style="', 'background:', '">'],
  ['', '<style>', ''],
  ['', '<style></style>', ''],
  ['', '<script>', '</script'],
  ['', '</title<title>', ''],
  ['', '<!--', ''],
  ['', '<a href="&lt;">', ''],
  ['<a href="', '&lt;', '">x</a>'],
  ['', '&lt;', ''],
  ['', '&#x1f4a5', ';'],
  ['', '&', ''],
  ['', '<', ''],
  ['', '<ol><li>', ''],
  ['<pre>', '\r', '</pre>'],
  ['', 'http:', ''],
  ['', 'view in your ', ''],
  ['', '\u00ad', ''],
  ['', ' \u00a0', ''],
];

const LENGTH = 500_000;
/** Quadratic time would take minutes. */
const TIME_MAX_MS = 2_000;

for (const [name, read] of Object.entries(READERS)) {
  test(`repeated pieces of html cost no more than other characters: ${name}`, () => {
    for (const [before, unit, after] of SHAPES) {
      const html = before + unit.repeat(LENGTH / unit.length) + after;
      const tookMs = cpuMs(() => read(html));
      assert.ok(tookMs < TIME_MAX_MS, `${before}${unit}…: ${tookMs.toFixed(0)} ms`);
    }
  });
}
