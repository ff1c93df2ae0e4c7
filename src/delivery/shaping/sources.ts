/**
 * Which of our addresses a message leaves from. Receivers identify senders by address and name, for
 * greylisting and reputation. So a sending domain keeps one address per receiver, at retries too, and
 * different domains are spread over all addresses.
 *
 * Rendezvous hashing: every address has a rank for each pair of sending domain and receiver, and the
 * highest one is used. When an address is added or removed, only the pairs for which it ranks first change their address.
 */
import { hash } from 'node:crypto';
import { isIPv6 } from 'node:net';

/** An address of this machine and the name for EHLO from it, which is that of its PTR record. */
export type Source = { ip: string; heloName: string };

/**
 * Our addresses of the receiver's family, in the order of use; `''`: the system's choice.
 * @param receiver.address of the server
 */
export function sourcesFor(
  sources: readonly Source[],
  receiver: { provider: string; address: string; envelopeFrom: string },
): readonly string[] {
  const { provider, address, envelopeFrom } = receiver;
  const family = address.includes(':');
  const own = sources.map(({ ip }) => ip).filter((ip) => isIPv6(ip) === family);
  if (own.length === 0) return [''];
  return inRankOrder(own, { sender: senderOf(envelopeFrom), receiver: provider });
}

/** The sending domain, as the return path has it. */
function senderOf(envelopeFrom: string): string {
  return envelopeFrom.slice(envelopeFrom.lastIndexOf('@') + 1);
}

/**
 * The addresses in the order of use. All of the receiver's address family.
 * @param pair the sending domain and the receiver
 */
export function inRankOrder(
  sources: readonly string[],
  pair: { sender: string; receiver: string },
): readonly string[] {
  if (sources.length < 2) return sources;
  const ranked = sources.map((ip) => {
    const rank = hash('sha1', `${pair.sender}\0${pair.receiver}\0${ip}`);
    return { ip, rank };
  });
  return ranked.toSorted((one, other) => (one.rank < other.rank ? 1 : -1)).map(({ ip }) => ip);
}
