/**
 * How recipients appear in the log (LETTERHAUS_LOG_RECIPIENTS). Every line that is about a recipient takes its fields
 * from here.
 *
 * Guarantee: without `full`, no local part of an address and no reply to a message is logged. A server may repeat the
 * address in it, or a part of the message.
 */
import { type Address, domainOf } from './address.ts';

/** `domain`: the part after the `@`. `full`: the address, and the reply of its mail server. */
export const LOG_RECIPIENTS = ['none', 'domain', 'full'] as const;
export type LogRecipients = (typeof LOG_RECIPIENTS)[number];

/** Replies may have 64 KB. */
const REPLY_LENGTH_MAX = 500;

/** For replies that are about a server and not about a message: addresses in them become `…`. */
export function withoutAddresses(reply: string): string {
  return reply.slice(0, REPLY_LENGTH_MAX).replaceAll(/\S+@\S*/g, '…');
}

export type LoggedRecipient = { recipient_domain?: string; recipient?: string; reply?: string };

/** @param reply what its mail server answered, or why there was no answer; null: it was not asked */
export function loggedRecipient(
  how: LogRecipients,
  { address, reply }: { address: Address; reply: string | null },
): LoggedRecipient {
  if (how === 'none') return {};
  const domain = { recipient_domain: domainOf(address) };
  if (how === 'domain') return domain;
  return {
    ...domain,
    recipient: address,
    ...(reply !== null && { reply: reply.slice(0, REPLY_LENGTH_MAX) }),
  };
}
