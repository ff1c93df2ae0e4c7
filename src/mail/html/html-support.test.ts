/** Shows which elements and styles of html are reported because mail programs lack them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkHtmlSupport } from './html-support.ts';

const features = (html: string) => checkHtmlSupport(html).unsupported.map(({ feature }) => feature);
const codes = (html: string) => checkHtmlSupport(html).findings.map(({ code }) => code);

test('html of tables and plain styles is shown by all programs', () => {
  const html =
    '<table><tr><td style="padding: 8px; color: #333">Hello <a href="https://acme.com/a?b=1&amp;c=2">A</a></td></tr></table><img src="https://acme.com/a.png" alt="">';
  const { unsupported, findings, links } = checkHtmlSupport(html);
  assert.deepEqual([unsupported, findings], [[], []]);
  assert.deepEqual(links, ['https://acme.com/a?b=1&c=2']);
});

test('elements and styles that large programs lack are named, with the programs', () => {
  const html = `<style>@font-face { font-family: A } .a { display: flex }</style>
    <div style="position: absolute; border-radius: 4px"><svg></svg><video></video></div>
    <script>1</script><link rel="stylesheet" href="https://acme.com/a.css">
    <img alt="a" src="data:image/png;base64,AAAA">`;
  assert.deepEqual(
    new Set(features(html)),
    new Set([
      'web fonts',
      'flexible boxes',
      'positioned elements',
      'round corners',
      'SVG in the html',
      'video and audio',
      'scripts',
      'styles in files',
      'images in data: URLs',
    ]),
  );
  const fonts = checkHtmlSupport(html).unsupported.find(({ feature }) => feature === 'web fonts');
  assert.deepEqual(fonts?.clients, ['Gmail', 'Outlook', 'Yahoo']);
});

test('the text, comments and other properties do not count as styles', () => {
  assert.deepEqual(features('<p>display: flex; position: fixed</p><!-- <script> -->'), []);
  assert.deepEqual(features('<p style="background-position: 0">a</p>'), []);
});

test('useless links and images are found', () => {
  assert.deepEqual(codes('<img src="https://acme.com/a.png">'), ['images_without_alt']);
  assert.deepEqual(codes('<a href="#">a</a>'), ['empty_links']);
  assert.deepEqual(codes('<a href="http://localhost:3000/a">a</a>'), ['local_links']);
  assert.deepEqual(codes('<a href="http://localhost.acme.com/">a</a>'), []);
  assert.deepEqual(codes(`<style>${'a{}'.repeat(3_000)}</style>`), ['long_styles']);
});

test('each link is listed once, and at most 100 are listed', () => {
  const html = Array.from({ length: 150 }, (_, i) => `<a href=https://a.test/${i}>a</a>`).join('');
  assert.equal(checkHtmlSupport(html + html).links.length, 100);
});
