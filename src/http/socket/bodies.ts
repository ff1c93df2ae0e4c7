/**
 * Reads request bodies in one of two ways:
 *
 * - As a whole, within a memory budget. A body counts from the arrival of its bytes until its response is sent;
 *   announced bytes do not count before they arrive. A request beyond the budget is refused, so a slow database does
 *   not exhaust memory. Requests with a valid key share one budget, routes without a key a smaller one. Each project
 *   or client gets a part of it. The operator of this machine has a separate budget. The body of a GET or HEAD is
 *   dropped unread.
 * - As an upload of any length, in pieces: for example a file with a million rows over a slow line. Node limits the
 *   duration of a request. For uploads only the time between pieces is limited.
 */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import {
  errorCodes,
  type FastifyReply,
  type FastifyRequest,
  type onRequestHookHandler,
} from 'fastify';
import { Pieces } from '../../lib/pieces.ts';
import { Overloaded } from '../../core/refusals.ts';
import type { World } from '../../lib/world.ts';
import { clientOf } from '../../net/ip-addresses.ts';
import { isFromLocalOperator } from './local-operator.ts';
import { MIB } from '../../lib/units.ts';

/** Space for two bodies of maximum size, one of them per project. Parsing a body takes up to four times its size. */
const KEYED = { totalBytes: 96 * MIB, ownerBytes: 48 * MIB };
/** Space for one body of maximum size, from a command on this machine. */
const OPERATOR = { totalBytes: 48 * MIB, ownerBytes: 48 * MIB };
/** Space for bodies of at most 16 KB each. */
const PUBLIC = { totalBytes: 2 * MIB, ownerBytes: MIB / 4 };

export class BodyBudget {
  readonly #totalBytes: number;
  readonly #ownerBytes: number;
  readonly #usedBy = new Map<string, number>();
  #usedBytes = 0;

  constructor({ totalBytes, ownerBytes }: { totalBytes: number; ownerBytes: number }) {
    this.#totalBytes = totalBytes;
    this.#ownerBytes = ownerBytes;
  }

  freeBytes(owner: string): number {
    const ownBytes = this.#ownerBytes - (this.#usedBy.get(owner) ?? 0);
    return Math.min(ownBytes, this.#totalBytes - this.#usedBytes);
  }

  take(owner: string, bytes: number): void {
    this.#change(owner, bytes);
  }

  release(owner: string, bytes: number): void {
    this.#change(owner, -bytes);
  }

  #change(owner: string, bytes: number): void {
    this.#usedBytes += bytes;
    const used = (this.#usedBy.get(owner) ?? 0) + bytes;
    if (used === 0) this.#usedBy.delete(owner);
    else this.#usedBy.set(owner, used);
  }
}

const DISCONNECTED = new Overloaded('the client has disconnected');

/** The bytes that one request takes from a budget, until its response is sent or the client disconnects. */
export class BodyAccount {
  readonly #budget: BodyBudget;
  readonly #owner: string;
  #takenBytes = 0;
  #isClosed = false;
  #closing: AbortController | null = null;

