/**
 * Bodies that may take as long as they move: a file with a million rows over a slow line. Node bounds
 * the time of every request as a whole; for these, silence is bounded instead. They are read
 * piece by piece, and never held.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';

const moving = new WeakSet<IncomingMessage>();

/** Whether raw-answers.ts leaves a request alone whose time is up. */
export function isUpload(request: IncomingMessage): boolean {
  return moving.has(request);
}

/** The sender fell silent in the middle of the body. */
export class UploadStalled extends Error {
  override readonly name = 'UploadStalled';
}

/**
 * The pieces of a body as they come. Only waiting for the sender is bounded: as long as a piece is being
 * worked on, the sender is held back.
 * @throws UploadStalled; ECONNRESET when the sender is gone
 */
export async function* piecesOf(
  request: IncomingMessage,
  { body, silenceMs }: { body: Readable; silenceMs: number },
): AsyncGenerator<Buffer> {
  moving.add(request);
  // Destroying the body would destroy the connection, and the answer with it.
  const pieces = body.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  for (;;) {
    const next = await inTime(pieces.next(), silenceMs);
    if (next.done === true) return;
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
