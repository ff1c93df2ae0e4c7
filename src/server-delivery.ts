/**
 * The delivery half of a worker, wired: from the accept statement to the settle statement, with
 * everything between them. Next: sending/accept.ts, delivery/dispatcher.ts.
 */
import { lookup } from 'node:dns/promises';
import type { Config } from './config.ts';
import { Broker, BROKER_TICK_MS } from './delivery/broker.ts';
import { Connections } from './delivery/connections.ts';
import { createDeliver } from './delivery/deliver.ts';
import { Dispatcher } from './delivery/dispatcher.ts';
import type { BrokerNews, WorkerNews } from './delivery/permits.ts';
import { createShaping } from './delivery/shaping.ts';
import type { ShapingSettings } from './delivery/shaping-settings.ts';
import { LaneReport } from './lane-report.ts';
import { createMetrics, type ServiceMetrics } from './metrics.ts';
import { resolveRoute, type Route } from './net/mx.ts';
import { timeoutsWithin } from './net/smtp-types.ts';
import { type AcceptEmail, createAccept, type HandOver } from './sending/accept.ts';
import type { Ground } from './server.ts';
import { createTls } from './server-tls.ts';
import { AcceptStore } from './store/accept.ts';
import { queueDepth } from './store/queue.ts';
import { SettleStore } from './store/settle.ts';
import { systemWorld } from './system-world.ts';

export type Delivery = {
  accept: AcceptEmail;
  dispatcher: Dispatcher;
  connections: Connections;
  metrics: ServiceMetrics;
  stop(): Promise<void>;
};

export type DeliveryListeners = {
  /** Webhook deliveries were queued by an accepted email or a settled outcome. */
  onTold: () => void;
  /** What the broker of the machine is to hear. */
  tellBroker: (news: readonly WorkerNews[]) => void;
};

export function createDelivery(ground: Ground, listeners: DeliveryListeners): Delivery {
  const { onTold } = listeners;
  const { config, db, lease, log } = ground;
  const world = systemWorld;
  const settling = new SettleStore(db.settling, { holder: lease.holder, onTold });
  const connections = connectionsOf(ground, listeners.tellBroker);
  const routes = createRoutes(ground);
  const { tls, stopTls } = createTls(ground);
  const deliver = createDeliver({
    ...ground,
    world,
    connections,
    route: (destination) => routes.find(destination),
    viaRelay: config.relay !== null,
    hasHostName: mayIntroduceItself(config),
    leastTls: tlsFor(config),
    tls,
    settle: (settlement) => settling.settle(settlement),
    returnPathSecret: ground.secrets.derive('return path'),
    onAttempt: (attempt) => countAttempt(metrics, attempt),
  });
  const shaping = createShaping(connections, (destination) => routes.providerOf(destination));
  const windowOf = (destination: string): number => shaping.windowOf(shaping.laneOf(destination));
  const dispatcher = new Dispatcher({ db: db.settling, world, log, lease, deliver, windowOf });
  const metrics = createMetrics({
    waiting: () => dispatcher.waiting,
    underWay: () => dispatcher.underWay,
    lanes: () => [...connections.lanes].map((lane) => lane.describe()),
    queueDepth: () => queueDepth(db),
  });
  const report = new LaneReport({ db, log, holder: lease.holder, connections });
  report.start();
  const stop = async (): Promise<void> => {
    report.stop();
    await dispatcher.stop();
    await connections.close();
    await stopTls();
  };
  const accept = acceptInto(dispatcher, ground, { metrics, onTold });
  return { accept, dispatcher, connections, metrics, stop };
}

function acceptInto(
  dispatcher: Dispatcher,
  ground: Ground,
  { metrics, onTold }: { metrics: ServiceMetrics; onTold: () => void },
): AcceptEmail {
  const { db, config, lease } = ground;
  const store = new AcceptStore(db.accepting, {
    limit: config.limits.sending,
    holder: lease.holder,
    onTold,
    onUnknown: (emailIds) => dispatcher.releaseLater(emailIds),
  });
  const accept = createAccept({
    store,
    world: systemWorld,
    hasRoomFor: (destinations, sizeBytes) => dispatcher.hasRoomFor(destinations, sizeBytes),
    handOver: (accepted) => handOver(dispatcher, accepted),
  });
  return async (caller, draft, idempotency) => {
    const startedMs = systemWorld.monotonicMs();
    const outcome = await accept(caller, draft, idempotency);
    if (outcome.kind === 'accepted') {
      metrics.accepted.inc({ environment: caller.environment });
      metrics.acceptSeconds.observe((systemWorld.monotonicMs() - startedMs) / 1000);
    }
    return outcome;
  };
}

