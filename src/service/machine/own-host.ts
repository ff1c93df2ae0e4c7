/**
 * Names and addresses of this machine: the URL of its API, its names in the installation (domains/mail-host-store.ts),
 * and the host for bounces when the installation has none.
 */
import { networkInterfaces } from 'node:os';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import type { ServiceDatabase } from '../service-database.ts';
import { adoptReturnPathHost, noteMailHost } from '../../domains/mail-host-store.ts';

type Node = Pick<ServiceDatabase, 'db' | 'instance'>;

/** Registers this machine at the start. A name without a dot is left out, because other machines cannot look it up. */
export async function registerHost(
  node: Node,
  { config, log }: { config: Config; log: Logger },
): Promise<void> {
  const { hostname: name, isHostnameConfigured } = config;
  await renewHost(node, config);
  if (!isHostnameConfigured || !isQualified(name)) return;
  const host = await adoptReturnPathHost(node.db, { instance: node.instance, name });
  if (host === name) return;
  log.warn(
    `bounces of all domains still come back to ${host}, as their DNS records say, and not to ${name}; ` +
      `"letterhaus domains return-path-host ${name}" changes that, and prints the records to publish`,
  );
}

/** Renews the registration. A host that was not renewed for a week is ignored. */
export async function renewHost({ db, instance }: Node, config: Config): Promise<void> {
  const { hostname: name, sources } = config;
  if (!isQualified(name)) return;
  await noteMailHost(db, { instance, name, sourceIps: sources.map(({ ip }) => ip) });
}

function isQualified(name: string): boolean {
  return name.includes('.');
}

/**
 * Returns the URL of the API when LETTERHAUS_PUBLIC_URL is not set. A wildcard address is replaced by an address of
 * this machine.
 */
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
