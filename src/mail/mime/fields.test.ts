/** Structured fields in every notation that the RFCs permit. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readContentId, readContentType, readDisposition, readTransferEncoding } from './fields.ts';

const parametersOf = (text: string) => {
  const { type, parameters } = readContentType(`text/plain; ${text}`);
  assert.equal(type, 'text/plain');
  return Object.fromEntries(parameters);
};

test('a transfer encoding is read with comments, in any case; any other word is unknown', () => {
  for (const [value, encoding] of [
    ['base64', 'base64'],
    ['base64 (body)', 'base64'],
    ['(the body) base64', 'base64'],
    ['base64(body (of \\) it))', 'base64'],
    [' BASE64\t', 'base64'],
    ['base64;', 'base64'],
    ['Quoted-Printable (x)', 'quoted-printable'],
    ['7BIT (x)', 'identity'],
    ['8bit', 'identity'],
    ['Binary', 'identity'],
    ['x-uuencode', 'unknown'],
    ['x-base64', 'unknown'],
    ['base 64', 'unknown'],
    ['base64 8bit', 'unknown'],
    ['8-bit', 'unknown'],
    ['"base64"', 'unknown'],
    ['(base64)', 'unknown'],
    ['', 'unknown'],
  ] as const) {
    assert.equal(readTransferEncoding(value), encoding, value);
  }
  assert.equal(readTransferEncoding(undefined), 'identity');
});

test('a type is read with comments, in any case; an invalid one is text/plain', () => {
  for (const [value, type] of [
    ['TEXT/HTML', 'text/html'],
    ['text/html (a page); charset=utf-8', 'text/html'],
    ['(a (nested) \\( one) text (x) / (y) html', 'text/html'],
    ['text/html charset=utf-8', 'text/html'],
    ['text/html;', 'text/html'],
    ['application/vnd.a+xml', 'application/vnd.a+xml'],
    ['text', 'text/plain'],
    ['/html', 'text/plain'],
    ['text/', 'text/plain'],
    ['(text/html)', 'text/plain'],
    ['(text/html', 'text/plain'],
    ['', 'text/plain'],
  ] as const) {
    assert.equal(readContentType(value).type, type, value);
  }
});

test('parameters may have comments and white space between all their tokens', () => {
  for (const [rawValue, read] of [
    ['charset=us-ascii (Plain text)', { charset: 'us-ascii' }],
    ['charset=us-ascii(Plain text); a=b', { charset: 'us-ascii', a: 'b' }],
    ['(x; y=z) charset (x) = (y) "utf-8" (z) ; a=b', { charset: 'utf-8', a: 'b' }],
    ['a="(no comment)"; b=c', { a: '(no comment)', b: 'c' }],
    ['a=b (c; d=e', { a: 'b' }],
    ['CharSet=UTF-8; BOUNDARY="Ab"', { charset: 'UTF-8', boundary: 'Ab' }],
    ['a="x\\"; y\\\\"; b="c', { a: 'x"; y\\', b: 'c' }],
    ['a=; b; =c; d=e', { a: '', d: 'e' }],
    ['"garbage; a=b"; c=d', { c: 'd' }],
    ['boundary=----=_Part_1/2:3?; a=b', { boundary: '----=_Part_1/2:3?', a: 'b' }],
    ['\u00a0 \u00a0; a=\u00a0b; c\u2028=d', { a: '\u00a0b', 'c\u2028': 'd' }],
    ['name=report(1).pdf', { name: 'report(1).pdf' }],
    ['a=first; A=second', { a: 'first' }],
  ] as const) {
    assert.deepEqual(parametersOf(rawValue), read, rawValue);
  }
});

test('parameters in sections are joined in the order of their numbers (RFC 2231)', () => {
  for (const [rawValue, read] of [
    ['a*1="c"; a*0=b', { a: 'bc' }],
    ["a*0*=utf-8'en'%C3; a*1*=%A4; a*2=%41", { a: 'ä%41' }],
    ["a*0=x'y'; a*1*=%41", { a: "x'y'A" }],
    ["a*=iso-8859-1''%E4", { a: 'ä' }],
    ["A*=UTF-8''%c3%a4; a=ae", { a: 'ä' }],
    ["a=ae; a*=UTF-8''%c3%a4", { a: 'ä' }],
    ['a=whole; a*0=in; a*1=pieces', { a: 'inpieces' }],
    ['a*0=b; a*2=d', { a: 'b' }],
    ['a*1=b', {}],
    ["a*=of-nobody''%E4", { a: 'ä' }],
    ['a*=%41%zz%', { a: 'A%zz%' }],
  ] as const) {
    assert.deepEqual(parametersOf(rawValue), read, rawValue);
  }
});

test('a file name may be written in encoded words, unless it is percent-encoded', () => {
  for (const [rawValue, name] of [
    ['filename="=?utf-8?Q?=C3=A4?=.txt"', 'ä.txt'],
    ['filename==?utf-8?B?w6Q=?=', 'ä'],
    ['filename*0="=?utf-8?B?w6"; filename*1="Q=?=.txt"', 'ä.txt'],
    ["filename*=utf-8''%3D%3Futf-8%3Fq%3Fx%3F%3D.txt", '=?utf-8?q?x?=.txt'],
    ["filename=x; filename*=utf-8''%3D%3Futf-8%3Fq%3Fx%3F%3D", '=?utf-8?q?x?='],
  ] as const) {
    const { type, parameters } = readDisposition(`Attachment (x); ${rawValue}`);
    assert.equal(type, 'attachment');
    assert.equal(parameters.get('filename'), name, rawValue);
  }
  assert.equal(parametersOf('boundary="=?utf-8?q?x?="')['boundary'], '=?utf-8?q?x?=');
});

test('a disposition may lack its type, and a Content-ID may have comments', () => {
  assert.equal(readDisposition('').type, '');
  assert.equal(readDisposition('; filename=a').parameters.get('filename'), 'a');
  assert.equal(readContentId(' (x) <a@b> (y)'), 'a@b');
  assert.equal(readContentId('a@b'), null);
});
