/**
 * The text part that is made from html. Its words are compared with those of html-to-text, and hostile html is timed.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { compile } from 'html-to-text';
import { textFromHtml } from './text-from-html.ts';
import { CHARACTER } from '../../../test/support/characters.ts';

test('the text of a receipt is readable', () => {
  const html = `<!doctype html><html><head><title>Receipt</title>
    <style>p > a { color: red }</style><!-- <p>old</p> --></head>
    <body><div style="display:none">Preview&nbsp;&zwnj;</div>
    <h1>Thank&nbsp;you, Zo&euml;!</h1>
    <p>Your order <b>#12</b> left our caf&#233;
       &mdash; <a href="https://acme.test/o?a=1&amp;b=2">follow it</a>.<br>Bye!</p>
    <table><tr><td>Espresso<td align=right>&euro; 12.50</tr><tr><td>Tea</td><td>&#x20ac; 3</td></tr></table>
    <ul><li>one</li><li>two<ol><li>first</li><li>second</li></ol></li></ul>
    <pre>
  kept   as
    it is</pre>
    <a href="https://acme.test/"><img src="x.png" alt="Acme"></a>
    <a href="https://acme.test/x"><img src="y.png"></a>
    <a href="https://acme.test">acme.test</a> <a href="mailto:help@acme.test?subject=Hi">Help</a>
    <a href="#top">Top</a> <a href="javascript:alert(1)">Click</a>
    </body></html>`;
  assert.equal(
    textFromHtml(html),
    `Thank you, Zoë!

Your order #12 left our café — follow it <https://acme.test/o?a=1&b=2>.
Bye!

Espresso € 12.50
Tea € 3

- one
- two
  1. first
  2. second

  kept   as
    it is

Acme <https://acme.test/> https://acme.test/x acme.test Help <help@acme.test> Top Click`,
  );
});

test('text that is not markup is kept', () => {
  const texts: Record<string, string> = {
    'a < b & c > d': 'a < b & c > d',
    '1 <2 &amp;lt; &unknown; &copy=1': '1 <2 &lt; &unknown; ©=1',
    '<a href="https://a.b/?a=1&copy=2">&copy2024</a>': '©2024 <https://a.b/?a=1&copy=2>',
    '<a href="https://a.b/"><img alt="&amp;lt; &copy=1"></a>': '&lt; &copy=1 <https://a.b/>',
    '&#0;&#xd800;&#1114112;&#128;&#x99;': '\ufffd\ufffd\ufffd€™',
    '<p title="a > b">x</p>': 'x',
    "<p title='a > b'>x</p>": 'x',
    '<p title=">x': '',
    'x<!-- > -->y<!-->z': 'xyz',
    '<?php echo 1 ?>x<![CDATA[y]]>z': 'xz',
    'x</>y</ p>z': 'xyz',
    '<SCRIPT>"</p>"</sCript >x<style>y': 'x',
    'a\u00adb\u200b\ufeffc\0d': 'abcd',
    '': '',
    '<p> </p>': '',
  };
  for (const [html, text] of Object.entries(texts)) assert.equal(textFromHtml(html), text, html);
});

test('short html keeps its end, although rules and list marks make the text longer', () => {
  assert.equal(textFromHtml('Hi<hr>there'), 'Hi\n\n---\n\nthere');
  assert.equal(textFromHtml('<ol><li>a<li>b<li>c'), '1. a\n2. b\n3. c');
});

test('lists are numbered as browsers number them', () => {
  const items = (count: number) => '<li>x'.repeat(count);
  for (const [html, marks] of [
    [`<ol start=5>${items(2)}</ol>`, '5. 6.'],
    [`<OL START=" +5x">${items(2)}`, '5. 6.'],
    [`<ol start="-1">${items(3)}`, '-1. 0. 1.'],
    [`<ol start=five>${items(1)}`, '1.'],
    [`<ol start=99999999999>${items(1)}`, '1.'],
    [`<ol title="start=5">${items(1)}`, '1.'],
    [`<ol reversed>${items(3)}</ol>`, '3. 2. 1.'],
    [`<ol reversed>${items(3)}`, '3. 2. 1.'],
    [`<ol reversed start=0>${items(2)}`, '0. -1.'],
    ['<ol reversed><li>x<li value=9>x<li>x</ol>', '3. 9. 8.'],
    ['<ol reversed><li>x<li><li style="display:none">x</li><li>x</ol>', '3. 1.'],
    ['<ol><li>x<li value=7>x<li>x', '1. 7. 8.'],
    [`<ol type=a start=26>${items(3)}`, 'z. aa. ab.'],
    [`<ol type=A start=0>${items(2)}`, '0. A.'],
    [`<ol type=i start=3>${items(2)}`, 'iii. iv.'],
    [`<ol type="I" start=1994>${items(1)}`, 'MCMXCIV.'],
    [`<ol type=i start=4000>${items(1)}`, '4000.'],
    [`<ol type=1>${items(1)}`, '1.'],
    [`<ol type=x>${items(1)}`, '1.'],
    ['<ol type=a><li>x<li type=I>x<li value=3>x', 'a. II. c.'],
    ['<ul start=5><li value=7>x', '-'],
    ['<ol start=2><li>x<ol reversed><li>x<li>x</ol><li>x', '2. 2. 1. 3.'],
  ] as const) {
    const found = textFromHtml(html)
      .split('\n')
      .map((line) => line.trim().replace(/ x$/, ''));
    assert.equal(found.join(' '), marks, html);
  }
});

const inline = fc.letrec<{ any: string; text: string }>((tie) => ({
  any: fc.oneof(
    { depthSize: 'small' },
    tie('text'),
    fc.tuple(fc.constantFrom('b', 'i', 'span', 'font'), tie('any')).map(([name, inner]) => {
      return `<${name} class="x">${inner}</${name}>`;
    }),
    fc.tuple(tie('any'), tie('any')).map(([a, b]) => `${a}${b}`),
    fc.constantFrom('<br>', '<br/>', '<img src=x alt="">', '<!-- no -->'),
  ),
  text: fc
    .array(
      fc.constantFrom('word', 'Zoë', ' ', '\n', '&amp;', '&euro;', '&#39;', '日本', '3 &lt; 4'),
    )
    .map((parts) => parts.join('')),
})).any;
const block = fc.letrec<{ any: string }>((tie) => ({
  any: fc.oneof(
    { depthSize: 'small' },
    inline,
    fc
      .tuple(fc.constantFrom('p', 'h2'), inline)
      .map(([name, inner]) => `<${name}>${inner}</${name}>`),
    fc.tuple(fc.constantFrom('div', 'section', 'header'), tie('any')).map(([name, inner]) => {
      return `<${name} style='color:red'>${inner}</${name}>`;
    }),
    // Not empty, because html-to-text joins the words around an empty list.
    fc
      .array(inline, { minLength: 1, maxLength: 3 })
      .map((items) => `<ul>${items.map((one) => `<li>${one}</li>`).join('')}</ul>`),
    fc.array(inline, { maxLength: 3 }).map((cells) => {
      return `<table><tr>${cells.map((cell) => `<td>${cell}</td> `).join('')}</tr></table>`;
    }),
    fc.array(tie('any'), { maxLength: 4 }).map((all) => all.join('')),
  ),
})).any;

test('ordinary html gives the same words as html-to-text, in the same order', () => {
  const oracle = compile({
    wordwrap: false,
    selectors: [
      { selector: 'img', format: 'skip' },
      { selector: 'h2', options: { uppercase: false } },
      { selector: 'ul', options: { itemPrefix: '- ' } },
    ],
  });
  const words = (text: string) => text.split(/\s+/).filter((word) => word !== '' && word !== '-');
  fc.assert(
    fc.property(block, (html) => {
      assert.deepEqual(words(textFromHtml(html)), words(oracle(html)));
    }),
    { numRuns: 1_000 },
  );
});

const soup = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '<',
        '>',
        '</',
        '<!--',
        '-->',
        '"',
        "'",
        '=',
        '&',
        ';',
        '#',
        ' ',
        '\n',
        'x',
        '\0',
      ),
      fc.constantFrom(
        '<p',
        '<a href=',
        'https://a.b',
        '<li>',
        '<ol>',
        '</ol>',
        '<pre>',
        '<script>',
      ),
      fc.constantFrom(
        '<hr>',
        '<br>',
        '<td>',
        '<div style="display:none">',
        '</div>',
        '<table>',
        '<svg>',
      ),
      fc.string({ unit: CHARACTER, maxLength: 4 }),
    ),
    { maxLength: 60 },
  )
  .map((parts) => parts.join(''));

test('any malformed html gives clean text, hardly longer than the html', () => {
  fc.assert(
    fc.property(soup, (html) => {
      const text = textFromHtml(html);
      assert.ok(text.length <= html.length + 200);
      assert.ok(text.isWellFormed());
      assert.doesNotMatch(text, /[\0-\x08\x0b-\x1f\x7f]|\s$/);
    }),
    { numRuns: 3_000, examples: [['<pre>a\fb']] },
  );
});

/** Hostile html, 300 KB of each kind: open tags, unclosed quotes, nested lists. */
const HOSTILE =
  '<div>|<b>|<p>|</p>|<ul><li>x|<blockquote>x|<table><tr><td>x|<pre>x|<|<!--|&amp|&|<a href="|' +
  '<a href=https://x>y|<a href|<x|<x ="|<x=\'|\n|a| |<b>x</i>|<div style="display:none">|<svg>|' +
  '<style>|</style|<?|<hr>|<br>|<ol><li>x|<ol reversed><li>x|<ol reversed><li type=i value=3888>x</ol>|<li>|<img alt=x>|&nbsp;|<td>|<a style= |\u00ad';

test('hostile html takes no longer than other html of its length', () => {
  const start = process.cpuUsage();
  for (const piece of HOSTILE.split('|')) {
    const html = piece.repeat(Math.ceil(300_000 / piece.length));
    textFromHtml(html);
    textFromHtml(`<a ${html}>x</a>`);
    textFromHtml(`<ol>${html}`);
  }
  const { user, system } = process.cpuUsage(start);
  // About 1 s on a slow machine; quadratic time would take minutes.
  assert.ok(user + system < 20_000_000, `${(user + system) / 1e6} s`);
});
