/** Shows what previews remove from html, and what stays. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inertHtml } from './inert-html.ts';

test('frames, objects and hints become elements that load nothing, and the rest stays', () => {
  const cases: [html: string, inert: string][] = [
    ['<p>a</p><IFRAME/src=x>b</iframe>', '<p>a</p><x-IFRAME/src=x>b</x-iframe>'],
    ['<object data=x><img src=y></object>', '<x-object data=x><img src=y></x-object>'],
    ['<frameset><frame src=x></frameset>', '<wbr x-frameset><wbr x-frame src=x></frameset>'],
    ['<embed src=x>b', '<wbr x-embed src=x>b'],
    [
      '<link rel=preconnect href=x><style>p{}</style>',
      '<meta x-link rel=preconnect href=x><style>p{}</style>',
    ],
    ['&lt;iframe> < object>', '&lt;iframe> < object>'],
  ];
  for (const [html, inert] of cases) assert.equal(inertHtml(html, { remote: false }), inert);
});

test('stylesheets stay when the reader has requested remote content', () => {
  const html = '<link rel=stylesheet href=x><iframe src=x></iframe>';
  const inert = '<link rel=stylesheet href=x><x-iframe src=x></x-iframe>';
  assert.equal(inertHtml(html, { remote: true }), inert);
});
