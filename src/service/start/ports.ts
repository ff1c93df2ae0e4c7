/**
 * Chooses the ports of the service before the database is opened. Only the default port of the API is replaced when it
 * is in use. Any other port that is in use ends the start.
 */
import type { Config } from '../../config/config.ts';
import { alreadyRunning, readRunning } from '../../database/embedded/lock.ts';
import { choosePort, portTurns } from '../../net/choose-port.ts';
import { ConfigurationProblem } from './failure.ts';

const portOrder = portTurns(process.pid);

/** Returns the configuration with the chosen ports. Without `takesMail`, it has no ports of mail. */
export async function choosePorts(
  config: Config,
  { takesMail }: { takesMail: boolean },
): Promise<Config> {
  const port = await choosePortOfApi(config);
  if (!takesMail) return { ...config, port, inboundPort: null, submissionPorts: [] };
  const { smtpHost: host } = config;
  const inboundPort =
    config.inboundPort === null
      ? null
      : await chooseConfiguredPort(
          { host, port: config.inboundPort },
          { host: SMTP_HOST, port: 'LETTERHAUS_INBOUND_PORT' },
        );
  const submissionPorts = [];
  for (const configured of config.submissionPorts) {
    const chosen = await chooseConfiguredPort(
      { host, port: configured.port },
      { host: SMTP_HOST, port: 'LETTERHAUS_SUBMISSION_PORTS' },
    );
    submissionPorts.push({ ...configured, port: chosen });
  }
  return { ...config, port, inboundPort, submissionPorts };
}

const SMTP_HOST = 'LETTERHAUS_SMTP_HOST';

/** The service of this data directory may already run and have the port. */
async function choosePortOfApi(config: Config): Promise<number> {
  const chosen = await choosePort(config, portOrder);
  if ('port' in chosen) return chosen.port;
  const holder = readRunning(config.dataDir);
  if (holder?.kind === 'service') throw alreadyRunning(config.dataDir, holder);
  throw new ConfigurationProblem(chosen.problem);
}

/**
 * @param names the variables that set host and port, for the problem
 * @throws ConfigurationProblem when the port is in use
 */
export async function chooseConfiguredPort(
  address: { host: string | null; port: number },
  names: { host: string; port: string },
): Promise<number> {
  const chosen = await choosePort({ ...address, isPortConfigured: true, names }, portOrder);
  if ('port' in chosen) return chosen.port;
  throw new ConfigurationProblem(chosen.problem);
}
