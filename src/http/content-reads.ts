/**
 * Requests that load the content of an email, compose it and look into it: up to 45 MB, and half a second of the
 * process that everybody shares. A project has one of them in progress in a worker, and all projects together two;
 * the others wait in order, and a project's after WAITING_MAX are refused. Large answers count until they are sent.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Overloaded } from '../core/refusals.ts';
import { OwnTurns, Turns } from '../core/turns.ts';
import { callerOf } from './access.ts';
import { BodyAccount, BodyBudget } from './bodies.ts';

const MB = 1024 * 1024;
const WAITING_MAX = 20;
/** Answers that clients read slowly stay in memory. */
const ANSWERS = { totalBytes: 192 * MB, ownerBytes: 64 * MB };
/** Smaller answers do not count, and are never refused for their size. */
const COUNTED_BYTES_MIN = 256 * 1024;

const own = new OwnTurns(1);
const all = new Turns(2);
const budget = new BodyBudget(ANSWERS);

/**
 * @param work what it returns is the answer
 * @throws Overloaded when too many wait, or the client has gone
 */
export async function readInTurn<Result>(
  request: Pick<FastifyRequest, 'caller'>,
  reply: Pick<FastifyReply, 'raw'>,
  work: () => Promise<Result>,
): Promise<Result> {
  const { projectId } = callerOf(request);
  if (own.tasksOf(projectId) > WAITING_MAX) {
    throw new Overloaded('too many requests for the content of emails are waiting');
  }
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort(new Overloaded('the client has disconnected')));
  const inTurn = async () => {
    // Between two of them the process answers others.
    await nextTurn();
    return work();
  };
  return own.take(projectId, () => all.take(inTurn, gone.signal), gone.signal);
}

/**
 * Counts an answer until it is sent.
 * @throws Overloaded when those in progress leave no room for it
 */
export function countAnswer(
  request: Pick<FastifyRequest, 'caller'>,
  reply: Pick<FastifyReply, 'raw'>,
  bytes: number,
): void {
  if (bytes < COUNTED_BYTES_MIN) return;
  const { projectId } = callerOf(request);
  if (new BodyAccount(budget, projectId, reply).take(bytes)) return;
  throw new Overloaded('too many large answers are being sent');
}
