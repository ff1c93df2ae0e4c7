/** What all parts of a worker share: database, log, resolver, secrets, the lease on its mail. */
import { hostname, networkInterfaces } from 'node:os';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { Lease } from '../delivery/lease.ts';
import { MessageBuilder } from '../delivery/message.ts';
import { createLog } from './log.ts';
import { createResolver, type Resolver, systemServers } from '../net/dns/resolver.ts';
import { type AddressGuard, createAddressGuard } from '../net/addresses.ts';
import { Database } from '../store/postgres/database.ts';
import { addReputation } from '../store/reputation.ts';
import { ReputationCounters } from '../store/reputation-counters.ts';
import { SecretBox } from '../store/secrets.ts';
import { systemWorld } from './system-world.ts';
import type { WorkerSetup } from './worker-messages.ts';

/** What every part of a worker uses. */
export type WorkerContext = {
  setup: WorkerSetup;
  config: Config;
  log: Logger;
  db: Database;
  secrets: SecretBox;
  resolver: Resolver;
  guard: AddressGuard;
  lease: Lease;
  builder: MessageBuilder;
  /** Counts every outcome that is written. */
  reputation: ReputationCounters;
};

export function createWorkerContext(
  setup: WorkerSetup,
  onHolder: (id: string) => void,
): WorkerContext {
  const { config, instance } = setup;
  const world = systemWorld;
  const log = createLog({ level: config.logLevel, forPeople: process.stderr.isTTY });
  const { address, role } = setup.database;
  const db = new Database(address, { role, name: 'worker', sizes: setup.poolSizes });
  const secrets = new SecretBox(setup.secretKey);
  const who = { instance, host: hostname(), pid: process.pid };
  return {
    setup,
    config,
    log,
    db,
    secrets,
    resolver: createResolver({
      servers: config.dnsServers ?? systemServers(),
      world,
      trustAuthenticatedData: config.dnsTrustAd,
    }),
    guard: createAddressGuard({
      allowPrivate: config.allowPrivateNetworks,
      ownAddresses: ownAddresses(),
    }),
    lease: new Lease({ db: db.beating, world, log, ...who, onHolder }),
    builder: new MessageBuilder(db, secrets),
    reputation: new ReputationCounters((counts) => addReputation(db, counts)),
  };
}

function ownAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? []);
  return all.map(({ address }) => address);
}