function handOver(dispatcher: Dispatcher, accepted: HandOver): void {
  const { message, holder } = accepted;
  const heldSinceMs = systemWorld.monotonicMs();
  dispatcher.handOver(
    accepted.recipients.map((recipient) => ({
      ...recipient,
      message,
      holder,
      claim: 1,
      attempts: 0,
      heldSinceMs,
      expiresAtMs: heldSinceMs + accepted.lifetimeMs,
      suppressed: false,
      domainDeleted: false,
    })),
  );
}

/** The only worker of a machine has nobody to ask. */
function connectionsOf(
  { config, setup }: Ground,
  tellBroker: DeliveryListeners['tellBroker'],
): Connections {
  const { relay, smtpTimeoutMs, shaping } = config;
  const isAlone = setup.workerCount === 1;
  const broker = isAlone ? brokerFor(shaping, (news) => connections.hear(news)) : null;
  const connections = new Connections({
    world: systemWorld,
    port: relay?.port ?? config.mxPort,
    heloName: config.hostname,
    sourceIps: config.sourceIps,
    shaping,
    tell: (news) => (broker === null ? tellBroker(news) : broker.hear(ONLY_WORKER, news)),
    session: {
      ...(relay ? { auth: relay.auth ?? undefined, implicitTls: relay.implicitTls } : {}),
      ...(smtpTimeoutMs === null ? {} : { timeouts: timeoutsWithin(smtpTimeoutMs) }),
    },
  });
  return connections;
}

const ONLY_WORKER = 0;

function brokerFor(settings: ShapingSettings, tell: (news: readonly BrokerNews[]) => void): Broker {
  const broker = new Broker({ settings, world: systemWorld, tell: (_, news) => tell(news) });
  broker.join(ONLY_WORKER);
  setInterval(() => broker.tick(), BROKER_TICK_MS).unref();
  return broker;
}

/** A relay knows us by our password or address; on private networks names are what they are. */
function mayIntroduceItself({ hostname, relay, allowPrivateNetworks }: Config): boolean {
  return hostname.includes('.') || relay !== null || allowPrivateNetworks;
}

/** A password goes to a relay only when its certificate proves who it is, or within this machine. */
function tlsFor({ relay }: Config): 'opportunistic' | 'enforced' {
  const isHere = /^(?:localhost|127\.[\d.]+|::1)$/.test(relay?.host ?? '');
  return relay?.auth && !isHere ? 'enforced' : 'opportunistic';
}

type Routes = {
  find(destination: string): Promise<Route>;
  /** Whose limits a destination shares, as far as is known. */
  providerOf(destination: string): string;
};

const PROVIDERS_REMEMBERED_MAX = 50_000;

function createRoutes({ config, resolver, guard }: Ground): Routes {
  const { relay, hostname: ownHostname, shaping } = config;
  const providerSuffixes = shaping.suffixes;
  const random = (): number => systemWorld.random();
  const providers = new Map<string, string>();
  return {
    async find(destination) {
      const route = relay
        ? await relayRoute(relay.host)
        : await resolveRoute(destination, {
            resolver,
            guard,
            random,
            ownHostname,
            providerSuffixes,
          });
      if (providers.size >= PROVIDERS_REMEMBERED_MAX) providers.clear();
      if (route.kind === 'hosts') providers.set(destination, route.provider);
      return route;
    },
    providerOf: (destination) => providers.get(destination) ?? destination,
  };
}

/** All mail goes to one host; the operator chose it, so its address is not guarded. */
async function relayRoute(host: string): Promise<Route> {
  try {
    const found = await lookup(host, { all: true });
    const addresses = found.map(({ address }) => address);
    const hosts = [{ name: host, preference: 0, addresses }];
    return { kind: 'hosts', hosts, provider: `relay ${host}`, dropped: [] };
  } catch {
    return { kind: 'temporary', message: `The relay ${host} has no address at present.` };
  }
}

function countAttempt(
  metrics: ServiceMetrics,
  attempt: { status: string; durationMs: number; firstAfterMs: number | null },
): void {
  metrics.attempts.inc({ status: attempt.status });
  metrics.attemptSeconds.observe(attempt.durationMs / 1000);
  if (attempt.firstAfterMs !== null) {
    metrics.firstAttemptSeconds.observe(attempt.firstAfterMs / 1000);
  }
}
