/**
 * An archive of WAL keeps the same promises in a folder and in a bucket. The bucket's store checks signatures and fails
 * as real ones do.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  ACCESS,
  type S3Call,
  type S3Fault,
  startS3Server,
} from '../../../test/support/s3-server.ts';
import { archiveAt } from '../places/locate-place.ts';
import { type Base, beginSeries, readSeries, type Series, walFile } from './archive.ts';
import { appendCovered, findCoveredSince, readLastCovered } from './covered-log.ts';
import { readPartial, readCompressed } from './partial-segment.ts';
import type { ArchivePlace } from './archive-place.ts';
import { prune } from './prune-archive.ts';
import { planRestore } from './read-archive.ts';
import { lsnOf, segmentName } from './segments.ts';
import { archiveWal } from './write-archive.ts';

const PIECE_BYTES = 8 * 1024;
const SERIES = 'letterhaus_20261125t090000z_0a1b2c3d';
const SHAPE = { system: '7', timeline: 1, segmentBytes: 512 * 1024 };

const world = { now: Date.now, random: () => 0.5, newId: () => crypto.randomUUID() };

type Fault = (call: S3Call) => S3Fault | null;

type Lab = AsyncDisposable & {
  place: ArchivePlace;
  /** Returns the place as a restarted process sees it. */
  again: () => ArchivePlace;
  setAway: (isAway: boolean) => void;
  pgWal: string;
};

function temporaryFolder(): string {
  return mkdtempSync(join(tmpdir(), 'letterhaus-archive-'));
}

function folderLab(): Promise<Lab> {
  const root = temporaryFolder();
  const [folder, pgWal] = [join(root, 'archive'), join(root, 'pg_wal')];
  mkdirSync(folder);
  mkdirSync(pgWal);
  const again = () => archiveAt(folder, { access: null, world });
  return Promise.resolve({
    place: again(),
    again,
    setAway: (isAway) => {
      const names = [folder, `${folder}-away`] as const;
      renameSync(names[isAway ? 0 : 1], names[isAway ? 1 : 0]);
    },
    pgWal,
    [Symbol.asyncDispose]: () => Promise.resolve(rmSync(root, { recursive: true })),
  });
}

async function bucketLab(): Promise<Lab & { store: Awaited<ReturnType<typeof startS3Server>> }> {
  const store = await startS3Server({ partBytesMin: PIECE_BYTES, pageSize: 3 });
  const pgWal = temporaryFolder();
  const again = () =>
    archiveAt('s3://backups/wal', {
      access: { ...ACCESS, endpoint: store.endpoint, sessionToken: null },
      world,
      timing: { baseMs: 30_000, bytesPerSecondMin: 100_000, waitsMs: [1, 1, 1] },
      pieceBytes: PIECE_BYTES,
    });
  return {
    store,
    place: again(),
    again,
    setAway: (isAway) => {
      store.fault = () => (isAway ? { status: 503, code: 'ServiceUnavailable' } : null);
    },
    pgWal,
    [Symbol.asyncDispose]: async () => {
      rmSync(pgWal, { recursive: true });
      await store[Symbol.asyncDispose]();
    },
  };
}

/** Returns a segment in PostgreSQL's form. It is random, so that compression does not shrink it. */
function segmentOf(number: bigint): Buffer {
  const bytes = randomBytes(SHAPE.segmentBytes);
  bytes.writeBigUInt64LE(number * BigInt(SHAPE.segmentBytes), 8);
  bytes.writeBigUInt64LE(BigInt(SHAPE.system), 24);
  return bytes;
}

function archiveUpTo(
  { place, pgWal }: Lab,
  series: Series,
  from: number,
  to: number,
): Promise<string> {
  const range = { from: BigInt(from), to: BigInt(to), pgWal, onSegment: () => {} };
  return archiveWal(place, series, range);
}

const KINDS = { folder: folderLab, bucket: bucketLab };

