/**
 * Shows which base backup a restore to a time begins with, and which files may go. test/journey/point-in-time.test.ts
 * restores a real archive.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Base, Series } from './archive.ts';
import { chooseBase, findExpired } from './choose-base.ts';

const day = (number: number): string => `2026-11-${String(number).padStart(2, '0')}T00:00:00.000Z`;

/** @param days days of its base backups @param to last day that its WAL covers */
function series(name: string, days: number[], to: number, system = '1'): Series {
  const bases = days.map((one) => ({ usableFrom: day(one), archive: `${name}/${one}` }) as Base);
  const shape = { system, timeline: 1, segmentBytes: 2 ** 24 };
  const covered = { at: day(to), lsn: '0/0' };
  return { name, shape, bases, covered, coveredPart: null, partial: null };
}

const choose = (all: Series[], at: number): string =>
  chooseBase(all, { archive: '/srv/wal', at: new Date(day(at)) }).base.archive;

test('a restore begins with the newest base backup from before the time', () => {
  const all = [series('a', [1, 8], 12), series('b', [14, 21], 25)];
  assert.deepEqual(
    [1, 7, 8, 12, 14, 25].map((at) => choose(all, at)),
    ['a/1', 'a/1', 'a/8', 'a/8', 'b/14', 'b/21'],
  );
});

test('a time that is not kept is refused, and the error lists the times that are', () => {
  const all = [series('a', [2, 8], 12), series('b', [14, 21], 25)];
  const kept =
    'Kept are the times from 2026-11-02T00:00:00.000Z to 2026-11-12T00:00:00.000Z, and from 2026-11-14T00:00:00.000Z to 2026-11-25T00:00:00.000Z.';
  for (const at of [1, 13, 26]) {
    const message = `/srv/wal cannot be restored to ${day(at)}. ${kept}`;
    assert.throws(() => choose(all, at), { message });
  }
  assert.throws(() => choose([], 3), /no archive that can be restored/);
  // The WAL does not cover the end of the base backup.
  assert.throws(() => choose([series('a', [3], 2)], 3), /no archive that can be restored/);
  const other = series('c', [3], 5, '2');
  assert.throws(() => choose([...all, other], 4), /archives of 2 databases/);
});

test('files older than the kept time are removed, except the base backup that it begins with', () => {
  const all = [
    series('old', [1], 5),
    series('a', [6, 8], 12),
    series('active', [14, 16, 21], 25),
    series('other', [1], 2, '2'),
  ];
  const gone = (cutoff: number): string[] => {
    const found = findExpired(all, { cutoff: day(cutoff), active: 'active', system: '1' });
    return [...found.series.map(({ name }) => name), ...found.bases.map(({ archive }) => archive)];
  };
  assert.deepEqual(gone(1), []);
  assert.deepEqual(gone(9), ['old', 'a/6']);
  assert.deepEqual(gone(20), ['old', 'a', 'active/14']);
  assert.deepEqual(gone(30), ['old', 'a', 'active/14', 'active/16']);
});
