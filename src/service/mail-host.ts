/**
 * This machine among those of the installation: says its name and addresses where all nodes read them
 * (store/mail-hosts.ts), and gives the installation the host that bounces come back to when it has none.
 */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { ServiceDatabase } from './service-database.ts';
import { adoptReturnPathHost, noteMailHost } from '../store/mail-hosts.ts';

type Node = Pick<ServiceDatabase, 'db' | 'instance'>;

/** At the start. A name that nobody else could look up is worth nothing to anybody. */
export async function introduceHost(
  node: Node,
  { config, log }: { config: Config; log: Logger },
): Promise<void> {
  const { hostname: name, hostnameAsked } = config;
  await keepHostKnown(node, config);
  if (!hostnameAsked || !isQualified(name)) return;
  const host = await adoptReturnPathHost(node.db, { instance: node.instance, name });
  if (host === name) return;
  log.warn(
    `bounces of all domains still come back to ${host}, as their DNS records say, and not to ${name}; ` +
      `"posthorn domains return-path-host ${name}" changes that, and says what to publish then`,
  );
}

/** Now and then: who is not heard of for a week counts no more. */
export async function keepHostKnown({ db, instance }: Node, config: Config): Promise<void> {
  const { hostname: name, sources } = config;
  if (!isQualified(name)) return;
  await noteMailHost(db, { instance, name, sourceIps: sources.map(({ ip }) => ip) });
}

function isQualified(name: string): boolean {
  return name.includes('.');
}
