/** Failpoints and their arming. test/chaos and test/journey use them to kill real processes. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import {
  type ArmedFailpoint,
  armFailpoints,
  disarmFailpoints,
  failpoint,
  FAILPOINTS,
  parseFailpoints,
} from './failpoint.ts';

afterEach(disarmFailpoints);

test('a failpoint that is not armed does nothing', () => {
  const acted: ArmedFailpoint[] = [];
  failpoint('smtp_after_dot');
  armFailpoints([], (one) => acted.push(one));
  failpoint('smtp_after_dot');
  armFailpoints([{ name: 'smtp_before_dot', action: 'kill', hit: 1 }], (one) => acted.push(one));
  failpoint('smtp_after_dot');
  assert.deepEqual(acted, []);
});

test('an armed failpoint acts once, at the nth time that it is reached', () => {
  const armed: ArmedFailpoint = { name: 'smtp_after_dot', action: 'kill', hit: 3 };
  const acted: ArmedFailpoint[] = [];
  armFailpoints([armed], (one) => acted.push(one));
  failpoint('smtp_after_dot');
  failpoint('smtp_after_dot');
  assert.deepEqual(acted, []);
  failpoint('smtp_after_dot');
  failpoint('smtp_after_dot');
  assert.deepEqual(acted, [armed]);
});

test('a list of failpoints is parsed; the default count is one', () => {
  assert.deepEqual(parseFailpoints('smtp_after_dot=kill@3, supervisor_start=freeze'), [
    { name: 'smtp_after_dot', action: 'kill', hit: 3 },
    { name: 'supervisor_start', action: 'freeze', hit: 1 },
  ]);
});

test('an invalid list is refused as a whole', () => {
  for (const text of [
    'smtp_after_dots=kill',
    'smtp_after_dot=explode',
    'smtp_after_dot',
    'smtp_after_dot=kill@0',
    'smtp_after_dot=kill,',
    '',
  ]) {
    assert.equal(parseFailpoints(text), null, text);
  }
});

test('every failpoint is used at exactly one place, and no unknown name is used', () => {
  const root = join(import.meta.dirname, '..');
  const placed = globSync('**/*.ts', { cwd: root })
    .filter((file) => !file.endsWith('.test.ts'))
    .flatMap((file) => [
      ...readFileSync(join(root, file), 'utf8').matchAll(/\bfailpoint\('(\w+)'\)/g),
    ])
    .map(([, name = '']) => name);
  assert.deepEqual(placed.toSorted(), FAILPOINTS.toSorted());
});
