import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canonicalJson, isUnambiguousJson } from './canonical-json.ts';

test('the example of RFC 8785 has the bytes that the RFC prints', () => {
  const example = String.raw`{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  }`;
  const canonical = String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`;
  assert.equal(canonicalJson(JSON.parse(example)), canonical);
});

test('names are sorted by UTF-16 code units, in every object', () => {
  // The example of §3.2.3. The last but one name is beyond the BMP, so its first code unit is a surrogate.
  const names = ['\u20ac', '\r', '\ufb33', '1', '\u{1f600}', '\u0080', '\u00f6'];
  const sorted = ['\r', '1', '\u0080', '\u00f6', '\u20ac', '\u{1f600}', '\ufb33'];
  const object = Object.fromEntries(names.map((name) => [name, { b: 0, a: [] }]));
  const expected = sorted.map((name) => `${JSON.stringify(name)}:{"a":[],"b":0}`).join(',');
  assert.equal(canonicalJson(object), `{${expected}}`);
});

test('what JSON cannot express is refused', () => {
  for (const value of [NaN, Infinity, undefined, '\ud800', { '\udc00': 1 }]) {
    assert.throws(() => canonicalJson([value]), TypeError);
  }
});

test('a text in which a name or a number could be read in two ways is ambiguous', () => {
  const isClear = (json: string): boolean => isUnambiguousJson(json, JSON.parse(json));
  assert.ok(
    isClear('{"a": {"a": 1, "b": "\\"a\\": 2, 1.0"}, "": [-1.5, 1e+30, "9007199254740993"]}'),
  );
  assert.ok(!isClear('{"a": 1, "a": 1}'));
  assert.ok(!isClear('[{"a": 1, "\\u0061": 1}]'));
  assert.ok(!isClear('[9007199254740993]'));
  assert.ok(!isClear('[1.0]'));
});
