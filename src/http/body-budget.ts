/**
 * How much of request bodies may be in memory at once. A body counts from its announcement until the
 * answer has left, whatever becomes of it in between: read, parsed, waiting to be stored. Beyond the
 * budget a request is turned away before its body is read: a slow database must cost answers, not
 * the process.
 */
import { Transform } from 'node:stream';
import type { FastifyReply, onRequestHookHandler, preParsingHookHandler } from 'fastify';
import { Overloaded } from '../core/overloaded.ts';

/** Two of the largest bodies; memory holds a body up to four times while it is parsed. */
const BUDGET_BYTES = 96 * 1024 * 1024;

export class BodyBudget {
  #usedBytes = 0;

  /** Takes room for a body whose length was announced. */
  readonly announced: onRequestHookHandler = (request, reply, done) => {
    const bytes = Number(request.headers['content-length'] ?? 0);
    done(bytes === 0 || this.#account(reply)(bytes) ? undefined : tooMuch());
  };

  /** Takes room for a body in chunks as it comes. */
  readonly chunked: preParsingHookHandler = (request, reply, payload, done) => {
    if (request.headers['transfer-encoding'] === undefined) return done(null, payload);
    const take = this.#account(reply);
    const counted = new Transform({
      transform: (chunk: Buffer, _encoding, next) =>
        take(chunk.length) ? next(null, chunk) : next(tooMuch()),
    });
    payload.on('error', (error) => counted.destroy(error));
    // The rest is read and dropped, so that the client gets to read its answer.
    counted.on('error', () => payload.unpipe().resume());
    done(null, payload.pipe(counted));
  };

  /** Takes bytes for one request, if there is room, until its answer has left or its client has. */
  #account(reply: FastifyReply): (bytes: number) => boolean {
    let takenBytes = 0;
    reply.raw.once('close', () => (this.#usedBytes -= takenBytes));
    return (bytes) => {
      if (reply.raw.closed || this.#usedBytes + bytes > BUDGET_BYTES) return false;
      takenBytes += bytes;
      this.#usedBytes += bytes;
      return true;
    };
  }
}

function tooMuch(): Overloaded {
  return new Overloaded('too many large requests came at once');
}
