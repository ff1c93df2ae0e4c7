/** The variables of backups: the key that seals them, and the schedule of the service. */
import { resolve } from 'node:path';
import { isInBucket, parseBucketUrl } from '../backup/locate.ts';
import { requirePassphrase } from '../backup/sealed-key.ts';
import type { S3Access } from '../net/s3/transport.ts';
import type { EnvReader } from './env-reader.ts';

export type BackupConfig = {
  /** The folder or s3://bucket/prefix of scheduled backups; null: there are none. */
  to: string | null;
  everyMs: number;
  /** How many scheduled backups are kept. */
  keep: number;
  /** What seals the secret key in a backup; null: nothing is configured. */
  passphrase: string | null;
  recipients: readonly string[];
  /** How to reach buckets; null: no credentials are configured. */
  s3: Readonly<S3Access> | null;
};

const EVERY_MS = 6 * 3600_000;
const KEEP = 28;
const REGION = 'us-east-1';
const UNIT_MS = { m: 60_000, h: 3600_000, d: 86_400_000 };
const EVERY_MS_MIN = 60_000;

/** Scheduled backups contain a sealed key, so a place for them needs what seals it. */
export function readBackup(read: EnvReader): { backup: BackupConfig } {
  const to = read.text('LETTERHAUS_BACKUP_TO');
  const backup = {
    to: to === null || isInBucket(to) ? to : resolve(to),
    everyMs:
      read.parsed('LETTERHAUS_BACKUP_EVERY', parseEveryMs, 'write 30m, 6h or 1d') ?? EVERY_MS,
    keep:
      read.parsed('LETTERHAUS_BACKUP_KEEP', parseKeep, 'write a number from 1 to 10000') ?? KEEP,
    passphrase: read.secret(
      'LETTERHAUS_BACKUP_PASSPHRASE',
      parsePassphrase,
      'write at least 12 characters (openssl rand -base64 24)',
    ),
    recipients: read.list(
      'LETTERHAUS_BACKUP_RECIPIENT',
      (text) => (/^age1[0-9a-z]{20,}$/.test(text) ? text : null),
      'write a recipient of age, as age1… (age-keygen prints it)',
    ),
    s3: readS3(read),
  };
  if (to !== null && isInBucket(to)) requireBucket(read, to, backup.s3);
  if (to !== null && backup.passphrase === null && backup.recipients.length === 0) {
    read.problem(
      'LETTERHAUS_BACKUP_TO',
      'backups contain the secret key, sealed; set LETTERHAUS_BACKUP_PASSPHRASE or LETTERHAUS_BACKUP_RECIPIENT too.',
    );
  }
  return { backup: Object.freeze(backup) };
}

/** The names that other programs use for the same; the endpoint has one of ours, which comes before theirs. */
function readS3(read: EnvReader): S3Access | null {
  const endpointOf = (name: string): string | null =>
    read.secret(name, parseEndpoint, 'write a URL without credentials, as https://s3.example.com');
  const own = endpointOf('LETTERHAUS_BACKUP_S3_ENDPOINT');
  const accessKeyId = read.text('AWS_ACCESS_KEY_ID');
  const secretAccessKey = read.text('AWS_SECRET_ACCESS_KEY');
  const sessionToken = read.text('AWS_SESSION_TOKEN');
  const region = read.text('AWS_REGION') ?? read.text('AWS_DEFAULT_REGION') ?? REGION;
  if (accessKeyId === null || secretAccessKey === null) return null;
  const endpoint = own ?? endpointOf('AWS_ENDPOINT_URL_S3');
  return { endpoint, region, accessKeyId, secretAccessKey, sessionToken };
}

function requireBucket(read: EnvReader, to: string, s3: S3Access | null): void {
  const where = 'LETTERHAUS_BACKUP_TO';
  if (parseBucketUrl(to) === null) {
    read.problem(where, `${JSON.stringify(to)} is not understood; write s3://bucket/prefix/.`);
  }
  if (s3 === null) {
    read.problem(where, 'a bucket needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY too.');
  }
}

function parseEndpoint(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) return null;
  return `${url.search}${url.hash}${url.username}` === '' ? url.href.replace(/\/+$/, '') : null;
}

function parseEveryMs(text: string): number | null {
  const [, count, unit] = /^(\d{1,4})([mhd])$/.exec(text) ?? [];
  const ms = Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
  return ms >= EVERY_MS_MIN ? ms : null;
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
