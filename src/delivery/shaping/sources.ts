/**
 * Chooses the source address of a message. Mail servers identify senders by address and name, for greylisting and
 * reputation. So a sending domain keeps one address per provider, also for retries, and different domains are spread
 * over all addresses.
 *
 * Uses rendezvous hashing: every address has a rank for each pair of sending domain and provider, and the highest is
 * used. When an address is added or removed, only the pairs for which it ranks first change their address.
 */
import { hash } from 'node:crypto';
import { isIPv6 } from 'node:net';

/** An address of this machine, and its name for EHLO, which its PTR record must have. */
export type Source = { ip: string; heloName: string };

/** Returns the source addresses of the server's address family, in the order of use; `''` for the system's choice. */
export function sourcesFor(
  sources: readonly Source[],
  server: { provider: string; address: string; envelopeFrom: string },
): readonly string[] {
  const { provider, address, envelopeFrom } = server;
  const isServerIPv6 = address.includes(':');
  const candidates = sources.map(({ ip }) => ip).filter((ip) => isIPv6(ip) === isServerIPv6);
  if (candidates.length === 0) return [''];
  return rankSources(candidates, { sender: senderOf(envelopeFrom), provider });
}

function senderOf(envelopeFrom: string): string {
  return envelopeFrom.slice(envelopeFrom.lastIndexOf('@') + 1);
}

/**
 * Returns the addresses in the order of use.
 * @param pair sending domain and provider
 */
export function rankSources(
  sources: readonly string[],
  pair: { sender: string; provider: string },
): readonly string[] {
  if (sources.length < 2) return sources;
  const ranked = sources.map((ip) => {
    const rank = hash('sha1', `${pair.sender}\0${pair.provider}\0${ip}`);
    return { ip, rank };
  });
  return ranked.toSorted((one, other) => (one.rank < other.rank ? 1 : -1)).map(({ ip }) => ip);
}
