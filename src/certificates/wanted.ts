/** The certificates that the service orders: for which names, and in which files this node keeps them. */
import { join } from 'node:path';
import type { Config } from '../config/config.ts';

/** `api`: clients of the API and the dashboard. `tracking`: another host of links. `mail`: the SMTP ports. */
export type OrderedNames = { api: string | null; tracking: string | null; mail: string | null };

/** The part of the configuration that decides. */
export type NamesConfig = Pick<
  Config,
  | 'acme'
  | 'apiTlsFiles'
  | 'dataDir'
  | 'hostname'
  | 'inboundPort'
  | 'publicUrl'
  | 'submissionPorts'
  | 'tlsFiles'
  | 'trackingUrl'
  | 'trustedProxies'
>;

/**
 * Only names of the configuration, so that no stranger makes the service order. The API has none behind a proxy, whose
 * certificate clients see, and none where the operator has given it a certificate.
 */
export function orderedNames(config: NamesConfig): OrderedNames {
  const { acme, apiTlsFiles, tlsFiles, trustedProxies, hostname } = config;
  if (acme === null) return { api: null, tracking: null, mail: null };
  const servesTls = apiTlsFiles === null && trustedProxies.length === 0;
  const api = servesTls ? hostOf(config.publicUrl) : null;
  const tracking = api === null ? null : hostOf(config.trackingUrl);
  const hasMail = config.inboundPort !== null || config.submissionPorts.length > 0;
  const mail = hasMail && tlsFiles === null && hostname.includes('.') ? hostname : null;
  return { api, tracking: tracking === api ? null : tracking, mail };
}

export function listNames({ api, tracking, mail }: OrderedNames): string[] {
  return [...new Set([api, tracking, mail].filter((name) => name !== null))];
}

/** Returns the host of an https URL; null for an address, which has no certificate here. */
function hostOf(url: string | null): string | null {
  if (url === null || !url.startsWith('https:')) return null;
  const { hostname } = new URL(url);
  return /^[a-z0-9.-]*[a-z][a-z0-9-]*$/i.test(hostname) ? hostname.toLowerCase() : null;
}

/** The file of certificate and key in the data directory, PEM. */
export function orderedFile(dataDir: string, name: string): string {
  return join(dataDir, 'secrets', `acme-${name}.pem`);
}

type Files = { cert: string; key: string };
type OrderedFiles = Record<keyof OrderedNames, Files | null>;

export function orderedFiles(config: NamesConfig): OrderedFiles {
  const { api, tracking, mail } = orderedNames(config);
  const filesOf = (name: string | null): Files | null => {
    if (name === null) return null;
    const file = orderedFile(config.dataDir, name);
    return { cert: file, key: file };
  };
  return { api: filesOf(api), tracking: filesOf(tracking), mail: filesOf(mail) };
}
