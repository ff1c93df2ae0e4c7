/**
 * Request bodies: read whole, and how much of them may be in memory at once. A body counts from its
 * bytes' arrival until the answer has left, whatever becomes of it in between: read, parsed, waiting
 * to be stored. What is announced and not sent takes nothing. Beyond the budget a request is turned
 * away: a slow database must cost answers, not the process.
 *
 * Who has shown a valid key draws on one budget, routes without a key on a small one of their own,
 * and neither a project nor a client gets all of it. A GET or HEAD has no body: what comes with one
 * is dropped unread.
 */
import type { Readable } from 'node:stream';
import {
  errorCodes,
  type FastifyReply,
  type FastifyRequest,
  type onRequestHookHandler,
} from 'fastify';
import { Overloaded } from '../core/overloaded.ts';
import { clientOf } from '../net/addresses.ts';

const MB = 1024 * 1024;

/** Two of the largest bodies, one of them by one project; memory holds a body up to four times while it is parsed. */
const KEYED = { totalBytes: 96 * MB, ownerBytes: 48 * MB };
/** Of at most 16 KB each. */
const PUBLIC = { totalBytes: 2 * MB, ownerBytes: MB / 4 };

class BodyBudget {
  readonly #totalBytes: number;
  readonly #ownerBytes: number;
  readonly #usedBy = new Map<string, number>();
  #usedBytes = 0;

  constructor({ totalBytes, ownerBytes }: { totalBytes: number; ownerBytes: number }) {
    this.#totalBytes = totalBytes;
    this.#ownerBytes = ownerBytes;
  }

  room(owner: string): number {
    const ownRoom = this.#ownerBytes - (this.#usedBy.get(owner) ?? 0);
    return Math.min(ownRoom, this.#totalBytes - this.#usedBytes);
  }

  /** @param bytes negative: gives back */
  take(owner: string, bytes: number): void {
    this.#usedBytes += bytes;
    const used = (this.#usedBy.get(owner) ?? 0) + bytes;
    if (used === 0) this.#usedBy.delete(owner);
    else this.#usedBy.set(owner, used);
  }
}

/** What the body of one request holds of a budget, until its answer has left or its client has. */
export class BodyAccount {
  readonly #budget: BodyBudget;
  readonly #owner: string;
  #takenBytes = 0;
  #isClosed = false;

  constructor(budget: BodyBudget, owner: string, reply: FastifyReply) {
    this.#budget = budget;
    this.#owner = owner;
    reply.raw.once('close', () => {
      this.#isClosed = true;
      budget.take(owner, -this.#takenBytes);
    });
  }

  take(bytes: number): boolean {
    if (this.#isClosed || bytes > this.#budget.room(this.#owner)) return false;
    this.#takenBytes += bytes;
    this.#budget.take(this.#owner, bytes);
    return true;
  }
}

/** The hook that opens the account of a body; after the key was checked, before the body is read. */
export function accountForBodies(): onRequestHookHandler {
  const keyed = new BodyBudget(KEYED);
  const open = new BodyBudget(PUBLIC);
  return (request, reply, done) => {
    const { headers, method, caller } = request;
    if (method === 'GET' || method === 'HEAD') return done();
    const announcedBytes = Number(headers['content-length'] ?? 0);
    if (announcedBytes === 0 && headers['transfer-encoding'] === undefined) return done();
    const budget = caller === null ? open : keyed;
    const owner = caller === null ? clientOf(request.ip) : caller.projectId;
    // Not read at all if it would be read in vain.
    if (announcedBytes > budget.room(owner)) return done(tooMuch());
    request.bodyAccount = new BodyAccount(budget, owner, reply);
    done();
  };
}

type Done = (error: Error | null, body?: unknown) => void;
type ParseBytes = (request: FastifyRequest, bytes: Buffer, done: Done) => void;

/** A parser for Fastify that gets the whole body, within its account and the limit of its route. */
export function wholeBody(
  parse: ParseBytes,
): (request: FastifyRequest, payload: Readable, done: Done) => void {
  return (request, payload, done) => {
    const { bodyAccount: account } = request;
    const limitBytes = request.routeOptions.bodyLimit;
    const chunks: Buffer[] = [];
    let readBytes = 0;
    const stop = (error: Error): void => {
      payload.off('data', onData).off('end', onEnd).off('error', stop);
      // The rest is read and dropped, so that the client gets to read its answer.
      payload.on('error', () => {}).resume();
      done(error);
    };
    const onData = (chunk: Buffer): void => {
      readBytes += chunk.length;
      if (readBytes > limitBytes) return stop(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
      if (account?.take(chunk.length) !== true) return stop(tooMuch());
      chunks.push(chunk);
    };
    const onEnd = (): void => {
      payload.off('error', stop);
      parse(request, Buffer.concat(chunks, readBytes), done);
    };
    if (Number(request.headers['content-length']) > limitBytes) {
      return stop(new errorCodes.FST_ERR_CTP_BODY_TOO_LARGE());
    }
    payload.on('data', onData).once('end', onEnd).once('error', stop);
  };
}

function tooMuch(): Overloaded {
  return new Overloaded('too many large requests came at once');
}
