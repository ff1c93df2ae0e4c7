/** Where people find the HTTP of this machine as long as nobody says otherwise. */
import { networkInterfaces } from 'node:os';
import type { Config } from '../config/config.ts';

/** An address that listens everywhere is reached through this machine's. */
export function ownUrl({
  host,
  port,
  apiTlsFiles,
}: Pick<Config, 'host' | 'port' | 'apiTlsFiles'>): string {
  const everywhere = host === '0.0.0.0' || host === '::';
  const name = everywhere ? (firstOwnAddress() ?? '127.0.0.1') : host;
  return `${apiTlsFiles === null ? 'http' : 'https'}://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

function firstOwnAddress(): string | undefined {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.find(({ internal, family }) => !internal && family === 'IPv4')?.address;
}
