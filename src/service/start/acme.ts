/** Starts what certificates by ACME need: the files of this node, and the port for the authority's challenges. */
import { AcmeWatch } from '../../certificates/acme-watch.ts';
import { listChallenges } from '../../certificates/certificate-store.ts';
import {
  type ChallengeListener,
  listenForChallenges,
} from '../../certificates/challenge-listener.ts';
import { listNames, orderedNames } from '../../certificates/wanted.ts';
import type { Config } from '../../config/config.ts';
import type { DnsChallenges } from '../../certificates/dns-challenge.ts';
import type { OperatorEventLog } from '../../operator/operator-event-log.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import type { Logger } from 'pino';
import { systemWorld } from '../machine/system-world.ts';
import type { ServiceDatabase } from '../service-database.ts';
import { ConfigurationProblem } from './failure.ts';
import { chooseConfiguredPort } from './ports.ts';

type Parts = {
  ports: Config;
  database: ServiceDatabase;
  operatorEvents: OperatorEventLog;
  secrets: SecretBox;
  log: Logger;
};

/**
 * Makes the files ready for the listeners.
 * @returns null when certificates are not ordered
 * @throws ConfigurationProblem when there is no name to order for
 */
export async function orderedCertificates(parts: Parts): Promise<AcmeWatch | null> {
  const { ports, database } = parts;
  const { acme, dataDir } = ports;
  if (acme === null) return null;
  const names = listNames(orderedNames(ports));
  if (names.length === 0) throw new ConfigurationProblem(NO_NAME);
  const { db } = database;
  const openDnsChallenges = () => openChallenges(ports);
  const options = { ...parts, db, acme, names, dataDir, world: systemWorld, openDnsChallenges };
  const watch = new AcmeWatch(options);
  await watch.prepare();
  return watch;
}

const NO_NAME =
  'LETTERHAUS_ACME: there is no name to order a certificate for. Set LETTERHAUS_PUBLIC_URL to the https URL of the ' +
  'API, or LETTERHAUS_HOSTNAME and a port of mail. Names behind LETTERHAUS_TRUSTED_PROXIES, and names with a ' +
  'certificate of your own, are not ordered.';

/** Loaded for an order by DNS-01 only: every start would wait for the APIs of the providers. */
async function openChallenges(config: Config): Promise<DnsChallenges> {
  const [{ DnsChallenges: Challenges }, { openDnsProvider }, { createNetwork }] = await Promise.all(
    [
      import('../../certificates/dns-challenge.ts'),
      import('../../net/dns-provider/open-provider.ts'),
      import('../machine/network.ts'),
    ],
  );
  const provider = openDnsProvider(config.dnsProvider!, { world: systemWorld });
  return new Challenges({ provider, resolver: createNetwork(config, systemWorld).resolver });
}

/** @returns null: no port is needed @throws ConfigurationProblem when it is in use */
export async function answerChallenges({
  ports,
  database,
}: Parts): Promise<ChallengeListener | null> {
  if (ports.acme!.challenge === 'dns-01') return null;
  const { host, port: configured } = ports.acme!.http;
  const names = { host: PORT_VARIABLE, port: PORT_VARIABLE };
  const port = await chooseConfiguredPort({ host, port: configured }, names);
  const { api } = orderedNames(ports);
  const urls = api === null ? [] : [ports.publicUrl, ports.trackingUrl];
  return listenForChallenges({
    where: { host, port },
    urls: urls.filter((url) => url !== null),
    listChallenges: () => listChallenges(database.db),
    world: systemWorld,
  });
}

const PORT_VARIABLE = 'LETTERHAUS_ACME_HTTP_PORT';
