/** Backups in a bucket, against an object store that checks signatures and fails as real ones do. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import {
  ACCESS,
  type S3Call,
  type S3Fault,
  startS3Server,
} from '../../../test/support/s3-server.ts';
import type { JournalRow } from '../store/journal-rows.ts';
import { parseBucketUrl } from './bucket-url.ts';
import { locate, backupPlaceAt } from './locate-place.ts';
import type { BackupPlace, Journal } from './backup-place.ts';

const world = { now: Date.now, random: () => 0.5, newId: () => crypto.randomUUID() };
const PIECE_BYTES = 8 * 1024;
const CONTENT = randomBytes(20 * 1024);
const TO = 's3://backups/acme';
const FILE = `${TO}/letterhaus-20261125T090000Z.backup`;

type Store = Awaited<ReturnType<typeof startS3Server>>;

function placeIn(
  { endpoint }: Pick<Store, 'endpoint'>,
  { baseMs = 30_000, ...changes }: { baseMs?: number; [changed: string]: unknown } = {},
): BackupPlace {
  const access = { ...ACCESS, endpoint, sessionToken: null, ...changes };
  // Generous for a busy machine, except where requests hang.
  const timing = { baseMs, bytesPerSecondMin: 100_000, waitsMs: [1, 1, 1, 1] };
  return backupPlaceAt(TO, { access, world, timing, pieceBytes: PIECE_BYTES });
}

async function write(place: BackupPlace, content = CONTENT, file = FILE): Promise<void> {
  const destination = await place.create(file, content.length);
  try {
    for (let from = 0; from < content.length; from += 700) {
      await destination.write(content.subarray(from, from + 700));
    }
    await destination.finish();
  } catch (error) {
    await destination.abandon();
    throw error;
  }
}

async function read(place: BackupPlace, file = FILE): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of place.read(file)) chunks.push(chunk);
  return Buffer.concat(chunks);
}

function once(operation: string, fault: S3Fault, nth = 1): (call: S3Call) => S3Fault | null {
  let count = 0;
  return (call) => (call.operation === operation && (count += 1) === nth ? fault : null);
}

const always = (operation: string, fault: S3Fault) => (call: S3Call) =>
  call.operation === operation ? fault : null;

test('a backup of several parts appears when all of it is stored, and not before', async () => {
  await using store = await startS3Server({ partBytesMin: PIECE_BYTES });
  const place = placeIn(store);
  const destination = await place.create(FILE, CONTENT.length);
  await destination.write(CONTENT);
  assert.deepEqual(await place.list(), []);
  assert.equal(store.uploads.size, 1);
  await destination.finish();
  assert.deepEqual(await place.list(), [FILE]);
  assert.deepEqual(await read(place), CONTENT);
  assert.equal(store.uploads.size, 0);
  await assert.rejects(write(place), /letterhaus-20261125T090000Z\.backup exists\. Choose another/);
  await place.remove(FILE);
  await place.remove(FILE);
  await assert.rejects(read(place), { message: `There is no ${FILE}.` });
  await write(place, Buffer.from('small'));
  assert.equal((await read(place)).toString(), 'small');
});

test('every request that fails, hangs or breaks off is repeated, and the backup is the same', async () => {
  await using store = await startS3Server({ partBytesMin: PIECE_BYTES });
  const patient = placeIn(store);
  const impatient = placeIn(store, { baseMs: 200 });
  const placeFor = (fault: S3Fault) => (fault === 'hang' ? impatient : patient);
  const writes = [
    'ListObjectsV2',
    'CreateMultipartUpload',
    'UploadPart',
    'CompleteMultipartUpload',
  ];
  const reads = ['HeadObject', 'GetObject'];
  const faults: S3Fault[] = [
    'hang',
    'cut',
    'cut-after',
    { status: 503, code: 'SlowDown' },
    { status: 500, code: 'InternalError' },
    { status: 400, code: 'RequestTimeout' },
  ];
  for (const operation of [...writes, ...reads]) {
    const more: S3Fault[] = operation === 'CompleteMultipartUpload' ? ['late-error'] : ['half'];
    for (const fault of [...faults, ...(reads.includes(operation) ? [] : more)]) {
      if (fault === 'half' && operation === 'UploadPart') continue;
      store.fault = once(operation, fault);
      const place = placeFor(fault);
      await write(place);
      assert.deepEqual(await read(place), CONTENT, `${operation} ${JSON.stringify(fault)}`);
      await place.remove(FILE);
    }
  }
  await write(patient);
  // The second range, after the first one was used.
  for (const fault of [...faults, 'half'] as const) {
    store.fault = once('GetObject', fault, 2);
    assert.deepEqual(await read(placeFor(fault)), CONTENT, JSON.stringify(fault));
  }
});

test('a store that loses data is detected, and a failed backup leaves nothing', async () => {
  await using store = await startS3Server({ partBytesMin: PIECE_BYTES });
  const place = placeIn(store);
  store.fault = always('CompleteMultipartUpload', 'lie');
  await assert.rejects(write(place), /confirmed .*, but has 0 bytes of it instead of 20480/);
  store.fault = once('UploadPart', 'lie', 2);
  await assert.rejects(write(place), /refused writing .*InvalidPart, status 400/);
  for (const operation of ['UploadPart', 'CompleteMultipartUpload']) {
    for (const fault of ['hang', 'cut', { status: 500, code: 'InternalError' }] as const) {
      // A completion may take ten times as long.
      if (fault === 'hang' && operation !== 'UploadPart') continue;
      store.fault = always(operation, fault);
      const hasty = placeIn(store, fault === 'hang' ? { baseMs: 200 } : {});
      await assert.rejects(write(hasty), /does not respond|fails \(InternalError/);
      assert.deepEqual([store.objects.size, store.uploads.size], [0, 0]);
    }
  }
  store.fault = () => null;
  store.fault = always('CompleteMultipartUpload', 'short');
  await assert.rejects(write(place), /has 8192 bytes of it instead of 20480: do not rely/);
  assert.equal(store.objects.size, 0);
  store.fault = () => null;
  await write(place);
  store.fault = always('GetObject', { status: 206, code: '', body: 'short' });
  await assert.rejects(read(place), /returned 5 bytes of .*: it has lost a part of the object/);
  store.fault = (call) => (call.operation === 'GetObject' ? 'half' : null);
  await assert.rejects(read(place), /does not respond/);
});

test('two backups of one name do not replace each other', async () => {
  await using store = await startS3Server({ partBytesMin: PIECE_BYTES });
  const place = placeIn(store);
  const [one, other] = [await place.create(FILE, 5), await place.create(FILE, 5)];
  await one.write(Buffer.from('one'));
  await other.write(Buffer.from('other'));
  await one.finish();
  await assert.rejects(other.finish(), /was written by another process meanwhile/);
  await other.abandon();
  assert.equal((await read(place)).toString(), 'one');
  await place.remove(FILE);
  store.fault = once('CompleteMultipartUpload', { status: 501, code: 'NotImplemented' });
  await write(place, Buffer.from('third'));
});

test('reading a backup ends when it is replaced or removed meanwhile', async () => {
  await using store = await startS3Server({ partBytesMin: PIECE_BYTES });
  const place = placeIn(store);
  const readDuring = async (change: () => unknown): Promise<void> => {
    await write(place);
    const reading = place.read(FILE)[Symbol.asyncIterator]();
    await reading.next();
    await change();
    while ((await reading.next()).done !== true);
  };
  const key = FILE.slice('s3://backups/'.length);
  await assert.rejects(
    readDuring(() => store.put(key, randomBytes(20 * 1024))),
    /was replaced while it was read/,
  );
  await place.remove(FILE);
  await assert.rejects(
    readDuring(() => place.remove(FILE)),
    /was removed while it was read/,
  );
});

test('a failure is one sentence that says what to do, without the credentials', async () => {
  await using store = await startS3Server({ partBytesMin: PIECE_BYTES });
  const sentence = async (place: BackupPlace): Promise<string> => {
    const error = await write(place).then(
      () => new Error('none'),
      (reason: Error) => reason,
    );
    assert.doesNotMatch(JSON.stringify([error.message, error.stack]), /a secret|AKIALETTER/);
    return error.message.replaceAll(/127\.0\.0\.1:\d+/g, 'STORE');
  };
  const answering = (status: number, code: string): Promise<string> => {
    store.fault = always('CreateMultipartUpload', { status, code });
    return sentence(placeIn(store));
  };
  assert.match(await answering(403, 'AccessDenied'), /STORE denies writing s3:.*: permit it to/);
  assert.match(
    await answering(507, 'XMinioStorageFull'),
    /STORE has no space for .*delete something there/,
  );
  assert.match(await answering(403, 'QuotaExceeded'), /STORE has no space for .*raise its quota/);
  assert.match(await answering(403, 'ExpiredToken'), /renew AWS_SESSION_TOKEN/);
  assert.match(await answering(503, 'SlowDown'), /STORE fails \(SlowDown, status 503\)/);
  assert.match(
    await answering(501, 'NotImplemented'),
    /refused writing .*not support the required parts of S3/,
  );
  assert.match(
    await answering(301, 'PermanentRedirect'),
    /set AWS_REGION and LETTERHAUS_BACKUP_S3/,
  );
  store.fault = () => null;
  store.clockMs = 3 * 3600_000;
  assert.match(await sentence(placeIn(store)), /differs from that of STORE by 180 minutes: set it/);
  store.clockMs = 0;
  const wrong = placeIn(store, { secretAccessKey: 'wrong' });
  assert.match(await sentence(wrong), /\(SignatureDoesNotMatch\): correct AWS_ACCESS_KEY_ID/);
  const unknown = placeIn(store, { accessKeyId: 'wrong' });
  assert.match(await sentence(unknown), /\(InvalidAccessKeyId\): correct AWS_ACCESS_KEY_ID/);
  const { place: elsewhere } = await locate('s3://other-bucket/', {
    access: { ...ACCESS, endpoint: store.endpoint, sessionToken: null },
    world,
  });
  await assert.rejects(elsewhere.list(), /There is no bucket other-bucket at .*: create it/);
  assert.equal(
    await sentence(placeIn({ endpoint: 'http://127.0.0.1:1' })),
    'STORE does not respond (ECONNREFUSED): check the network and LETTERHAUS_BACKUP_S3_ENDPOINT.',
  );
});

test('uploads of a lost machine are aborted after a day, and others are not', async () => {
  await using store = await startS3Server({ partBytesMin: PIECE_BYTES });
  const place = placeIn(store);
  await place.create(FILE, 5);
  await place.create(`${TO}/somebody-elses`, 5);
  await place.removeUnfinished(Date.now() + 23 * 3600_000);
  assert.equal(store.uploads.size, 2);
  await place.removeUnfinished(Date.now() + 25 * 3600_000);
  assert.deepEqual(
    [...store.uploads.values()].map(({ key }) => key),
    ['acme/somebody-elses'],
  );
});

test('the list of backups has all pages, in order, and no other objects', async () => {
  await using store = await startS3Server({ pageSize: 2, partBytesMin: PIECE_BYTES });
  const place = placeIn(store);
  const files = [3, 1, 2, 5, 4].map((day) => `${TO}/letterhaus-2026110${day}T000000Z.backup`);
  const others = ['letterhaus-notes', 'letterhaus-x/letterhaus-20261101T000000Z.backup'];
  for (const file of [...files, ...others.map((name) => `${TO}/${name}`)]) {
    await write(place, Buffer.from('x'), file);
  }
  assert.deepEqual(await place.list(), files.toSorted());
});

test('the journal in a bucket has every row, can be shortened, and continues after a restart', async () => {
  await using store = await startS3Server({ pageSize: 2, partBytesMin: PIECE_BYTES });
  const access = { ...ACCESS, endpoint: store.endpoint, sessionToken: null };
  const clock = { nowMs: Date.now() };
  // Requests are signed with the same clock.
  const advance = (ms: number): void => {
    clock.nowMs += ms;
    store.clockMs += ms;
  };
  const open = () =>
    backupPlaceAt(TO, { access, world: { ...world, now: () => clock.nowMs } }).journal;
  const journal = open();
  assert.equal(await journal.newest(), null);
  assert.deepEqual(await rowsOf(journal, 0), []);
  const rows: JournalRow[] = [];
  const append = async (to: Journal, key: string): Promise<void> => {
    advance(6 * 3600_000);
    const at = new Date(clock.nowMs).toISOString();
    const row = { table: 'idempotency', at, row: { key: key.padEnd(40_000, '.') } } as const;
    await to.append([row]);
    rows.push(row);
  };
  for (const key of ['a', 'b', 'c', 'd']) await append(journal, key);
  await journal.append([]);
  assert.equal(store.objects.size, 2, 'each has two rows');
  await append(open(), 'e');
  assert.equal(store.objects.size, 3);
  const timeOf = (index: number): number => Date.parse(rows[index]!.at);
  assert.equal(await journal.newest(), timeOf(4));
  assert.deepEqual(await rowsOf(journal, 0), rows);
  assert.deepEqual(
    await rowsOf(journal, timeOf(1)),
    rows.slice(1),
    'with what the backup may lack',
  );
  await journal.shorten(timeOf(3));
  assert.deepEqual(await rowsOf(journal, 0), rows.slice(2));
});

async function rowsOf(journal: Journal, sinceMs: number): Promise<JournalRow[]> {
  const rows: JournalRow[] = [];
  for await (const row of journal.read(sinceMs)) rows.push(row);
  return rows;
}

test('ambiguous names of buckets and keys are refused', async () => {
  assert.deepEqual(parseBucketUrl('s3://backups'), { bucket: 'backups', key: '' });
  assert.deepEqual(parseBucketUrl('s3://b.c-d/x/y'), { bucket: 'b.c-d', key: 'x/y' });
  const wrong = ['s3:/x', 's3://', 's3://AB', 's3://abc/a b', 's3://abc//x', 's3://abc/../x'];
  for (const text of [...wrong, 's3://abc/x?y', 's3://u:p@abc/x', 's3://abc/%2e']) {
    assert.equal(parseBucketUrl(text), null, text);
  }
  await assert.rejects(locate('s3://backups/', { access: null, world }), {
    message: 's3://backups/ needs credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.',
  });
});
