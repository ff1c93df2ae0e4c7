/**
 * Backups in a bucket of an object store, under one prefix. A backup appears once all of it is stored
 * (net/s3/upload.ts), and is never replaced. So nobody can read half a backup.
 */
import type { World } from '../../lib/world.ts';
import { S3Bucket } from '../../net/s3/bucket.ts';
import { type S3Access, type S3Timing } from '../../net/s3/transport.ts';
import { beginUpload } from '../../net/s3/upload.ts';
import { objectJournal } from './bucket-journal.ts';
import { type BackupPlace, type Destination, PlaceProblem, backupTimeMs } from './backup-place.ts';
import { DAY_MS } from '../../lib/units.ts';

/**
 * Age of an unfinished upload after which it is aborted. Uploads may take hours, and stores do not say whether one is
 * active.
 */
const ABANDONED_AFTER_MS = DAY_MS;

export type ObjectsOptions = {
  access: S3Access;
  world: Pick<World, 'now' | 'random' | 'newId'>;
  timing?: S3Timing;
  pieceBytes?: number;
  signal?: AbortSignal;
};

/** @param prefix of all keys: empty, or with a slash at its end */
export function objectPlace(
  { bucket, prefix }: { bucket: string; prefix: string },
  options: ObjectsOptions,
): BackupPlace {
  const store = new S3Bucket({ bucket, ...options });
  const root = `s3://${bucket}/`;
  const keyOf = (file: string): string => file.slice(root.length);
  const { world } = options;
  return {
    name: `${root}${prefix}`,
    create: (file, bytes) => openDestination(store, keyOf(file), { bytes, id: world.newId() }),
    read: (file) => store.read(keyOf(file)),
    list: async () => {
      const objects = await store.list(`${prefix}letterhaus-`);
      return objects
        .map(({ key }) => key)
        .filter((key) => backupTimeMs(key) !== null && !key.slice(prefix.length).includes('/'))
        .toSorted()
        .map((key) => `${root}${key}`);
    },
    remove: (file) => store.remove(keyOf(file)),
    removeUnfinished: async (nowMs) => {
      for (const upload of await store.listUnfinished(`${prefix}letterhaus-`)) {
        const isAbandoned = upload.startedMs < nowMs - ABANDONED_AFTER_MS;
        if (backupTimeMs(upload.key) !== null && isAbandoned) await store.abort(upload);
      }
    },
    journal: objectJournal(store, { prefix, world }),
  };
}

async function openDestination(
  store: S3Bucket,
  key: string,
  { bytes, id }: { bytes: number; id: string },
): Promise<Destination> {
  // The end of the upload checks this again, but that may be hours later.
  if (await store.has(key)) {
    throw new PlaceProblem(`s3://${store.name}/${key} exists. Choose another name.`);
  }
  const upload = await beginUpload(store, { key, bytes, id });
  return {
    write: (chunk) => upload.write(chunk),
    finish: () => upload.complete(),
    abandon: () => upload.abort(),
  };
}
