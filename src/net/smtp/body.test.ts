import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dotStuffed, finalDot } from './body.ts';

function stuffed(...pieces: string[]): string {
  return Buffer.concat(dotStuffed(pieces.map((piece) => Buffer.from(piece)))).toString();
}

test('a dot at the beginning of a line gets a second one, others do not', () => {
  assert.equal(stuffed('a.b\r\n.c\r\n..\r\nd.\r\n'), 'a.b\r\n..c\r\n...\r\nd.\r\n');
});

test('a dot is at the beginning of a line also as the very first byte or in a new piece', () => {
  assert.equal(stuffed('.a\r\n'), '..a\r\n');
  assert.equal(stuffed('', '.a\r\n'), '..a\r\n');
  assert.equal(stuffed('a\r\n', '', '.b\r\n'), 'a\r\n..b\r\n');
  assert.equal(stuffed('a\r', '\n', '.'), 'a\r\n..');
  assert.equal(stuffed('a', '.b\r\n'), 'a.b\r\n');
});

test('a message without such dots is not copied', () => {
  const pieces = [Buffer.from('A: b\r\n\r\n'), Buffer.from('c.\r\n')];
  assert.equal(dotStuffed(pieces), pieces);
});

test('the final dot stands on a line of its own', () => {
  const dotAfter = (...pieces: string[]) =>
    finalDot(pieces.map((piece) => Buffer.from(piece))).toString();
  assert.equal(dotAfter('a\r\n'), '.\r\n');
  assert.equal(dotAfter('a\r\n', ''), '.\r\n');
  assert.equal(dotAfter('a'), '\r\n.\r\n');
  assert.equal(dotAfter('a\n'), '\r\n.\r\n');
  assert.equal(dotAfter(), '.\r\n');
});
