/**
 * Bodies that may take as long as they move: a file with a million rows over a slow line. Node bounds
 * the time of every request as a whole; for these, silence is bounded instead. They are read
 * piece by piece, and never held.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type { World } from '../core/world.ts';

const moving = new WeakSet<IncomingMessage>();

/** Whether raw-answers.ts leaves a request alone whose time is up. */
export function isUpload(request: IncomingMessage): boolean {
  return moving.has(request);
}

/** Over all the time in which the sender was waited for; the first silence is free. */
const BYTES_PER_S_MIN = 1_000;

/** The sender fell silent in the middle of the body, or sends next to nothing. */
export class UploadStalled extends Error {
  override readonly name = 'UploadStalled';
}

type UploadOptions = { body: Readable; silenceMs: number; world: Pick<World, 'monotonicMs'> };

/**
 * The pieces of a body as they come. Only waiting for the sender is bounded: as long as a piece is being
 * worked on, the sender is held back.
 * @throws UploadStalled; ECONNRESET when the sender is gone
 */
export async function* piecesOf(
  request: IncomingMessage,
  { body, silenceMs, world }: UploadOptions,
): AsyncGenerator<Buffer> {
  moving.add(request);
  let bytes = 0;
  let waitedMs = 0;
  // Destroying the body would destroy the connection, and the answer with it.
  const pieces = body.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  for (;;) {
    const fromMs = world.monotonicMs();
    const next = await inTime(pieces.next(), silenceMs);
    if (next.done === true) return;
    waitedMs += world.monotonicMs() - fromMs;
    bytes += next.value.length;
    const allowedMs = silenceMs + (bytes * 1_000) / BYTES_PER_S_MIN;
    if (waitedMs > allowedMs) throw new UploadStalled('too little of the body came');
    yield next.value;
  }
}

async function inTime<Value>(wanted: Promise<Value>, silenceMs: number): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new UploadStalled('no more of the body came')), silenceMs);
  });
  try {
    return await Promise.race([wanted, silence]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Reads and drops the rest of a body whose request is answered already: closing over it would cost
 * the sender the answer. Who sends on for too long is cut off.
 */
export function dropRest(body: Readable, lingerMs: number): void {
  const cut = setTimeout(() => body.destroy(), lingerMs).unref();
  body.on('error', () => {});
  body.once('close', () => clearTimeout(cut)).resume();
}
