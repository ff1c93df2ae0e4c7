/**
 * Resolves `/var/backups`, `letterhaus-….backup` or `s3://bucket/prefix/` to a folder or a bucket, and to a backup or
 * an archive of WAL in it.
 */
import { stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { folderPlace } from './folder-place.ts';
import { objectPlace, type ObjectsOptions } from './bucket-place.ts';
import { backupName, type BackupPlace, PlaceProblem } from './backup-place.ts';
import { bucketArchive } from '../point-in-time/bucket-archive.ts';
import { asPrefix, isInBucket, parseBucketUrl } from './bucket-url.ts';
import { folderArchive } from '../point-in-time/folder-archive.ts';
import type { ArchivePlace } from '../point-in-time/archive-place.ts';

export type Located = {
  place: BackupPlace;
  /** Path of the backup; null when the text names the place itself. */
  file: string | null;
};

type Options = Omit<ObjectsOptions, 'access'> & {
  access: ObjectsOptions['access'] | null;
};

/** @throws PlaceProblem for an invalid name, or a bucket without credentials */
export async function locate(text: string, options: Options): Promise<Located> {
  return isInBucket(text) ? locateObject(text, options) : locateFile(text);
}

/** Returns the place of scheduled backups: a folder or a prefix, with or without a slash at its end. */
export function backupPlaceAt(text: string, options: Options): BackupPlace {
  if (!isInBucket(text)) return folderPlace(text);
  return locateObject(asPrefix(text), options).place;
}

export function archiveAt(text: string, options: Options): ArchivePlace {
  if (!isInBucket(text)) return folderArchive(text);
  const { bucket, key, access } = requireObject(asPrefix(text), options.access);
  return bucketArchive({ bucket, prefix: key }, { ...options, access });
}

export function fileToWrite({ place, file }: Located, nowMs: number): string {
  return file ?? pathIn(place, backupName(nowMs));
}

export function pathIn(place: BackupPlace, name: string): string {
  return isInBucket(place.name) ? `${place.name}${name}` : join(place.name, name);
}

/** Returns the backup to read. @throws PlaceProblem that names the newest backup when only the place is named */
export async function fileToRead({ place, file }: Located): Promise<string> {
  if (file !== null) return file;
  const newest = (await place.list()).at(-1);
  throw new PlaceProblem(
    newest === undefined
      ? `There is no backup in ${place.name}.`
      : `Name a backup in ${place.name}. The newest is ${newest}.`,
  );
}

async function locateFile(path: string): Promise<Located> {
  const found = await stat(path).catch(() => null);
  return found?.isDirectory() === true
    ? { place: folderPlace(path), file: null }
    : { place: folderPlace(dirname(path)), file: resolve(path) };
}

function locateObject(text: string, options: Options): Located {
  const { bucket, key, access } = requireObject(text, options.access);
  const prefix = key.slice(0, key.lastIndexOf('/') + 1);
  const place = objectPlace({ bucket, prefix }, { ...options, access });
  return { place, file: key === prefix ? null : `s3://${bucket}/${key}` };
}

type Access = ObjectsOptions['access'];

function requireObject(
  text: string,
  access: Access | null,
): { bucket: string; key: string; access: Access } {
  const parsed = parseBucketUrl(text);
  if (parsed === null) {
    throw new PlaceProblem(
      `${text} is no place in a bucket. Write s3://bucket/prefix/ or s3://bucket/name, with letters, digits, and . _ - in the names.`,
    );
  }
  if (access === null) {
    throw new PlaceProblem(
      `${text} needs credentials. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.`,
    );
  }
  return { ...parsed, access };
}
