/**
 * An S3-compatible object store for tests: buckets in memory, requests as in the guide of AWS. It verifies the
 * signature of each request (version 4) and the hash of its body. It refuses what AWS refuses: parts that are too
 * small, lists of parts of another upload, existing objects. A test can make it fail, hang, cut connections and lie.
 * The example in the guide checks its verification (s3-server.test.ts).
 *
 * s3rver is not used: it lacks conditional writes, does not check the hash of a body, and is not maintained.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';

export const ACCESS = {
  accessKeyId: 'AKIALETTERHAUSTEST',
  secretAccessKey: 'a secret of the object store',
  region: 'eu-central-1',
};

/** A fault instead of the response to a request. */
export type S3Fault =
  /** The connection stays open and silent. */
  | 'hang'
  /** The connection is cut before, or after the request has had its effect. */
  | 'cut'
  | 'cut-after'
  /** Sends half of the response's body, then cuts the connection. */
  | 'half'
  /** Answers as usual but stores nothing. */
  | 'lie'
  /** Completes an upload with its first part only. */
  | 'short'
  /** Answers 200 with an error in the body. */
  | 'late-error'
  | { status: number; code: string; body?: string };

/** `operation` is the name in the guide: PutObject, UploadPart, CompleteMultipartUpload … */
export type S3Call = { operation: string; key: string; query: URLSearchParams };

export type S3Server = AsyncDisposable & {
  readonly endpoint: string;
  /** Environment for LETTERHAUS_BACKUP_TO and commands. */
  readonly env: Record<string, string>;
  readonly calls: readonly S3Call[];
  readonly objects: Map<string, Buffer>;
  /** Stores an object without a request. */
  put(key: string, bytes: Buffer): void;
  /** Uploads that are neither complete nor aborted. */
  readonly uploads: Map<string, { key: string; startedMs: number }>;
  /** Called for each request. */
  fault: (call: S3Call) => S3Fault | null;
  /** Milliseconds that its clock is ahead. */
  clockMs: number;
};

type Upload = { key: string; startedMs: number; meta: string; parts: Map<number, Buffer> };
type Stored = { bytes: Buffer; etag: string; meta: string };
type S3Response = { status: number; headers?: Record<string, string>; body?: Buffer | string };

const BUCKET = 'backups';
const SKEW_MS = 15 * 60_000;
const META = 'x-amz-meta-letterhaus-upload';

