/**
 * How recipients appear in the log (LETTERHAUS_LOG_RECIPIENTS). Every line about a recipient gets its fields here.
 *
 * Guarantee: without `full`, no local part of an address and no reply to a message is logged. A reply may repeat the
 * address or a part of the message.
 */
import { type Address, domainOf } from './address.ts';

/** `domain`: the part after the `@`. `full`: the address, and the reply of its mail server. */
export const LOG_RECIPIENTS = ['none', 'domain', 'full'] as const;
export type LogRecipients = (typeof LOG_RECIPIENTS)[number];

/** Limit on a logged reply; a stored one may be longer. */
const REPLY_LENGTH_MAX = 500;

/** Returns a reply about a server, not about a message, with its addresses masked as `…`. */
export function withoutAddresses(reply: string): string {
  return reply.slice(0, REPLY_LENGTH_MAX).replaceAll(/\S+@\S*/g, '…');
}

export type LoggedRecipient = { recipient_domain?: string; recipient?: string; reply?: string };

/** @param reply the reply of the mail server, or why there was none; null when it was not asked */
export function loggedRecipient(
  mode: LogRecipients,
  { address, reply }: { address: Address; reply: string | null },
): LoggedRecipient {
  if (mode === 'none') return {};
  const domain = { recipient_domain: domainOf(address) };
  if (mode === 'domain') return domain;
  return {
    ...domain,
    recipient: address,
    ...(reply !== null && { reply: reply.slice(0, REPLY_LENGTH_MAX) }),
  };
}
