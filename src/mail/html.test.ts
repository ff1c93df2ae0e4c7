import { test } from 'node:test';
import assert from 'node:assert/strict';
import { convert } from 'html-to-text';
import { CHARACTERS, decodeEntities } from './html.ts';

/** Read by another library; letters around it keep spaces from being trimmed. */
const asOthersRead = (reference: string) =>
  convert(`<pre>x${reference}y</pre>`, { wordwrap: false }).slice(1, -1);

test('every named character reference is decoded as by other software', () => {
  assert.equal(CHARACTERS.size, 252 + 4);
  for (const [name, character] of CHARACTERS) {
    assert.equal(decodeEntities(`&${name};`), character);
    assert.equal(asOthersRead(`&${name};`), character, name);
  }
});

test('every numeric character reference is decoded as by other software', () => {
  for (const number of [9, 65, 128, 133, 150, 159, 160, 8364, 0xd7ff, 0xfffd, 0x1f680, 0x10ffff]) {
    const character = asOthersRead(`&#${number};`);
    assert.equal(decodeEntities(`&#${number};`), character, String(number));
    assert.equal(decodeEntities(`&#x${number.toString(16)};`), character, String(number));
    assert.equal(decodeEntities(`&#X${number.toString(16).toUpperCase()};`), character);
  }
});

test('text that is not a character reference stays unchanged', () => {
  for (const text of ['AT&T', '&', '&;', '&#;', '&#x;', '&copy=1', '&nonsense;', '& amp;']) {
    assert.equal(decodeEntities(text), text);
  }
  assert.equal(decodeEntities('&amp;lt;'), '&lt;');
});

test('invalid numeric references become the replacement character', () => {
  for (const number of ['0', 'xd800', 'xdfff', 'x110000', '99999999']) {
    assert.equal(decodeEntities(`&#${number};`), '\ufffd');
  }
});
