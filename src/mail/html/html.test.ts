/** Attributes and character references, compared with what other software decodes. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { convert } from 'html-to-text';
import { attributeOf, decodeEntities } from './html.ts';

/** Decodes with another library. The letters around the reference keep its spaces. */
const asOthersRead = (reference: string) =>
  convert(`<pre>x${reference}y</pre>`, { wordwrap: false }).slice(1, -1);

test('named character references are decoded by the rules of HTML', () => {
  for (const [source, text] of [
    ['&euro;&Auml;&check;&NotEqualTilde;', '€Ä✓≂̸'],
    ['&copy2024 &copy; 2024', '©2024 © 2024'],
    ['&copy=1', '©=1'],
    ['AT&T &ampamp; &lt;&ltx', 'AT&T &amp; <<x'],
    ['&notit; &notin;', '¬it; ∉'],
    ['&Uuml&UUML &nbsp.', 'Ü&UUML \u00a0.'],
    // Only the references of HTML 2 and 3 need no semicolon.
    ['&euro 5 &hellip', '&euro 5 &hellip'],
    ['&amp', '&'],
    ['&#169 &#169x &#xA9g', '© ©x ©g'],
  ] as const) {
    assert.equal(decodeEntities(source), text, source);
  }
});

test('attributes are found and decoded by the rules of HTML', () => {
  for (const [attributes, value] of [
    [' href="https://a.b/?a=1&copy=2&amp;b=3"', 'https://a.b/?a=1&copy=2&b=3'],
    [' href="?a=1&copy2024"', '?a=1&copy2024'],
    [' href="?x=&copy"', '?x=©'],
    [' href="?lt=1&lt=2&notit;&not;"', '?lt=1&lt=2&notit;¬'],
    [' title=" href=a" HREF = b', 'b'],
    [" class='x'href='a\"b'", 'a"b'],
    [' href=a/b href=c', 'a/b'],
    ['/href=a', 'a'],
    [' href', ''],
    [' href=', ''],
    [' data-href=a xhref=b', null],
    ['', null],
  ] as const) {
    assert.equal(attributeOf(attributes, 'href'), value, attributes);
  }
});

test('every numeric character reference is decoded like by other software', () => {
  for (const number of [9, 65, 128, 133, 150, 159, 160, 8364, 0xd7ff, 0xfffd, 0x1f680, 0x10ffff]) {
    const character = asOthersRead(`&#${number};`);
    assert.equal(decodeEntities(`&#${number};`), character, String(number));
    assert.equal(decodeEntities(`&#x${number.toString(16)};`), character, String(number));
    assert.equal(decodeEntities(`&#X${number.toString(16).toUpperCase()};`), character);
  }
});

test('text that is not a character reference stays unchanged', () => {
  for (const text of ['AT&T', '&', '&;', '&#;', '&#x;', '&nonsense;', '& amp;']) {
    assert.equal(decodeEntities(text), text);
  }
  assert.equal(decodeEntities('&amp;lt;'), '&lt;');
});

test('invalid numeric references become the replacement character', () => {
  for (const number of ['0', 'xd800', 'xdfff', 'x110000', '99999999']) {
    assert.equal(decodeEntities(`&#${number};`), '\ufffd');
  }
});