  constructor(budget: BodyBudget, owner: string, reply: Pick<FastifyReply, 'raw'>) {
    this.#budget = budget;
    this.#owner = owner;
    reply.raw.once('close', () => {
      this.#isClosed = true;
      budget.release(owner, this.#takenBytes);
      this.#closing?.abort(DISCONNECTED);
    });
  }

  /** Aborted when the account is closed, for work that would use memory without being counted. */
  closedSignal(): AbortSignal {
    if (this.#isClosed) return AbortSignal.abort(DISCONNECTED);
    this.#closing ??= new AbortController();
    return this.#closing.signal;
  }

  take(bytes: number): boolean {
    if (this.#isClosed || bytes > this.#budget.freeBytes(this.#owner)) return false;
    this.#takenBytes += bytes;
    this.#budget.take(this.#owner, bytes);
    return true;
  }
}

/** Returns the hook that opens the account of a body, after the key was checked and before the body is read. */
export function createBodyAccounting(): onRequestHookHandler {
  const keyBudget = new BodyBudget(KEYED);
  const publicBudget = new BodyBudget(PUBLIC);
  const operatorBudget = new BodyBudget(OPERATOR);
  return (request, reply, done) => {
    const { headers, method, caller } = request;
    if (method === 'GET' || method === 'HEAD') return done();
    const announcedBytes = Number(headers['content-length'] ?? 0);
    if (announcedBytes === 0 && headers['transfer-encoding'] === undefined) return done();
    const sharedBudget = caller === null ? publicBudget : keyBudget;
    const budget = isFromLocalOperator(request) ? operatorBudget : sharedBudget;
    const owner = caller === null ? clientOf(request.ip) : caller.projectId;
    // A body whose announced length exceeds the budget is not read.
    if (announcedBytes > budget.freeBytes(owner)) return done(tooManyLargeBodies());
    request.bodyAccount = new BodyAccount(budget, owner, reply);
    done();
  };
}

type Done = (error: Error | null, body?: unknown) => void;
type ParseBytes = (request: FastifyRequest, bytes: Buffer, done: Done) => void;

export function wholeBodyParser(
  parse: ParseBytes,
): (request: FastifyRequest, payload: Readable, done: Done) => void {
  return (request, payload, done) => {
    const { bodyAccount: account } = request;
    const limitBytes = request.routeOptions.bodyLimit;
    const pieces = new Pieces();
    const stop = (error: Error): void => {
      payload.off('data', onData).off('end', onEnd).off('error', stop);
      // Closing the connection now could discard the response, so the rest is read and dropped.
      payload.on('error', () => {}).resume();
      done(error);
    };
    const onData = (piece: Buffer): void => {
      const isTooLarge = pieces.bytes + piece.length > limitBytes;
      if (isTooLarge) return stop(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
      if (account?.take(piece.length) !== true) return stop(tooManyLargeBodies());
      pieces.add(piece);
      if (!pieces.areTooTiny) return;
      stop(new TinyPieces());
      drainBody(payload, TINY_LINGER_MS);
    };
    const onEnd = (): void => {
      payload.off('error', stop);
      // Takes the pieces, because these listeners would keep them in memory as long as the request.
      parse(request, pieces.take(), done);
    };
    if (Number(request.headers['content-length']) > limitBytes) {
      return stop(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
    }
    payload.on('data', onData).once('end', onEnd).once('error', stop);
  };
}

class TinyPieces extends Error {
  readonly code = 'ERR_TINY_PIECES';
}

/** Milliseconds for which the rest of such a body is read. Reading it is the work that is refused. */
const TINY_LINGER_MS = 1_000;

function tooManyLargeBodies(): Overloaded {
  return new Overloaded('too many large requests are in progress');
}

const UPLOADS = new WeakSet<IncomingMessage>();

/** Returns whether a request is exempt from the time limit for whole requests (raw-responses.ts). */
export function isUpload(request: IncomingMessage): boolean {
  return UPLOADS.has(request);
}

/** Minimum average rate after the first `silenceMs`, in the time spent waiting for the sender. */
const BYTES_PER_S_MIN = 1_000;

/** The sender paused for too long within the body, or sends below the minimum rate. */
export class UploadStalled extends Error {
  override readonly name = 'UploadStalled';
}

type UploadOptions = { body: Readable; silenceMs: number; world: Pick<World, 'monotonicMs'> };

/**
 * Yields the pieces of a body as they arrive. Only the time spent waiting for the sender is limited. Reading pauses
 * while the caller processes a piece.
 * @throws UploadStalled; ECONNRESET when the sender has disconnected
 */
export async function* readUpload(
  request: IncomingMessage,
  { body, silenceMs, world }: UploadOptions,
): AsyncGenerator<Buffer> {
  UPLOADS.add(request);
  let bytes = 0;
  let waitedMs = 0;
  // Destroying the body would destroy the connection and with it the response.
  const pieces = body.iterator({ destroyOnReturn: false }) as AsyncIterator<Buffer>;
  for (;;) {
    const fromMs = world.monotonicMs();
    const next = await withinSilence(pieces.next(), silenceMs);
    if (next.done === true) return;
    waitedMs += world.monotonicMs() - fromMs;
    bytes += next.value.length;
    const allowedMs = silenceMs + (bytes * 1_000) / BYTES_PER_S_MIN;
    if (waitedMs > allowedMs) throw new UploadStalled('the body arrived too slowly');
    yield next.value;
  }
}

async function withinSilence<Value>(nextPiece: Promise<Value>, silenceMs: number): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new UploadStalled('the body did not arrive completely')),
      silenceMs,
    );
  });
  try {
    return await Promise.race([nextPiece, silence]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Reads and drops the rest of a body whose response was already sent: closing a connection with unread bytes sends
 * a reset, which can discard the response. Closes the connection after `lingerMs`.
 */
export function drainBody(body: Readable, lingerMs: number): void {
  const closeTimer = setTimeout(() => body.destroy(), lingerMs).unref();
  body.on('error', () => {});
  body.once('close', () => clearTimeout(closeTimer)).resume();
}
