/** The variables of backups: the key that seals them, and the schedule of the service. */
import { resolve } from 'node:path';
import { asPrefix, isInBucket, parseBucketUrl } from '../backup/places/bucket-url.ts';
import { requirePassphrase } from '../backup/sealed-key.ts';
import type { S3Access } from '../net/s3/transport.ts';
import type { EnvReader } from './env-reader.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, parsePeriodMs } from '../lib/units.ts';

export type BackupConfig = {
  /** The folder or s3://bucket/prefix of scheduled backups; null for none. */
  to: string | null;
  everyMs: number;
  keep: number;
  /** Seals the secret key in a backup; null when it is not configured. */
  passphrase: string | null;
  recipients: readonly string[];
  /** Access to buckets; null without configured credentials. */
  s3: Readonly<S3Access> | null;
  pointInTime: Readonly<PointInTimeConfig>;
};

/** The archive of the embedded engine's WAL (docs/backup.md#a-point-in-time). */
type PointInTimeConfig = {
  /** The folder or s3://bucket/prefix; null when nothing is archived. */
  to: string | null;
  /** Milliseconds between two base backups. */
  everyMs: number;
  /** Milliseconds: every time within this period can be restored. */
  keepMs: number;
};

const DEFAULT_EVERY_MS = 6 * HOUR_MS;
const DEFAULT_KEEP = 28;
const DEFAULT_REGION = 'us-east-1';
const EVERY_MS_MIN = MINUTE_MS;
const EVERY_MS_MAX = 9_999 * DAY_MS;
const DEFAULT_BASE_EVERY_MS = 7 * DAY_MS;
const DEFAULT_POINT_IN_TIME_KEEP_MS = 14 * DAY_MS;
const PERIOD_RULE = 'write 30m, 6h or 1d';

/** Reads the variables. Scheduled backups contain the sealed secret key, so a place for them needs a sealing key. */
export function readBackup(read: EnvReader): { backup: BackupConfig } {
  const to = read.text('LETTERHAUS_BACKUP_TO');
  const backup = {
    to: to === null ? null : resolvePlace(to),
    everyMs: read.parsed('LETTERHAUS_BACKUP_EVERY', parseEveryMs, PERIOD_RULE) ?? DEFAULT_EVERY_MS,
    keep:
      read.parsed('LETTERHAUS_BACKUP_KEEP', parseKeep, 'write a number from 1 to 10000') ??
      DEFAULT_KEEP,
    passphrase: read.secret(
      'LETTERHAUS_BACKUP_PASSPHRASE',
      parsePassphrase,
      'write at least 12 characters (openssl rand -base64 24)',
    ),
    recipients: read.list(
      'LETTERHAUS_BACKUP_RECIPIENT',
      (text) => (/^age1[0-9a-z]{20,}$/.test(text) ? text : null),
      'write a recipient of age, such as age1… (age-keygen prints it)',
    ),
    s3: readS3(read),
    pointInTime: readPointInTime(read),
  };
  const places = { LETTERHAUS_BACKUP_TO: to, LETTERHAUS_POINT_IN_TIME: backup.pointInTime.to };
  for (const [name, place] of Object.entries(places)) {
    if (place !== null && isInBucket(place)) requireBucket(read, { name, place, s3: backup.s3 });
    if (place === null || backup.passphrase !== null || backup.recipients.length > 0) continue;
    read.addProblem(
      name,
      'backups contain the secret key, sealed; set LETTERHAUS_BACKUP_PASSPHRASE or LETTERHAUS_BACKUP_RECIPIENT too.',
    );
  }
  const archive = backup.pointInTime.to;
  if (to !== null && archive !== null && asPrefix(resolvePlace(to)) === asPrefix(archive)) {
    read.addProblem(
      'LETTERHAUS_POINT_IN_TIME',
      'use another folder or prefix than LETTERHAUS_BACKUP_TO.',
    );
  }
  return { backup: Object.freeze(backup) };
}

/** Reads the names that other programs use for S3. Our own name for the endpoint takes precedence over theirs. */
function readS3(read: EnvReader): S3Access | null {
  const endpointOf = (name: string): string | null =>
    read.secret(
      name,
      parseEndpoint,
      'write a URL without credentials, such as https://s3.example.com',
    );
  const ownEndpoint = endpointOf('LETTERHAUS_BACKUP_S3_ENDPOINT');
  const accessKeyId = read.text('AWS_ACCESS_KEY_ID');
  const secretAccessKey = read.text('AWS_SECRET_ACCESS_KEY');
  const sessionToken = read.text('AWS_SESSION_TOKEN');
  const region = read.text('AWS_REGION') ?? read.text('AWS_DEFAULT_REGION') ?? DEFAULT_REGION;
  if (accessKeyId === null || secretAccessKey === null) return null;
  const endpoint = ownEndpoint ?? endpointOf('AWS_ENDPOINT_URL_S3');
  return { endpoint, region, accessKeyId, secretAccessKey, sessionToken };
}

/** Makes the path of a folder absolute; keeps the URL of a bucket. */
function resolvePlace(text: string): string {
  return isInBucket(text) ? text : resolve(text);
}

type BucketPlace = { name: string; place: string; s3: S3Access | null };

function requireBucket(read: EnvReader, { name, place, s3 }: BucketPlace): void {
  if (parseBucketUrl(place) === null) {
    read.addProblem(name, `${JSON.stringify(place)} is not understood; write s3://bucket/prefix/.`);
  }
  if (s3 === null) {
    read.addProblem(name, 'a bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY too.');
  }
}

function parseEndpoint(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return null;
  return `${url.search}${url.hash}${url.username}` === '' ? url.href.replace(/\/+$/, '') : null;
}

function readPointInTime(read: EnvReader): Readonly<PointInTimeConfig> {
  const to = read.text('LETTERHAUS_POINT_IN_TIME');
  if (to !== null && read.text('DATABASE_URL') !== null) {
    read.addProblem(
      'LETTERHAUS_POINT_IN_TIME',
      'it is for the embedded database; with DATABASE_URL, archive WAL with the tools of that server.',
    );
  }
  const period = (name: string) => read.parsed(name, parseEveryMs, PERIOD_RULE);
  return Object.freeze({
    to: to === null ? null : resolvePlace(to),
    everyMs: period('LETTERHAUS_POINT_IN_TIME_BASE_EVERY') ?? DEFAULT_BASE_EVERY_MS,
    keepMs: period('LETTERHAUS_POINT_IN_TIME_KEEP') ?? DEFAULT_POINT_IN_TIME_KEEP_MS,
  });
}

function parseEveryMs(text: string): number | null {
  const ms = parsePeriodMs(text, 'mhd');
  return ms !== null && ms >= EVERY_MS_MIN && ms <= EVERY_MS_MAX ? ms : null;
}

function parseKeep(text: string): number | null {
  const count = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return count >= 1 && count <= 10_000 ? count : null;
}

function parsePassphrase(text: string): string | null {
  try {
    return requirePassphrase(text, 'LETTERHAUS_BACKUP_PASSPHRASE');
  } catch {
    return null;
  }
}
