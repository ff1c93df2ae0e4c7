/**
 * Limits requests that load, compose and parse the content of an email. Each can take 45 MB and half a second of the
 * process. A worker runs one per project and two in total. Others wait, and beyond WAITING_MAX per project they are
 * refused. Large responses count until they are sent. Emails with little content are read at once.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import { Overloaded } from '../../core/refusals.ts';
import { Turns } from '../../lib/turns.ts';
import { type EmailDetail, type EmailRef, findEmail } from '../email-store.ts';
import type { Queryable } from '../../database/database.ts';
import { BodyAccount, BodyBudget } from '../../http/socket/bodies.ts';
import { JSON_TYPE } from '../../http/errors.ts';
import { MIB } from '../../lib/units.ts';

const WAITING_MAX = 20;
/** Limits on responses in memory: clients may read them slowly. */
const RESPONSE_LIMITS = { totalBytes: 192 * MIB, ownerBytes: 64 * MIB };
/** Smaller responses do not count. */
const COUNTED_BYTES_MIN = 256 * 1024;

const turns = new Turns({ count: 2, perOwner: 1 });
const budget = new BodyBudget(RESPONSE_LIMITS);

/**
 * Runs `work` in the owner's turn.
 * @param owner a project
 * @throws Overloaded when too many wait, or the client has disconnected
 */
export async function readInTurn<Result>(
  owner: string,
  reply: Pick<FastifyReply, 'raw'>,
  work: () => Promise<Result>,
): Promise<Result> {
  if (turns.tasksOf(owner) > WAITING_MAX) {
    throw new Overloaded('too many requests for the content of emails are waiting');
  }
  const gone = new AbortController();
  reply.raw.once('close', () => gone.abort(new Overloaded('the client has disconnected')));
  const inTurn = async () => {
    // Lets other requests run between two reads.
    await nextTurn();
    return work();
  };
  return turns.run(owner, inTurn, gone.signal);
}

/**
 * Counts a response until it is sent.
 * @throws Overloaded when the responses in progress leave too little memory for it
 */
export function reserveResponse(
  owner: string,
  reply: Pick<FastifyReply, 'raw'>,
  bytes: number,
): void {
  if (bytes < COUNTED_BYTES_MIN) return;
  // A single response always fits. JSON of some characters is six times as long.
  const counted = Math.min(bytes, RESPONSE_LIMITS.ownerBytes);
  if (new BodyAccount(budget, owner, reply).take(counted)) return;
  throw new Overloaded('too many large responses are being sent');
}

type ResponseBody = { type: string; text: string };

export function asJson(value: unknown): ResponseBody {
  return { type: JSON_TYPE, text: JSON.stringify(value) };
}

/**
 * Sends an email with its content: at once when it is short, else in turn.
 * @param show returns null when there is nothing to show
 * @returns whether it was sent: not when the email does not exist for the caller, or has nothing to show. It is not
 *   the reply, because awaiting a reply yields undefined.
 * @throws Overloaded
 */
export async function respondWithEmail(
  { db, owner, reply }: { db: Queryable; owner: string; reply: FastifyReply },
  ref: EmailRef,
  show: (email: EmailDetail) => Promise<ResponseBody | null> | ResponseBody | null,
): Promise<boolean> {
  const send = (shown: ResponseBody | null): boolean => {
    if (shown) void reply.header('content-type', shown.type).send(shown.text);
    return shown !== null;
  };
  const found = await findEmail(db, ref, COUNTED_BYTES_MIN);
  if (found === null) return false;
  if (found.contentBytes <= COUNTED_BYTES_MIN) return send(await show(found));
  return readInTurn(owner, reply, async () => {
    const whole = await findEmail(db, ref);
    const shown = whole && (await show(whole));
    if (shown) reserveResponse(owner, reply, Buffer.byteLength(shown.text));
    return send(shown);
  });
}

/**
 * Changes an email and returns it with its content, in turn unless the content is short. Reserves memory for the
 * response before the change.
 * @throws Overloaded
 */
export async function changeInTurn<Changed>(
  { db, owner, reply }: { db: Queryable; owner: string; reply: FastifyReply },
  ref: EmailRef,
  change: () => Promise<Changed>,
): Promise<Changed> {
  const known = await findEmail(db, ref, 0);
  if (known === null || known.contentBytes <= COUNTED_BYTES_MIN) return change();
  return readInTurn(owner, reply, () => {
    reserveResponse(owner, reply, known.contentBytes);
    return change();
  });
}
