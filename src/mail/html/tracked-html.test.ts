/** Html with tracked links differs from the original in nothing else, also where it is malformed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { TRACKED_LINKS_MAX, trackHtml } from './tracked-html.ts';
import { TRACKED_HTML_MAX_LENGTH, type Tracking, TrackingTokens } from '../links/tracking-link.ts';

const BASE = 'https://links.acme.com';
const tokens = new TrackingTokens([Buffer.alloc(32, 1)]);
const who = {
  projectId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
  environment: 'live' as const,
  emailId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21ab',
  position: 3,
};
const LINK = /https:\/\/links\.acme\.com\/t\/([\w-]+)/g;

function tracked(html: string, tracking: Partial<Tracking> = {}): string {
  const isUntracked = (target: string) => target.startsWith('https://acme.com/unsubscribe');
  const wanted = { opens: false, clicks: true, base: BASE, ...tracking };
  return trackHtml(html, { tracking: wanted, recipient: who, tokens, isUntracked });
}

/** Returns the html with `[target]` in place of each tracked link. */
function shown(html: string, tracking: Partial<Tracking> = {}): string {
  return tracked(html, tracking).replace(LINK, (_, token: string) => {
    const link = tokens.read(token) ?? assert.fail(token);
    return `[${link.target ?? 'open'}]`;
  });
}

test('links of a and area are tracked, however their href is written', () => {
  const cases: [string, string][] = [
    ['<a href="https://a.test/">x</a>', '<a href="[https://a.test/]">x</a>'],
    [
      "<A class=b HREF = 'http://a.test/?x=1&amp;y=2'>",
      "<A class=b HREF = '[http://a.test/?x=1&y=2]'>",
    ],
    ['<a href=https://a.test/x>', '<a href=[https://a.test/x]>'],
    ['<a\nhref\t=\r\n"https://a.test/">', '<a\nhref\t=\r\n"[https://a.test/]">'],
    ['<area shape=rect href="https://a.test/"/>', '<area shape=rect href="[https://a.test/]"/>'],
    [
      '<a href="https://a.test/" href="https://b.test/">',
      '<a href="[https://a.test/]" href="https://b.test/">',
    ],
    ['<a title=">" href="https://a.test/">', '<a title=">" href="[https://a.test/]">'],
    ['<a href="&#104;ttps://a.test/">', '<a href="[https://a.test/]">'],
  ];
  for (const [html, wanted] of cases) assert.equal(shown(html), wanted);
});

test('other links, and text that is not markup, do not change', () => {
  for (const html of [
    '<a href="mailto:jo@a.test">',
    '<a href="tel:+49123">',
    '<a href="#top">',
    '<a href="/relative">',
    '<a href="javascript:alert(1)">',
    '<a href="data:text/html,x">',
    '<a href="https://acme.com/unsubscribe?who=1">',
    '<a href="https://a.test/" data-letterhaus-track="off">',
    '<a name="https://a.test/">',
    '<img src="https://a.test/a.png"><link href="https://a.test/a.css"><form action="https://a.test/">',
    '<!-- <a href="https://a.test/"> -->',
    '<!--[if mso]><a href="https://a.test/">x</a><![endif]-->',
    '<title><a href="https://a.test/"></title>',
    '<style>a::after{content:\'<a href="https://a.test/">\'}</style>',
    '<script>let a = \'<a href="https://a.test/">\'</script>',
    '<textarea><a href="https://a.test/"></textarea>',
    '<a title="<a href=https://a.test/>">',
    'https://a.test/',
    '<a href="https://a.test/',
  ]) {
    assert.equal(tracked(html), html);
  }
});

