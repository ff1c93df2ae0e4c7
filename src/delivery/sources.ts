/**
 * Which of our addresses a message leaves from. Receivers identify senders by address and name, for
 * greylisting and reputation. So a sending domain keeps one address per receiver, at retries too, and
 * different domains are spread over all addresses.
 *
 * Rendezvous hashing: every address has a rank for each pair of sending domain and receiver, and the
 * highest one is used. When an address is added or removed, only the pairs for which it ranks first change their address.
 */
import { hash } from 'node:crypto';

/** An address of this machine and the name for EHLO from it, which is that of its PTR record. */
export type Source = { ip: string; heloName: string };

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