export async function startS3Server(options: { pageSize?: number; partBytesMin?: number } = {}) {
  const store = new Store(options);
  const server = createServer((request, response) => {
    void store.serve(request, response);
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const { port } = server.address() as AddressInfo;
  return serverOf(store, server, `http://127.0.0.1:${port}`);
}

function serverOf(store: Store, server: Server, endpoint: string): S3Server {
  return Object.assign(store, {
    endpoint,
    env: {
      LETTERHAUS_BACKUP_S3_ENDPOINT: endpoint,
      AWS_ACCESS_KEY_ID: ACCESS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: ACCESS.secretAccessKey,
      AWS_REGION: ACCESS.region,
    },
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((done) => server.close(done));
      server.closeAllConnections();
      await closed;
    },
  });
}

class Refused extends Error {
  readonly status: number;
  readonly code: string;
  constructor(status: number, code: string) {
    super(code);
    this.status = status;
    this.code = code;
  }
}

class Store {
  readonly calls: S3Call[] = [];
  readonly uploads = new Map<string, Upload>();
  fault: S3Server['fault'] = () => null;
  clockMs = 0;
  readonly #stored = new Map<string, Stored>();
  readonly #pageSize: number;
  readonly #partBytesMin: number;
  #uploads = 0;

  constructor({ pageSize = 1_000, partBytesMin = 5 * 1024 ** 2 }) {
    this.#pageSize = pageSize;
    this.#partBytesMin = partBytesMin;
  }

  get objects(): Map<string, Buffer> {
    return new Map([...this.#stored].map(([key, { bytes }]) => [key, bytes]));
  }

  put(key: string, bytes: Buffer): void {
    this.#put(key, { bytes, meta: '', etag: `"${md5(bytes)}"` });
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://store');
    const [, bucket = '', ...path] = url.pathname.split('/');
    const key = decodeURIComponent(path.join('/'));
    const call = { operation: operationOf(request.method, key, url), key, query: url.searchParams };
    this.calls.push(call);
    const fault = this.fault(call);
    const body = await buffer(request).catch(() => null);
    if (body === null || fault === 'hang') return;
    if (fault === 'cut') return void request.socket.destroy();
    const made = this.#respond({ request, body, bucket, call, fault });
    if (fault === 'cut-after') return void request.socket.destroy();
    reply(response, made, { isHead: request.method === 'HEAD', nowMs: this.#now(), fault });
  }

  #now(): number {
    return Date.now() + this.clockMs;
  }

  #respond(given: Given): S3Response {
    const { request, body, bucket, call, fault } = given;
    try {
      verifySignature(request, body, this.#now());
      if (bucket !== BUCKET) throw new Refused(404, 'NoSuchBucket');
      if (fault === 'late-error') return { status: 200, body: errorXml('InternalError') };
      if (typeof fault === 'object' && fault !== null) {
        return { status: fault.status, body: fault.body ?? errorXml(fault.code) };
      }
      if (fault === 'lie') return { status: 200, headers: { etag: `"${md5(body)}"` } };
      return this.#operate(call, request, { body, isShort: fault === 'short' });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { status: error.status, body: errorXml(error.code) };
    }
  }

  #operate(
    { operation, key, query }: S3Call,
    request: IncomingMessage,
    { body, isShort }: { body: Buffer; isShort: boolean },
  ): S3Response {
    switch (operation) {
      case 'ListObjectsV2':
        return this.#list(query);
      case 'ListMultipartUploads':
        return { status: 200, body: this.#listUploads(query.get('prefix') ?? '') };
      case 'GetObject':
      case 'HeadObject':
        return this.#get(key, request);
      case 'PutObject':
        return this.#put(key, { bytes: body, meta: '', etag: `"${md5(body)}"` });
      case 'DeleteObject':
        this.#stored.delete(key);
        return { status: 204 };
      case 'CreateMultipartUpload':
        return this.#begin(key, request);
      case 'UploadPart':
        return this.#part(query, body);
      case 'CompleteMultipartUpload':
        return this.#complete(key, { query, request, list: body.toString(), isShort });
      case 'AbortMultipartUpload':
        this.#upload(query);
        this.uploads.delete(query.get('uploadId')!);
        return { status: 204 };
      default:
        throw new Refused(405, 'MethodNotAllowed');
    }
  }

  #list(query: URLSearchParams): S3Response {
    const prefix = query.get('prefix') ?? '';
    const after = query.get('continuation-token') ?? '';
    const keys = [...this.#stored.keys()].filter((key) => key.startsWith(prefix) && key > after);
    const size = Math.min(this.#pageSize, Number(query.get('max-keys') ?? 1_000));
    const page = keys.toSorted().slice(0, size);
    const isTruncated = keys.length > page.length;
    const contents = page.map(
      (key) =>
        `<Contents><Key>${key.replaceAll("'", '&apos;')}</Key><Size>${this.#stored.get(key)!.bytes.length}</Size></Contents>`,
    );
    const next = isTruncated ? `<NextContinuationToken>${page.at(-1)}</NextContinuationToken>` : '';
    return {
      status: 200,
      body: `<?xml version="1.0"?>\n<ListBucketResult><Name>${BUCKET}</Name>${next}<IsTruncated>${isTruncated}</IsTruncated>${contents.join('')}</ListBucketResult>`,
    };
  }

  #listUploads(prefix: string): string {
    const found = [...this.uploads].filter(([, { key }]) => key.startsWith(prefix));
    const uploads = found.map(
      ([id, { key, startedMs }]) =>
        `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${new Date(startedMs).toISOString()}</Initiated></Upload>`,
    );
    return `<ListMultipartUploadsResult>${uploads.join('')}</ListMultipartUploadsResult>`;
  }

  #get(key: string, { headers }: IncomingMessage): S3Response {
    const stored = this.#stored.get(key);
    if (stored === undefined) throw new Refused(404, 'NoSuchKey');
    const { bytes, etag, meta } = stored;
    if (headers['if-match'] !== undefined && headers['if-match'] !== etag) {
      throw new Refused(412, 'PreconditionFailed');
    }
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
    const plain = { etag, ...(meta !== '' && { [META]: meta }) };
    if (from === undefined) return { status: 200, headers: plain, body: bytes };
    if (Number(from) >= bytes.length) throw new Refused(416, 'InvalidRange');
    const last = Math.min(Number(to), bytes.length - 1);
    const range = { 'content-range': `bytes ${from}-${last}/${bytes.length}` };
    const body = bytes.subarray(Number(from), last + 1);
    return { status: 206, headers: { ...plain, ...range }, body };
  }

  #put(key: string, stored: Stored): S3Response {
    this.#stored.set(key, stored);
    return { status: 200, headers: { etag: stored.etag } };
  }

  #begin(key: string, { headers }: IncomingMessage): S3Response {
    const id = `upload-${(this.#uploads += 1)}`;
    const meta = String(headers[META] ?? '');
    this.uploads.set(id, { key, startedMs: this.#now(), meta, parts: new Map() });
    return {
      status: 200,
      body: `<InitiateMultipartUploadResult><Key>${key}</Key><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
    };
  }

  #upload(query: URLSearchParams): Upload {
    const upload = this.uploads.get(query.get('uploadId') ?? '');
    if (upload === undefined) throw new Refused(404, 'NoSuchUpload');
    return upload;
  }

  #part(query: URLSearchParams, body: Buffer): S3Response {
    this.#upload(query).parts.set(Number(query.get('partNumber')), body);
    return { status: 200, headers: { etag: `"${md5(body)}"` } };
  }

  #complete(key: string, { query, request, list, isShort }: Completion): S3Response {
    const upload = this.#upload(query);
    if (request.headers['if-none-match'] === '*' && this.#stored.has(key)) {
      throw new Refused(412, 'PreconditionFailed');
    }
    const named = [...list.matchAll(/<PartNumber>(\d+)<\/PartNumber><ETag>(.*?)<\/ETag>/g)];
    const parts = named.map(([, number, etag]) => {
      const part = upload.parts.get(Number(number));
      if (part === undefined || etag?.replaceAll('&quot;', '"') !== `"${md5(part)}"`) {
        throw new Refused(400, 'InvalidPart');
      }
      return part;
    });
    if (parts.slice(0, -1).some(({ length }) => length < this.#partBytesMin)) {
      throw new Refused(400, 'EntityTooSmall');
    }
    if (parts.length === 0) throw new Refused(400, 'MalformedXML');
    this.uploads.delete(query.get('uploadId')!);
    const bytes = Buffer.concat(isShort ? parts.slice(0, 1) : parts);
    this.#put(key, { bytes, meta: upload.meta, etag: `"${md5(bytes)}-${parts.length}"` });
    return {
      status: 200,
      body: `<CompleteMultipartUploadResult><Key>${key}</Key></CompleteMultipartUploadResult>`,
    };
  }
}

type Completion = {
  query: URLSearchParams;
  request: IncomingMessage;
  list: string;
  isShort: boolean;
};

type Given = {
  request: IncomingMessage;
  body: Buffer;
  bucket: string;
  call: S3Call;
  fault: S3Fault | null;
};

function operationOf(method: string | undefined, key: string, { searchParams }: URL): string {
  const has = (name: string): boolean => searchParams.has(name);
  if (key === '') return has('uploads') ? 'ListMultipartUploads' : 'ListObjectsV2';
  if (method === 'POST')
    return has('uploads') ? 'CreateMultipartUpload' : 'CompleteMultipartUpload';
  if (method === 'PUT') return has('uploadId') ? 'UploadPart' : 'PutObject';
  if (method === 'DELETE') return has('uploadId') ? 'AbortMultipartUpload' : 'DeleteObject';
  return method === 'HEAD' ? 'HeadObject' : 'GetObject';
}

function reply(
  response: ServerResponse,
  { status, headers = {}, body = '' }: S3Response,
  { isHead, nowMs, fault }: { isHead: boolean; nowMs: number; fault: S3Fault | null },
): void {
  const bytes = Buffer.from(body);
  const date = new Date(nowMs).toUTCString();
  response.writeHead(status, { ...headers, date, 'content-length': bytes.length });
  if (fault === 'half') {
    response.write(bytes.subarray(0, bytes.length / 2), () => response.destroy());
    return;
  }
  response.end(isHead ? undefined : bytes);
}

function errorXml(code: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>No.</Message></Error>`;
}

type Signed = Pick<IncomingMessage, 'method' | 'url' | 'headers'>;

function verifySignature(request: Signed, body: Buffer, nowMs: number): void {
  const { headers } = request;
  const [, keyId, date = '', region = '', names = '', signature = ''] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([\w-]+)\/s3\/aws4_request, ?SignedHeaders=([\w;-]+), ?Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? '',
    ) ?? [];
  if (signature === '') throw new Refused(403, 'AccessDenied');
  if (keyId !== ACCESS.accessKeyId) throw new Refused(403, 'InvalidAccessKeyId');
  if (region !== ACCESS.region) throw new Refused(400, 'AuthorizationHeaderMalformed');
  const atMs = timeOf(String(headers['x-amz-date']));
  if (!(Math.abs(nowMs - atMs) <= SKEW_MS)) throw new Refused(403, 'RequestTimeTooSkewed');
  const signed = names.split(';');
  const mustBe = Object.keys(headers).filter(
    (name) => name.startsWith('x-amz-') || name === 'host',
  );
  if (mustBe.some((name) => !signed.includes(name))) throw new Refused(403, 'AccessDenied');
  const expected = signatureOf(request, { secret: ACCESS.secretAccessKey, date, region, signed });
  if (!timingSafeEqual(Buffer.from(expected), Buffer.from(signature))) {
    throw new Refused(403, 'SignatureDoesNotMatch');
  }
  if (sha256(body) !== headers['x-amz-content-sha256']) {
    throw new Refused(400, 'XAmzContentSHA256Mismatch');
  }
}

/** "Signature calculations for the Authorization header: transferring payload in a single chunk" in the guide. */
export function signatureOf(
  { method, url = '/', headers }: Signed,
  {
    secret,
    date,
    region,
    signed,
    service = 's3',
    bodyHash = String(headers['x-amz-content-sha256']),
  }: {
    secret: string;
    date: string;
    region: string;
    signed: string[];
    service?: string;
    bodyHash?: string;
  },
): string {
  const { pathname, searchParams } = new URL(url, 'http://store');
  const query = [...searchParams].map((pair) => pair.map(encode).join('=')).toSorted();
  const canonical = [
    method,
    pathname
      .split('/')
      .map((part) => encode(decodeURIComponent(part)))
      .join('/'),
    query.join('&'),
    ...signed.map(
      (name) =>
        `${name}:${String(headers[name] ?? '')
          .trim()
          .replaceAll(/ +/g, ' ')}`,
    ),
    '',
    signed.join(';'),
    bodyHash,
  ].join('\n');
  const scope = `${date}/${region}/${service}/aws4_request`;
  const text = ['AWS4-HMAC-SHA256', headers['x-amz-date'], scope, sha256(canonical)].join('\n');
  const scopes = [date, region, service, 'aws4_request'];
  const key = scopes.reduce<string | Buffer>(hmac, `AWS4${secret}`);
  return hmac(key, text).toString('hex');
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest();
}

function encode(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function sha256(content: Buffer | string): string {
  return createHash('sha256').update(content).digest('hex');
}

function md5(content: Buffer): string {
  return createHash('md5').update(content).digest('hex');
}

/** Parses `20261125T090000Z`. */
function timeOf(text: string): number {
  return Date.parse(
    text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'),
  );
}