for (const [kind, open] of Object.entries(KINDS)) {
  test(`WAL in a ${kind}: the current segment is stored in pieces, and the complete one replaces them`, async () => {
    await using lab = await open();
    const { place, pgWal } = lab;
    const first = segmentOf(0n);
    writeFileSync(join(pgWal, segmentName(0n, SHAPE)), first);
    const series = await beginSeries(place, { name: SERIES, shape: SHAPE });
    const pieces = () => place.list(`${SERIES}/wal/`);
    const written = (upTo: number) => {
      const bytes = Buffer.alloc(SHAPE.segmentBytes);
      first.copy(bytes, 0, 0, upTo);
      return bytes;
    };
    for (const to of [10_000, 70_000, 150_000]) {
      await archiveUpTo(lab, series, 0, to);
      assert.deepEqual(await readPartial(place, series, 0n), written(to), `${to}`);
    }
    // The first piece was large enough after 70,000 bytes.
    assert.deepEqual(
      (await pieces()).map((name) => name.slice(SERIES.length)),
      ['00000000', '00011170'].map((at) => `/wal/000000010000000000000000.partial-${at}.zst`),
    );

    // After a crash PostgreSQL writes the end anew, with other content.
    const changed = randomBytes(80_000);
    changed.copy(first, 70_000);
    writeFileSync(join(pgWal, segmentName(0n, SHAPE)), first);
    const found = await readSeries(lab.again(), SERIES);
    await archiveUpTo(lab, found!, 0, 100_000);
    assert.deepEqual(await readPartial(place, series, 0n), written(100_000));
    assert.equal((await pieces()).length, 1);

    writeFileSync(join(pgWal, segmentName(1n, SHAPE)), segmentOf(1n));
    const keepFrom = await archiveUpTo(lab, found!, 0, SHAPE.segmentBytes + 500);
    assert.equal(keepFrom, lsnOf(BigInt(SHAPE.segmentBytes)));
    const whole = walFile(SERIES, segmentName(0n, SHAPE));
    assert.deepEqual(await readCompressed(place, whole), first);
    assert.deepEqual(
      (await pieces()).map((name) => name.slice(SERIES.length)),
      ['0.zst', '1.partial-00000000.zst'].map((end) => `/wal/00000001000000000000000${end}`),
    );
    // After a crash the slot is at an older position.
    await archiveUpTo(lab, found!, 0, SHAPE.segmentBytes + 600);
    writeFileSync(join(pgWal, segmentName(0n, SHAPE)), segmentOf(0n));
    const refused = archiveUpTo(lab, found!, 0, SHAPE.segmentBytes + 700);
    await assert.rejects(
      refused,
      /000\.zst exists with other content, and WAL is never overwritten/,
    );
    assert.deepEqual(await readCompressed(place, whole), first);
  });

  test(`an unavailable archive in a ${kind} is an error and not an empty archive`, async () => {
    await using lab = await open();
    const { place } = lab;
    assert.equal(await readSeries(place, SERIES), null);
    await beginSeries(place, { name: SERIES, shape: SHAPE });
    lab.setAway(true);
    await assert.rejects(readSeries(place, SERIES), /cannot be used \(ENOENT\)|fails \(ServiceUn/);
    await assert.rejects(place.list('series/'), { name: /PlaceProblem|S3Problem/ });
    const other = { name: 'letterhaus_20261126t090000z_0a', shape: SHAPE };
    await assert.rejects(beginSeries(place, other), { name: /PlaceProblem|S3Problem/ });
    lab.setAway(false);
    assert.deepEqual((await readSeries(place, SERIES))?.shape, { format: 1, ...SHAPE });
  });

  test(`files that are too old are removed from a ${kind}, and every later time can still be restored`, async () => {
    await using lab = await open();
    const { place } = lab;
    const old = await beginSeries(place, { name: 'letterhaus_20261101t000000z_0a', shape: SHAPE });
    await fill(place, old, [1, 2]);
    const foreign = { name: 'letterhaus_20261101t000000z_0b', shape: { ...SHAPE, system: '8' } };
    await fill(place, await beginSeries(place, foreign), [1]);
    const active = await beginSeries(place, { name: SERIES, shape: SHAPE });
    await fill(place, active, [10, 12, 14]);
    // The machine was lost before the base backup was complete.
    await place.put(`${SERIES}/base-lost.tar.zst`, Buffer.from('a part'));

    const pruned = await prune(place, { active, cutoff: new Date(day(13)) });
    assert.deepEqual(pruned, { oldest: day(1), isUnfinished: false });
    assert.deepEqual(await place.list('series/'), [
      `series/${foreign.name}.json`,
      `series/${SERIES}.json`,
    ]);
    assert.deepEqual(await place.list(`${old.name}/base-`), []);
    assert.deepEqual(await place.list(`${foreign.name}/base-`), baseNames(foreign.name, [1]));
    assert.deepEqual(await place.list(`${SERIES}/base-`), baseNames(SERIES, [12, 14]));
    assert.deepEqual(
      await place.list(`${SERIES}/wal/`),
      [12n, 14n].map((number) => walFile(SERIES, segmentName(number, SHAPE))),
    );
    assert.equal((await findCoveredSince(place, SERIES, day(11)))?.at, day(12));
    assert.equal((await readLastCovered(place, SERIES))?.at, day(14));
    const again = lab.again();
    await assert.rejects(planRestore(again, new Date(day(11))), /archives of 2 databases/);
  });
}

test('many old files are removed in several turns, and their series last', async () => {
  await using lab = await folderLab();
  const { place } = lab;
  const old = await beginSeries(place, { name: 'letterhaus_20261101t000000z_0a', shape: SHAPE });
  await fill(place, old, [1]);
  for (let number = 2n; number < 1_200n; number += 1n) {
    writeFileSync(place.pathOf(walFile(old.name, segmentName(number, SHAPE))), '');
  }
  const active = await beginSeries(place, { name: SERIES, shape: SHAPE });
  await fill(place, active, [10]);
  const cutoff = new Date(day(13));
  assert.deepEqual(await prune(place, { active, cutoff }), { oldest: day(10), isUnfinished: true });
  assert.equal((await readSeries(place, old.name))?.bases.length, 0);
  assert.deepEqual(await prune(place, { active, cutoff }), {
    oldest: day(10),
    isUnfinished: false,
  });
  assert.equal(await readSeries(place, old.name), null);
  assert.deepEqual(await place.list(`${old.name}/wal/`), []);
});

const day = (number: number): string => `2026-11-${String(number).padStart(2, '0')}T00:00:00.000Z`;

function baseNames(series: string, days: number[]): string[] {
  return days.flatMap((one) =>
    ['json', 'tar.zst'].map((end) => `${series}/base-202611${String(one).padStart(2, '0')}.${end}`),
  );
}

/** Stores, for each day, a base backup, a segment of WAL with the day's number, and a part of the log. */
async function fill(place: ArchivePlace, series: Series, days: number[]): Promise<void> {
  for (const one of days) {
    const [facts = '', archive = ''] = baseNames(series.name, [one]);
    const startLsn = lsnOf(BigInt(one * SHAPE.segmentBytes));
    const base: Base = {
      version: '1.0.0',
      schema: 1,
      postgres: '18.1',
      startLsn,
      stopLsn: startLsn,
      usableFrom: day(one),
      bytes: 1,
      archiveBytes: 1,
      sha256: '00',
      archive,
    };
    await place.put(archive, Buffer.from('a tar'));
    await place.put(facts, Buffer.from(JSON.stringify(base)));
    series.bases.push(base);
    const wal = walFile(series.name, segmentName(BigInt(one), SHAPE));
    await place.put(wal, Buffer.from('WAL'));
    series.covered = { at: day(one), lsn: startLsn };
    const line = { series: series.name, last: null, covered: series.covered };
    await appendCovered(place, line);
  }
}

test('the log of covered times is in parts, and finds the first mark after a time', async () => {
  await using lab = await bucketLab();
  const { place, store } = lab;
  const atOf = (number: number) => new Date(Date.parse(day(1)) + number * 5_000).toISOString();
  let last = null;
  for (let number = 1; number <= 600; number += 1) {
    const covered = { at: atOf(number), lsn: lsnOf(BigInt(number)) };
    last = await appendCovered(place, { series: SERIES, last, covered });
  }
  const parts = await place.list(`${SERIES}/covered/`);
  assert.equal(parts.length, 2);
  assert.ok([...store.objects.values()].every(({ length }) => length < 17 * 1024));
  const second = parts[1]!.replace(/^.*-|\.log$/g, '');
  const start = Array.from({ length: 600 }, (_, index) => index + 1).findIndex(
    (number) => atOf(number).replaceAll(/[-:.]/g, '') === second,
  );
  assert.ok(start > 100);
  for (const number of [1, start, start + 1, start + 2, 600]) {
    const wanted = new Date(Date.parse(atOf(number)) - 1).toISOString();
    const found = await findCoveredSince(place, SERIES, wanted);
    assert.deepEqual(found, { at: atOf(number), lsn: lsnOf(BigInt(number)) });
  }
  assert.equal(await findCoveredSince(place, SERIES, atOf(601)), null);
});

test('an interrupted base backup in a bucket does not count, and a later start removes its parts', async () => {
  await using lab = await bucketLab();
  const { place, store } = lab;
  await beginSeries(place, { name: SERIES, shape: SHAPE });
  const name = `${SERIES}/base-20261125T090003Z.tar.zst`;
  const content = randomBytes(5 * PIECE_BYTES);
  const write = async (): Promise<void> => {
    const destination = await place.create(name, content.length);
    try {
      await destination.write(content);
      await destination.finish();
    } catch (error) {
      await destination.abandon();
      throw error;
    }
  };
  store.fault = nth('UploadPart', 3, { status: 507, code: 'StorageFull' });
  await assert.rejects(write(), /has no space for s3:\/\/backups\/wal\/letterhaus_/);
  assert.deepEqual([await place.list(`${SERIES}/base-`), store.uploads.size], [[], 0]);
  // The machine is lost in the middle of the upload, and the store keeps the parts.
  store.fault = () => null;
  const lost = await place.create(name, content.length);
  await lost.write(content.subarray(0, 3 * PIECE_BYTES));
  assert.deepEqual([await place.list(`${SERIES}/base-`), store.uploads.size], [[], 1]);
  await lab.again().removeUnfinished(SERIES);
  assert.equal(store.uploads.size, 0);
  await assert.rejects(lost.finish(), { name: 'S3Problem' });
  assert.equal(await place.get(name), null);
  store.fault = nth('UploadPart', 2, 'cut');
  await write();
  const chunks: Buffer[] = [];
  for await (const chunk of place.read(name)) chunks.push(chunk);
  assert.deepEqual(Buffer.concat(chunks), content);
});

test('WAL whose request is interrupted is archived by the next turn', async () => {
  await using lab = await bucketLab();
  const { place, pgWal, store } = lab;
  const [first, second] = [segmentOf(0n), segmentOf(1n)];
  writeFileSync(join(pgWal, segmentName(0n, SHAPE)), first);
  writeFileSync(join(pgWal, segmentName(1n, SHAPE)), second);
  const series = await beginSeries(place, { name: SERIES, shape: SHAPE });
  const end = SHAPE.segmentBytes + 900;
  await archiveUpTo(lab, series, 0, 70_000);
  await archiveUpTo(lab, series, 0, 150_000);
  // A crash changes the end, and the store keeps the piece from before it.
  randomBytes(80_000).copy(first, 70_000);
  writeFileSync(join(pgWal, segmentName(0n, SHAPE)), first);
  series.partial = null;
  store.fault = ({ operation }) => (operation === 'DeleteObject' ? 'cut' : null);
  await assert.rejects(archiveUpTo(lab, series, 0, 100_000), { name: 'S3Problem' });
  const begun = await readPartial(place, series, 0n);
  assert.deepEqual(begun?.subarray(0, 100_000), first.subarray(0, 100_000));
  // The complete segment is stored, and its pieces are not removed.
  store.fault = ({ operation }) => (operation === 'DeleteObject' ? 'cut' : null);
  await assert.rejects(archiveUpTo(lab, series, 0, end), { name: 'S3Problem' });
  store.fault = ({ operation, key }) =>
    operation === 'PutObject' && key.includes('partial')
      ? { status: 500, code: 'InternalError' }
      : null;
  await assert.rejects(archiveUpTo(lab, series, 0, end), { name: 'S3Problem' });
  store.fault = nth('PutObject', 1, 'cut-after');
  await archiveUpTo(lab, series, 0, end);
  assert.deepEqual(await readCompressed(place, walFile(SERIES, segmentName(0n, SHAPE))), first);
  const partial = await readPartial(place, series, 1n);
  assert.deepEqual(partial?.subarray(0, 900), second.subarray(0, 900));
  // Without new WAL there is no request.
  const calls = store.calls.length;
  await archiveUpTo(lab, series, SHAPE.segmentBytes, end);
  assert.equal(store.calls.length, calls);
});

function nth(operation: string, which: number, fault: S3Fault): Fault {
  let count = 0;
  return (call) => (call.operation === operation && (count += 1) === which ? fault : null);
}
