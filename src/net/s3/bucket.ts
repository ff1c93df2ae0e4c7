/** The operations on a bucket that backups need. Objects are read in ranges, so a broken read is resumed. */
import { S3Problem } from './problems.ts';
import { S3Transport, type S3TransportOptions } from './transport.ts';
import { MIB } from '../../lib/units.ts';

/** Size of ranges and parts. Two to four of them are in memory. S3 requires parts of at least 5 MB. */
const PIECE_BYTES = 8 * MIB;
/** Ends a list of a store that returns the same page again and again. */
const PAGES_MAX = 10_000;

export type S3Object = { key: string; bytes: number };
type Range = { from: number; etag: string | null; signal: AbortSignal };
type RangeResult = { bytes: Buffer; size: number; etag: string | null };
export type S3Unfinished = { key: string; uploadId: string; startedMs: number };

const ENTITIES: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"', apos: "'" };

export class S3Bucket {
  readonly transport: S3Transport;
  readonly name: string;
  readonly pieceBytes: number;

  constructor(options: S3TransportOptions & { pieceBytes?: number }) {
    this.transport = new S3Transport(options);
    this.name = options.bucket;
    this.pieceBytes = options.pieceBytes ?? PIECE_BYTES;
  }

  /**
   * Lists the objects whose key begins with the prefix, in the order of keys.
   * @throws S3Problem
   */
  async list(prefix: string): Promise<S3Object[]> {
    const objects: S3Object[] = [];
    let query: Record<string, string> = { 'list-type': '2', prefix };
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const { body } = await this.transport.send({ method: 'GET', key: '', query });
      const xml = body.toString('utf8');
      for (const element of elements(xml, 'Contents')) {
        objects.push({ key: textOf(element, 'Key'), bytes: Number(textOf(element, 'Size')) });
      }
      const next = textOf(xml, 'NextContinuationToken');
      if (textOf(xml, 'IsTruncated') !== 'true' || next === '') break;
      query = { ...query, 'continuation-token': next };
    }
    return objects;
  }

  /**
   * Uses a list, whose failures say more than the failures of HEAD.
   * @throws S3Problem
   */
  async has(key: string): Promise<boolean> {
    const query = { 'list-type': '2', prefix: key, 'max-keys': '1' };
    const { body } = await this.transport.send({ method: 'GET', key: '', query });
    return elements(body.toString('utf8'), 'Contents').some(
      (element) => textOf(element, 'Key') === key,
    );
  }

  /**
   * Writes a small object in one request, which stores it completely or not at all.
   * @throws S3Problem
   */
  async put(key: string, body: Buffer): Promise<void> {
    await this.transport.send({ method: 'PUT', key, body });
  }

  /**
   * Removes an object, if it exists.
   * @throws S3Problem
   */
  async remove(key: string): Promise<void> {
    await this.transport.send({ method: 'DELETE', key, expect: [404] });
  }

  /**
   * Yields the bytes of an object. The next range is read while the last one is used.
   * @throws S3Problem, also when the object is replaced or removed meanwhile, or its bytes end early
   */
  async *read(key: string): AsyncGenerator<Buffer> {
    const stop = new AbortController();
    const readRange = (from: number, etag: string | null): Promise<RangeResult> => {
      const nextRange = this.#readRange(key, { from, etag, signal: stop.signal });
      // Handled where it is awaited, which may be after the caller has used the previous range.
      nextRange.catch(() => {});
      return nextRange;
    };
    try {
      let nextRange: Promise<RangeResult> | null = readRange(0, null);
      for (let from = 0; nextRange !== null;) {
        const { bytes, size, etag }: RangeResult = await nextRange;
        from += bytes.length;
        nextRange = from < size ? readRange(from, etag) : null;
        yield bytes;
      }
    } finally {
      stop.abort();
    }
  }

  async #readRange(key: string, { from, etag, signal }: Range): Promise<RangeResult> {
    const response = await this.transport.send({
      method: 'GET',
      key,
      headers: {
        range: `bytes=${from}-${from + this.pieceBytes - 1}`,
        ...(etag !== null && { 'if-match': etag }),
      },
      expect: etag === null ? [416] : [404, 412, 416],
      bytesMax: this.pieceBytes,
      signal,
    });
    const { status, body } = response;
    if (status === 416 && from === 0) return { bytes: Buffer.alloc(0), size: 0, etag };
    const [, start, total] =
      /^bytes (\d+)-\d+\/(\d+)$/.exec(response.header('content-range') ?? '') ?? [];
    // Some stores respond with 200 when the range is the whole object.
    const size = status === 200 ? from + body.length : Number(total);
    const isRange = status === 206 ? Number(start) === from : status === 200 && from === 0;
    const expected = Math.min(this.pieceBytes, size - from);
    if (isRange && body.length === expected) {
      return { bytes: body, size, etag: etag ?? response.header('etag') };
    }
    const location = `s3://${this.name}/${key}`;
    if (status === 412) {
      throw new S3Problem(`${location} was replaced while it was read: run this again.`);
    }
    if (status === 404) throw new S3Problem(`${location} was removed while it was read.`);
    throw new S3Problem(
      `The store returned ${body.length} bytes of ${location} from byte ${from} on (status ${status}) instead of ${expected}: it has lost a part of the object.`,
    );
  }

  /**
   * Lists uploads that were begun and neither completed nor aborted.
   * @throws S3Problem
   */
  async listUnfinished(prefix: string): Promise<S3Unfinished[]> {
    const query = { uploads: '', prefix };
    const { body } = await this.transport.send({ method: 'GET', key: '', query });
    return elements(body.toString('utf8'), 'Upload').map((element) => ({
      key: textOf(element, 'Key'),
      uploadId: textOf(element, 'UploadId'),
      startedMs: Date.parse(textOf(element, 'Initiated')),
    }));
  }

  /** @throws S3Problem */
  async abort({ key, uploadId }: Pick<S3Unfinished, 'key' | 'uploadId'>): Promise<void> {
    await this.transport.send({ method: 'DELETE', key, query: { uploadId }, expect: [404] });
  }
}

/** Returns the contents of all elements of this name. Elements of S3 have no attributes and do not nest. */
function elements(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>(.*?)</${name}>`, 'gs'))].map(([, text]) => text!);
}

function textOf(xml: string, name: string): string {
  const [text = ''] = elements(xml, name);
  return text.replaceAll(/&(\w+);/g, (all, entity: string) => ENTITIES[entity] ?? all);
}
