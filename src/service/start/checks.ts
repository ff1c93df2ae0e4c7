/** Checks the configuration before the service starts: the host name and the certificates must be usable. */
import type { Logger } from 'pino';
import { orderedNames } from '../../certificates/wanted.ts';
import type { Config } from '../../config/config.ts';
import { isUsableHostName } from '../../config/host-name.ts';
import { sharedAddresses } from '../../net/ip-addresses.ts';
import {
  API_VARIABLES,
  type CertificateFiles,
  keepOwnCertificate,
  problemOf,
} from '../machine/certificates.ts';
import { systemWorld } from '../machine/system-world.ts';
import { ConfigurationProblem } from './failure.ts';

/** @throws ConfigurationProblem */
export function checkBeforeStart(
  config: Config,
  { servesApi, log }: { servesApi: boolean; log: Logger },
): void {
  requireUsableName(config);
  requireUsableCertificate(config);
  if (servesApi) warnAboutClearText(config, log);
}

function requireUsableName(config: Config): void {
  if (!config.isHostnameConfigured || isUsableHostName(config)) return;
  throw new ConfigurationProblem(
    `LETTERHAUS_HOSTNAME: ${config.hostname} is not fully qualified. ` +
      'Write the name that the PTR record of this machine has, for example mail.example.org.',
  );
}

function requireUsableCertificate({ apiTlsFiles }: Config): void {
  if (apiTlsFiles === null) return;
  const problem = problemOf(apiTlsFiles, systemWorld.now(), API_VARIABLES);
  if (problem !== null) throw new ConfigurationProblem(problem);
}

/** Warns that API keys would pass networks in clear text. */
function warnAboutClearText(config: Config, log: Logger): void {
  const { host, apiTlsFiles, trustedProxies } = config;
  const isLocal = host === 'localhost' || sharedAddresses([])(host);
  const hasTls = apiTlsFiles !== null || orderedNames(config).api !== null;
  if (isLocal || hasTls || trustedProxies.length > 0) return;
  log.warn(
    { host },
    'the API is served in clear text to other machines, API keys included; ' +
      'set HOST=127.0.0.1 behind a TLS proxy, or LETTERHAUS_ACME, or LETTERHAUS_API_TLS_CERT and LETTERHAUS_API_TLS_KEY ' +
      '(docs/tls.md); a proxy on another machine belongs in LETTERHAUS_TRUSTED_PROXIES',
  );
}

/**
 * Returns the certificate of the mail ports: the operator's, or our own. Returns null without mail ports.
 * @throws ConfigurationProblem
 */
export function chooseMailCertificate(
  { inboundPort, submissionPorts, tlsFiles, hostname }: Config,
  { dataDir, log }: { dataDir: string; log: Logger },
): CertificateFiles | null {
  if (inboundPort === null && submissionPorts.length === 0) return null;
  if (tlsFiles === null)
    return keepOwnCertificate({ dataDir, hostname }, { world: systemWorld, log });
  const problem = problemOf(tlsFiles, systemWorld.now());
  if (problem === null) return tlsFiles;
  throw new ConfigurationProblem(problem);
}