test('the pixel stands before the end of the body, else at the end', () => {
  const pixel = '<img src="[open]" width="1" height="1" alt="">';
  const opens = { opens: true, clicks: false };
  assert.equal(shown('<body><p>x</BODY></html>', opens), `<body><p>x${pixel}</BODY></html>`);
  assert.equal(
    shown('<p><a href="https://a.test/">', opens),
    `<p><a href="https://a.test/">${pixel}`,
  );
  assert.equal(shown('<!-- </body> -->x', opens), `<!-- </body> -->x${pixel}`);
  const late = shown('x</body><a href="https://a.test/">', { opens: true });
  assert.equal(late, `x${pixel}</body><a href="[https://a.test/]">`);
});

test('nothing is tracked without a request, and no html that is too long', () => {
  const html = '<a href="https://a.test/"></body>';
  assert.equal(tracked(html, { clicks: false }), html);
  assert.equal(tracked(html, { base: null }), html);
  const long = html + 'x'.repeat(TRACKED_HTML_MAX_LENGTH);
  assert.equal(tracked(long), long);
});

test('a base with quotes cannot end the attribute', () => {
  const base = `https://links.acme.com/it's`;
  const html = tracked(`<a href='https://a.test/'>`, { base });
  assert.match(html, /^<a href='https:\/\/links\.acme\.com\/it%27s\/t\/[\w-]+'>$/);
});

const MARKUP = [
  ['<p>', '</p>', '<!--', '-->', '<title>', '</title>', '<script>', '</script>', '</body>'],
  ['\r\n', '\n', '"', "'", '<', '>', '&', '&amp;', '\0', '\ud800', '<a', '<svg>', '<![CDATA['],
].flat();
const href = fc.constantFrom(
  'https://a.test/?x=1&amp;y=2',
  'http://b.test/path',
  'https://ü.test/ä',
  'mailto:jo@a.test',
  '#top',
);
const quote = fc.constantFrom('"', "'");
const link = fc
  .tuple(
    fc.constantFrom('a', 'A', 'area', 'b'),
    href,
    quote,
    fc.constantFrom('', ' x', ' title="<a>"'),
  )
  .map(([name, url, mark, more]) => `<${name}${more} href=${mark}${url}${mark}>`);
const other = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom(...MARKUP));

test('a tracked document differs from the original only in hrefs and the pixel', () => {
  const documents = fc
    .array(fc.oneof(link, other), { maxLength: 40 })
    .map((parts) => parts.join(''));
  let links = 0;
  fc.assert(
    fc.property(documents, (html) => {
      const pieces = tracked(html, { opens: true }).split(LINK);
      let at = 0;
      for (const [index, piece] of pieces.entries()) {
        if (index % 2 === 1) {
          const target = tokens.read(piece)?.target;
          if (target === null) continue;
          // The link must have replaced one of the hrefs above.
          const rest = html.slice(at);
          const replaced = [
            'https://a.test/?x=1&amp;y=2',
            'http://b.test/path',
            'https://ü.test/ä',
          ].find((url) => rest.startsWith(url));
          assert.ok(replaced !== undefined, rest.slice(0, 50));
          assert.equal(target, new URL(replaced.replace('&amp;', '&')).href);
          at += replaced.length;
          links += 1;
          continue;
        }
        const kept = piece
          .replace(/<img src="$/, '')
          .replace(/^" width="1" height="1" alt="">/, '');
        assert.ok(html.startsWith(kept, at), JSON.stringify([kept, html.slice(at, at + 50)]));
        at += kept.length;
      }
      assert.equal(at, html.length);
    }),
    { numRuns: 2_000 },
  );
  assert.ok(links > 500, `${links} links`);
});

test('hostile html keeps its length but for a bounded number of links', () => {
  const max = TRACKED_HTML_MAX_LENGTH;
  const many = '<a href=http://a>'.repeat(max / 17);
  assert.equal(tracked(many).match(LINK)?.length, TRACKED_LINKS_MAX);
  for (const unit of [
    '<div>',
    '<a ',
    '<',
    '<!--',
    '&#x',
    '<a href="&',
    '<title>',
    '</a',
    '<a b=1 ',
  ]) {
    const html = unit.repeat(max / unit.length);
    assert.equal(tracked(html), html, unit);
  }
});
