/**
 * An archive of WAL in a bucket of an object store, under one prefix. Objects are never incomplete: a small one is one
 * request, and a base backup appears when its upload is complete (net/s3/upload.ts).
 */
import { S3Bucket } from '../../net/s3/bucket.ts';
import { beginUpload } from '../../net/s3/upload.ts';
import { objectJournal } from '../places/bucket-journal.ts';
import type { ObjectsOptions } from '../places/bucket-place.ts';
import type { ArchivePlace } from './archive-place.ts';

const REMOVED_AT_ONCE = 8;

/** @param prefix of all keys: empty, or with a slash at its end */
export function bucketArchive(
  { bucket, prefix }: { bucket: string; prefix: string },
  options: ObjectsOptions,
): ArchivePlace {
  const store = new S3Bucket({ bucket, ...options });
  const { world } = options;
  const keyOf = (name: string): string => `${prefix}${name}`;
  return {
    name: `s3://${bucket}/${prefix}`,
    journal: objectJournal(store, { prefix, world }),
    pathOf: (name) => `s3://${bucket}/${keyOf(name)}`,
    // Keys contain slashes, so there is no folder to create.
    makeFolder: () => Promise.resolve(),
    removeFolder: () => Promise.resolve(),
    list: async (start) => {
      const objects = await store.list(keyOf(start));
      return objects
        .map(({ key }) => key.slice(prefix.length))
        .filter((name) => !name.slice(start.length).includes('/'))
        .toSorted();
    },
    get: async (name) => {
      if (!(await store.has(keyOf(name)))) return null;
      const chunks: Buffer[] = [];
      for await (const chunk of store.read(keyOf(name))) chunks.push(chunk);
      return Buffer.concat(chunks);
    },
    read: (name) => store.read(keyOf(name)),
    put: (name, bytes) => store.put(keyOf(name), bytes),
    create: async (name, bytes) => {
      const upload = await beginUpload(store, { key: keyOf(name), bytes, id: world.newId() });
      return {
        write: (chunk) => upload.write(chunk),
        finish: () => upload.complete(),
        abandon: () => upload.abort(),
      };
    },
    remove: async (names) => {
      const left = names.values();
      const removing = Array.from({ length: REMOVED_AT_ONCE }, async () => {
        for (const name of left) await store.remove(keyOf(name));
      });
      await Promise.all(removing);
    },
    removeUnfinished: async (series) => {
      for (const upload of await store.listUnfinished(keyOf(`${series}/`))) {
        await store.abort(upload);
      }
    },
  };
}
