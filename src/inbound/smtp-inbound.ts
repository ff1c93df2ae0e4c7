/**
 * SMTP for received mail: decides at RCPT which addresses are accepted, and replies to messages.
 *
 * A 250 to a message means that it is processed and on disk. If the result is uncertain the reply is a 451, so that
 * the sending server keeps the message and retries. Nothing is relayed or answered by mail.
 */
import type { Logger } from 'pino';
import { Overloaded } from '../core/refusals.ts';
import type { World } from '../lib/world.ts';
import type { Addressee, AddressBook } from './addressees.ts';
import { addresseeOf, isOwnAddress } from './addressees.ts';
import type { Receive, Received } from './receive-message.ts';
import { plainAddress } from '../net/ip-addresses.ts';
import type {
  ServerReply,
  SmtpHandlers,
  SmtpServerLimits,
} from '../net/smtp/server/server-types.ts';
import { serverReply } from '../net/smtp/server/server-types.ts';
import { DatabaseUnavailable } from '../database/database.ts';

/** Limits of each worker. The largest providers send reports from few addresses, over many connections. */
export const INBOUND_LIMITS: Partial<SmtpServerLimits> = {
  connections: 500,
  anonymousConnections: 500,
  messagesPerClientAndMinute: 30_000,
  errorsPerSession: 10,
  commandTimeoutMs: 60_000,
  dataTimeoutMs: 60_000,
  sessionTimeoutMs: 600_000,
};

const ACCEPTED = serverReply(250, '2.6.0', 'Message accepted');
const UNAVAILABLE = serverReply(451, '4.3.0', 'The database is unavailable; try again later');
const TOO_MANY = serverReply(
  451,
  '4.7.1',
  'Too many messages without a valid report; try again later',
);
const FULL = serverReply(452, '4.3.1', 'Insufficient storage; try again later');
const TOO_EARLY = serverReply(451, '4.2.1', 'That email is still being delivered; try again later');
const LOOPING = serverReply(554, '5.4.6', 'Mail loop detected');
const OWN_SENDER = serverReply(550, '5.4.6', 'The sender is a return path of this service');

const REPLIES = {
  stored: ACCEPTED,
  looping: LOOPING,
  no_space: FULL,
  too_early: TOO_EARLY,
  too_many: TOO_MANY,
} as const satisfies Record<Received, ServerReply>;

const REFUSALS = {
  forged: serverReply(550, '5.7.1', 'The return path has no valid signature'),
  expired: serverReply(550, '5.7.1', 'The return path has expired'),
  unknown: serverReply(550, '5.1.1', 'Unknown address; this server does not relay'),
} as const;

export function createInboundHandlers(options: {
  book: AddressBook;
  receive: Receive;
  log: Logger;
  world: Pick<World, 'monotonicMs'>;
}): SmtpHandlers<null> {
  const { book, receive, log, world } = options;
  /** Maps each session to the addressees of its current transaction. */
  const addresseesOf = new WeakMap<object, Map<string, Addressee>>();
  return {
    onMail(session, { from }) {
      addresseesOf.set(session, new Map());
      return isOwnAddress(from, book.secrets()) ? OWN_SENDER : null;
    },
    onRcpt: (session, address) =>
      orTemporaryReply(async () => {
        const addressee = await addresseeOf(address, book);
        const { kind } = addressee;
        if (kind === 'forged' || kind === 'expired' || kind === 'unknown') return REFUSALS[kind];
        addresseesOf.get(session)?.set(address, addressee);
        return null;
      }),
    onMessage: async (session, { from, recipients }, { content, sizeBytes }) => {
      const startedMs = world.monotonicMs();
      const addressees = addresseesOf.get(session);
      const reply = await orTemporaryReply(async () => {
        const received = await receive({
          content,
          sizeBytes,
          remoteAddress: session.remoteAddress,
          client: session.client,
          sender: from,
          recipients: recipients.map((address) => ({
            address,
            addressee: addressees?.get(address) ?? { kind: 'unknown' },
          })),
        });
        return REPLIES[received];
      });
      const { code, enhanced } = reply ?? ACCEPTED;
      log.info(
        {
          session_id: session.id,
          client: plainAddress(session.remoteAddress),
          code,
          enhanced_code: enhanced ?? undefined,
          email_ids: emailIdsOf(addressees),
          duration_ms: Math.round((world.monotonicMs() - startedMs) * 10) / 10,
        },
        'inbound',
      );
      return reply ?? ACCEPTED;
    },
  };
}

function emailIdsOf(addressees: ReadonlyMap<string, Addressee> | undefined): string[] {
  const ids = [...(addressees?.values() ?? [])].flatMap((addressee) =>
    'recipient' in addressee ? [addressee.recipient.email.id] : [],
  );
  return [...new Set(ids)];
}

async function orTemporaryReply(
  work: () => Promise<ServerReply | null>,
): Promise<ServerReply | null> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DatabaseUnavailable) return UNAVAILABLE;
    if (error instanceof Overloaded) return FULL;
    throw error;
  }
}
