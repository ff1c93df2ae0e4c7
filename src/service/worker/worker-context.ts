/** Objects that all parts of a worker share: database, log, resolver, secrets, the lease on its mail. */
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import { RefusedLogIns } from '../../accounts/sign-in/refused-log-ins.ts';
import type { Config } from '../../config/config.ts';
import { Lease } from '../../delivery/queue/lease.ts';
import { MessageBuilder } from '../../delivery/message/message-builder.ts';
import { SigningKeys } from '../../delivery/message/signing-keys.ts';
import { Activity } from '../metrics/activity-metrics.ts';
import { createWorkerCounters, type WorkerCounters } from '../metrics/worker-metrics.ts';
import { ProviderLabels } from '../metrics/provider-label.ts';
import { addRuntime } from '../metrics/runtime-metrics.ts';
import { createLog } from '../machine/log.ts';
import { Database } from '../../database/database.ts';
import { addReputationCounts, ReputationCounters } from '../../reputation/reputation-store.ts';
import type { Settlement } from '../../settle/settlement.ts';
import { SecretBox } from '../../secrets/secret-box.ts';
import { createNetwork, type Network } from '../machine/network.ts';
import { OperatorEventLog } from '../../operator/operator-event-log.ts';
import { ResolverWatch } from '../machine/resolver-watch.ts';
import { systemWorld } from '../machine/system-world.ts';
import type { WorkerSetup } from './worker-messages.ts';

export type WorkerContext = Network & {
  setup: WorkerSetup;
  config: Config;
  log: Logger;
  db: Database;
  secrets: SecretBox;
  lease: Lease;
  builder: MessageBuilder;
  reputation: ReputationCounters;
  operatorEvents: OperatorEventLog;
  registry: Registry;
  labels: ProviderLabels;
  activity: Activity;
  counters: WorkerCounters;
  refusedLogIns: RefusedLogIns;
  /** Logs refused log-ins that were only counted, and stops watching the resolver. */
  stopWatching: () => void;
  onSettled: (settlement: Settlement) => void;
};

export function createWorkerContext(
  setup: WorkerSetup,
  onLeased: (id: string) => void,
): WorkerContext {
  const { config, instance } = setup;
  const world = systemWorld;
  const log = createLog({ level: config.logLevel, forPeople: process.stderr.isTTY });
  const { address, role } = setup.database;
  const db = new Database(address, { role, name: 'worker', sizes: setup.poolSizes });
  const secrets = new SecretBox(setup.secretKey);
  const registry = new Registry();
  const labels = new ProviderLabels(config.shaping);
  const activity = new Activity(registry, labels);
  addRuntime(registry);
  const reputation = new ReputationCounters((counts) => addReputationCounts(db, counts));
  const onSettled = (settlement: Settlement): void => {
    reputation.count(settlement);
    activity.settled(settlement);
  };
  const refusedLogIns = new RefusedLogIns(log);
  const operatorEvents = new OperatorEventLog({ db, log, world });
  const network = createNetwork(config, world, (lookup) => {
    activity.lookedUp(lookup);
    resolverWatch.lookedUp(lookup.result);
  });
  const watched = { operatorEvents, host: hostname(), servers: network.servers };
  const resolverWatch = new ResolverWatch({ ...watched, resolver: network.resolver });
  const who = { instance, host: hostname(), pid: process.pid };
  return {
    setup,
    config,
    log,
    db,
    secrets,
    registry,
    labels,
    activity,
    counters: createWorkerCounters(registry),
    refusedLogIns,
    stopWatching: () => {
      refusedLogIns.flush();
      resolverWatch.stop();
    },
    ...network,
    lease: new Lease({ db: db.heartbeat, world, log, ...who, onLeased }),
    builder: new MessageBuilder(new SigningKeys(db, secrets, { world }), secrets),
    operatorEvents,
    reputation,
    onSettled,
  };
}
