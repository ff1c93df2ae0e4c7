/**
 * The files of the dashboard and of the handbook, which web/build.js made. They are read once and kept in memory, so a
 * request gets one of them or none, whatever its path contains.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { extname, join, relative, sep } from 'node:path';
import { promisify } from 'node:util';
import { gzip as gzipOf } from 'node:zlib';
import type { FastifyReply } from 'fastify';

export type BuiltFile = {
  type: string;
  /** A weak tag, because it is the same for every encoding. */
  etag: string;
  content: Buffer;
  /** By content coding, without encodings that are not smaller. */
  encoded: Partial<Record<Coding, Buffer>>;
};

type Coding = 'br' | 'gzip';
const CODINGS: Readonly<Record<string, Coding>> = { '.br': 'br', '.gz': 'gzip' };

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.woff2': 'font/woff2',
  '.json': 'application/json; charset=utf-8',
  '.md': 'text/plain; charset=utf-8',
  '.txt': 'text/plain; charset=utf-8',
};

/**
 * Reads the files, by their path with slashes. Returns null when they were not built.
 * @param except a folder below that is not read
 */
export async function readBuiltFiles(
  folder: string,
  except?: string,
): Promise<Map<string, BuiltFile> | null> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => except === undefined || !path.startsWith(join(folder, except, sep)));
  const files = new Map<string, BuiltFile>();
  for (const path of paths) {
    const type = TYPES[extname(path)];
    if (type === undefined) continue;
    const content = await readFile(path);
    const name = relative(folder, path).split(sep).join('/');
    files.set(name, { type, etag: tagOf(content), content, encoded: {} });
  }
  for (const path of paths) {
    const coding = CODINGS[extname(path)];
    const name = relative(folder, path).split(sep).join('/').slice(0, -3);
    const file = coding && files.get(name);
    if (file) file.encoded[coding] = await readFile(path);
  }
  return files.has('index.html') ? files : null;
}

/** A file that the service makes from others when it is asked for first. */
export async function compressedFile(type: string, content: Buffer): Promise<BuiltFile> {
  const gzip = await promisify(gzipOf)(content);
  return { type, etag: tagOf(content), content, encoded: { gzip } };
}

function tagOf(content: Buffer): string {
  return `W/"${createHash('sha256').update(content).digest('base64url').slice(0, 27)}"`;
}

/** Sends the smallest form that the client accepts, or 304 when it has the file. */
export function sendBuiltFile(reply: FastifyReply, file: BuiltFile): FastifyReply {
  const { headers } = reply.request;
  const { coding, content } = chooseEncoding(file, headers['accept-encoding']);
  reply.headers({
    'content-type': file.type,
    'x-content-type-options': 'nosniff',
    vary: 'Accept-Encoding',
    etag: file.etag,
    ...(coding !== null && { 'content-encoding': coding }),
  });
  const knownTags = headers['if-none-match']?.split(',').map((tag) => tag.trim()) ?? [];
  return knownTags.includes(file.etag) ? reply.code(304).send() : reply.send(content);
}

/** Returns the smallest form that the client accepts (RFC 9110 §12.5.3). */
function chooseEncoding(
  file: BuiltFile,
  accepted: string | undefined,
): { coding: Coding | null; content: Buffer } {
  for (const coding of ['br', 'gzip'] as const) {
    const content = file.encoded[coding];
    if (content && acceptsCoding(accepted ?? '', coding)) return { coding, content };
  }
  return { coding: null, content: file.content };
}

function acceptsCoding(header: string, coding: Coding): boolean {
  return header.split(',').some((item) => {
    const [name = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase());
    return name === coding && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}
