/** Every starter is a template that the service accepts and renders. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readPart } from '../../../../src/templates/liquid.ts';
import { STARTERS } from './starters.ts';

test('a starter declares the variables that it reads, and no others', () => {
  for (const { key, content } of STARTERS) {
    const read = [content.subject, content.html].flatMap((source, index) => {
      const part = readPart(source, { isHtml: index === 1 });
      assert.ok(!('problem' in part), `${key}: ${JSON.stringify(part)}`);
      return [...part.variables];
    });
    const declared = content.variables.map(({ name }) => name).toSorted();
    assert.deepEqual([...new Set(read)].toSorted(), declared, key);
  }
});

test('starters have names of their own', () => {
  assert.equal(new Set(STARTERS.map(({ key }) => key)).size, STARTERS.length);
});
