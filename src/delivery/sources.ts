/**
 * Which of our addresses a message leaves from. Receivers know senders by address and name: one that
 * greylists, or counts, must meet the same pair again. So a sending domain keeps its address towards a
 * receiver, at retries too, and different domains are spread over all addresses.
 *
 * Rendezvous hashing: every address has a rank of its own for each pair of sending domain and
 * receiver, and the highest one carries the mail. Whether an address is added or removed, only those
 * pairs move for which it ranks, or ranked, first.
 */
import { hash } from 'node:crypto';

/** An address of this machine, and the name said in EHLO from it: that of its PTR record. */
export type Source = { ip: string; heloName: string };

/**
 * All that may be used, the one to be used first. Of one address family, as only that leads there.
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
