/** Names of places in buckets (`s3://bucket/prefix/`), which every start parses. locate-place.ts opens the places. */

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
/** Keys that every program writes the same way. No part of a key is empty. */
const KEY = /^(?:[\w.!*'()-]+\/)*[\w.!*'()-]*$/;

export function isInBucket(text: string): boolean {
  return /^s3:/i.test(text);
}

export function parseBucketUrl(text: string): { bucket: string; key: string } | null {
  const [, bucket = '', key = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(text) ?? [];
  const isRelative = key.split('/').some((part) => part === '.' || part === '..');
  return BUCKET.test(bucket) && KEY.test(key) && !isRelative ? { bucket, key } : null;
}

export function asPrefix(text: string): string {
  return text.endsWith('/') ? text : `${text}/`;
}
