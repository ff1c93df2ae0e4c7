/** Shows which texts count as the same address to a person, and which only look alike. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { CHARACTER } from '../../test/support/characters.ts';
import { foldCase } from './case-fold.ts';

/** Texts that are equal for a reader who ignores case. */
const SAME: readonly (readonly string[])[] = [
  ['jörg', 'JÖRG', 'jÖrg', 'jo\u0308rg', 'JO\u0308RG'],
  ['straße', 'STRASSE', 'STRAẞE', 'strasse'],
  ['οδυσσέας', 'ΟΔΥΣΣΈΑΣ', 'οδυσσέασ', 'ΟΔΥΣΣΕ\u0301ΑΣ'],
  ['\u212aelvin', 'kelvin', 'KELVIN'],
  ['\u212bngström', 'ångström', 'A\u030angstro\u0308m'],
  ['\u017fam', 'sam', 'SAM'],
  ['ﬃ', 'FFI', 'ffi'],
  ['ŉ', 'ʼN', 'ʼn'],
  ['İstanbul', 'i\u0307stanbul', 'I\u0307STANBUL'],
  ['ᾳ', 'ΑΙ', 'αι', 'α\u0345'],
  ['ΐ', 'Ϊ\u0301', 'ι\u0308\u0301'],
  ['привет', 'ПРИВЕТ'],
  ['й', 'Й', 'и\u0306'],
  ['Ꭰ', 'ꭰ'],
  ['\u{10400}', '\u{10428}'],
  ['ｊｏ', 'ＪＯ'],
  ['q\u0323\u0307', 'Q\u0307\u0323'],
  ['한', '\u1112\u1161\u11ab'],
];

/** Texts that look alike, or are equal under NFKC or in one language, but are not equal here. */
const DIFFERENT: readonly (readonly [string, string])[] = [
  ['ısı', 'isi'],
  ['İstanbul', 'istanbul'],
  ['ｊｏ', 'jo'],
  ['m²', 'm2'],
  ['①', '1'],
  ['аdmin', 'admin'],
  ['jörg', 'jorg'],
  ['jörg', 'joerg'],
  ['æ', 'ae'],
  ['ø', 'o'],
  ['か', 'カ'],
  ['が', 'か'],
  ['👩', '👩🏽'],
];

test('texts that differ in case or composition have the same form', () => {
  for (const [first = '', ...others] of SAME) {
    for (const other of others) assert.equal(foldCase(other), foldCase(first), other);
  }
});

test('texts that only look alike have different forms', () => {
  for (const [one, other] of DIFFERENT) assert.notEqual(foldCase(one), foldCase(other), one);
});

test('every character has the form of its upper and lower case, and folding it again changes nothing', () => {
  for (let code = 0; code <= 0x10ffff; code += 1) {
    const character = String.fromCodePoint(code);
    if (!character.isWellFormed()) continue;
    const form = foldCase(character);
    if (form === character && character === character.toUpperCase()) continue;
    const name = `U+${code.toString(16)}`;
    assert.equal(foldCase(form), form, name);
    assert.equal(form, form.normalize('NFC'), name);
    assert.equal(foldCase(character.toLowerCase()), form, name);
    if (character !== 'ı') assert.equal(foldCase(character.toUpperCase()), form, name);
  }
});

test('folding any text twice changes nothing, however the text is composed', () => {
  fc.assert(
    fc.property(fc.string({ unit: CHARACTER }), (text) => {
      const form = foldCase(text);
      assert.equal(foldCase(form), form);
      assert.equal(foldCase(text.normalize('NFD')), form);
      assert.equal(foldCase(text.normalize('NFC')), form);
    }),
    { numRuns: 2_000 },
  );
});
