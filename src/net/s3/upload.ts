/**
 * Writes an object of any size to a bucket, in parts of equal size, two at a time.
 *
 * Guarantees: the object appears with `complete`, as a whole, and never replaces another one; before that nothing
 * can be read. At most three parts are in memory. `complete` returns when the store confirms the number of bytes.
 * One exception: a store without conditional writes can replace an object that another writer began after the
 * caller's check.
 */
import { S3Problem } from './problems.ts';
import type { S3Bucket } from './bucket.ts';
import type { S3Response } from './transport.ts';

const PARTS_MAX = 10_000;
const PARTS_AT_ONCE = 2;
/** The header that distinguishes our object from another one of the same name. */
const ID_HEADER = 'x-amz-meta-letterhaus-upload';

type UploadOptions = {
  key: string;
  /** Approximate number of bytes. */
  bytes: number;
  id: string;
};

/** @throws S3Problem */
export async function beginUpload(bucket: S3Bucket, options: UploadOptions): Promise<S3Upload> {
  const { key, id } = options;
  const response = await bucket.transport.send({
    method: 'POST',
    key,
    query: { uploads: '' },
    headers: { 'content-type': 'application/octet-stream', [ID_HEADER]: id },
  });
  const uploadId = /<UploadId>([^<]+)<\/UploadId>/.exec(response.body.toString('utf8'))?.[1];
  if (uploadId !== undefined) return new S3Upload(bucket, { ...options, uploadId });
  throw new S3Problem(
    `The store began no upload of s3://${bucket.name}/${key}: it may not support S3.`,
  );
}

export class S3Upload {
  readonly #bucket: S3Bucket;
  readonly #options: UploadOptions & { uploadId: string };
  readonly #partBytes: number;
  readonly #stop = new AbortController();
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  #bytes = 0;
  readonly #etags: Promise<string>[] = [];

  constructor(bucket: S3Bucket, options: UploadOptions & { uploadId: string }) {
    this.#bucket = bucket;
    this.#options = options;
    this.#partBytes = Math.max(bucket.pieceBytes, partBytesFor(options.bytes));
  }

  /** @throws S3Problem, also when an earlier part has failed */
  async write(bytes: Buffer): Promise<void> {
    this.#buffered.push(bytes);
    this.#bufferedBytes += bytes.length;
    this.#bytes += bytes.length;
    if (this.#bufferedBytes < this.#partBytes) return;
    let buffered = Buffer.concat(this.#buffered);
    this.#buffered = [];
    for (; buffered.length >= this.#partBytes; buffered = buffered.subarray(this.#partBytes)) {
      await this.#beginPart(buffered.subarray(0, this.#partBytes));
    }
    this.#buffered = [buffered];
    this.#bufferedBytes = buffered.length;
  }

  /** @throws S3Problem */
  async complete(): Promise<void> {
    if (this.#bufferedBytes > 0 || this.#etags.length === 0) {
      await this.#beginPart(Buffer.concat(this.#buffered));
    }
    const etags = await Promise.all(this.#etags);
    const parts = etags.map(
      (etag, index) =>
        `<Part><PartNumber>${index + 1}</PartNumber><ETag>${etag.replaceAll('"', '&quot;')}</ETag></Part>`,
    );
    const body = Buffer.from(
      `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${parts.join('')}</CompleteMultipartUpload>`,
    );
    let response = await this.#complete(body, { isConditional: true });
    if (response.status === 501) response = await this.#complete(body, { isConditional: false });
    if (response.status >= 300) await this.#requireOwnObject(response);
    await this.#requireAllBytes();
  }

  /** Aborts running requests and removes the parts. Does not throw, because the store may be unavailable. */
  async abort(): Promise<void> {
    this.#stop.abort();
    await Promise.allSettled(this.#etags);
    await this.#bucket.abort(this.#options).catch(() => {});
  }

  async #beginPart(bytes: Buffer): Promise<void> {
    const number = this.#etags.length + 1;
    if (number > PARTS_MAX) {
      throw new S3Problem(
        `${this.#location} would have more than ${PARTS_MAX} parts: the database grew while it was backed up. Run this again.`,
      );
    }
    // Waits for the part before the last one, and throws its error.
    await this.#etags.at(-PARTS_AT_ONCE);
    const uploading = this.#uploadPart(number, bytes);
    // The other part ends with the same reason.
    uploading.catch((error: unknown) => this.#stop.abort(error));
    this.#etags.push(uploading);
  }

  async #uploadPart(number: number, body: Buffer): Promise<string> {
    const { key, uploadId } = this.#options;
    const response = await this.#bucket.transport.send({
      method: 'PUT',
      key,
      query: { partNumber: String(number), uploadId },
      body,
      signal: this.#stop.signal,
    });
    const etag = response.header('etag');
    if (etag !== null) return etag;
    throw new S3Problem(
      `The store accepted a part of ${this.#location} without an ETag: it may not support S3.`,
    );
  }

  #complete(body: Buffer, { isConditional }: { isConditional: boolean }): Promise<S3Response> {
    const { key, uploadId } = this.#options;
    return this.#bucket.transport.send({
      method: 'POST',
      key,
      query: { uploadId },
      headers: {
        'content-type': 'application/xml',
        ...(isConditional && { 'if-none-match': '*' }),
      },
      body,
      expect: isConditional ? [404, 409, 412, 501] : [404],
      // The store may copy all parts before it responds.
      isSlow: true,
    });
  }

  /** Accepts a failed completion if an earlier attempt of the same request created our object. */
  async #requireOwnObject({ status, attempts }: S3Response): Promise<void> {
    const existing = attempts > 1 ? await this.#head() : null;
    if (existing?.header(ID_HEADER) === this.#options.id) return;
    throw new S3Problem(
      status === 404
        ? `The store has dropped the upload of ${this.#location} before it was complete: run this again, and look for a rule of the bucket that aborts uploads.`
        : `${this.#location} was written by another process meanwhile: choose another name.`,
    );
  }

  async #requireAllBytes(): Promise<void> {
    const response = await this.#head();
    const bytes = response.status < 300 ? Number(response.header('content-length')) : 0;
    if (bytes === this.#bytes) return;
    // Nobody must use it as a backup.
    if (response.header(ID_HEADER) === this.#options.id) {
      await this.#bucket.remove(this.#options.key).catch(() => {});
    }
    throw new S3Problem(
      `The store confirmed ${this.#location}, but has ${bytes} bytes of it instead of ${this.#bytes}: do not rely on this store.`,
    );
  }

  #head(): Promise<S3Response> {
    const { key } = this.#options;
    return this.#bucket.transport.send({ method: 'HEAD', key, expect: [404] });
  }

  get #location(): string {
    return `s3://${this.#bucket.name}/${this.#options.key}`;
  }
}

/** Half of the parts suffice for the expected size, so twice as much fits. Some stores require parts of one size. */
function partBytesFor(bytes: number): number {
  return Math.ceil(bytes / (PARTS_MAX / 2));
}
