/** The charset in the type of an attachment, which decides whether a mail program shows a text correctly. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { typeByName, withCharset } from './attachment-type.ts';

const typed = (type: string, content: string | Buffer) =>
  withCharset(type, Buffer.from(content).toString('base64'));

test('text in UTF-8 gets its charset, whether the client or the file name gives the type', () => {
  for (const type of ['csv', 'txt', 'html', 'ics']) {
    const named = typeByName(`a.b.${type.toUpperCase()}`);
    assert.equal(typed(named, 'Grüße'), `${named}; charset=utf-8`);
  }
  for (const [type, expected] of [
    ['text/csv', 'text/csv; charset=utf-8'],
    ['TEXT/CSV', 'TEXT/CSV; charset=utf-8'],
    ['text/csv; header=present', 'text/csv; header=present; charset=utf-8'],
    ['text/calendar; method=REQUEST', 'text/calendar; method=REQUEST; charset=utf-8'],
  ] as const) {
    assert.equal(typed(type, 'Grüße'), expected);
  }
  for (const content of ['', 'ASCII', '\ufeffGrüße', 'charset=iso-8859-1, ü']) {
    assert.equal(typed('text/csv', content), 'text/csv; charset=utf-8', content);
  }
});

test('a charset that the client names stays', () => {
  for (const type of [
    'text/csv; charset=iso-8859-1',
    'text/csv; header=present; CharSet="windows-1252"',
    "text/csv; charset*=us-ascii'en'us-ascii",
  ]) {
    assert.equal(typed(type, 'Grüße'), type);
  }
});

test('text that may be in another charset gets none', () => {
  for (const bytes of [
    Buffer.from('Grüße', 'latin1'),
    Buffer.from('\ufeffGr', 'utf16le'),
    Buffer.from('Gr', 'utf16le'),
    Buffer.from('\u001b$B%F%9%H\u001b(B'),
    Buffer.from('Grüße').subarray(0, 3),
  ]) {
    assert.equal(typed('text/csv', bytes), 'text/csv', bytes.toString('hex'));
  }
});

test('text that declares another charset gets none', () => {
  const meta = (charset: string) => `<!doctype html><meta charset="${charset}"><p>ü`;
  const xml = (charset: string) => `<?xml version="1.0" encoding='${charset}'?><a>ü</a>`;
  for (const [type, content, expected] of [
    ['text/html', meta('UTF-8'), 'text/html; charset=utf-8'],
    ['text/html', meta('windows-1252'), 'text/html'],
    ['text/html', '<meta content="text/html; charset=utf8">', 'text/html; charset=utf-8'],
    ['text/html', '<meta content="text/html; charset = koi8-r">', 'text/html'],
    ['text/html', '<p>The charset of ü', 'text/html; charset=utf-8'],
    ['text/html', '<form accept-charset="koi8-r">ü', 'text/html; charset=utf-8'],
    ['text/xml', xml('utf-8'), 'text/xml; charset=utf-8'],
    ['text/xml', xml('iso-8859-1'), 'text/xml'],
    ['text/css', '@charset "iso-8859-1"; a {}', 'text/css'],
  ] as const) {
    assert.equal(typed(type, content), expected, content);
  }
});

test('types without a charset parameter stay', () => {
  for (const type of ['application/json', 'application/xml', 'text/rtf', 'image/svg+xml']) {
    assert.equal(typed(type, 'ü'), type);
  }
  const long = `text/csv; x="${'y'.repeat(180)}"`;
  assert.equal(typed(long, 'ü'), long);
  assert.equal(typeByName('a.json'), 'application/json');
  assert.equal(typeByName('a.pdf.'), 'application/octet-stream');
  assert.equal(typeByName('Makefile'), 'application/octet-stream');
});
