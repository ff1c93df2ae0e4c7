/** Constructs the delivering half of a worker: from the queue to the settle statement. */
import type { Logger } from 'pino';
import { isUsableHostName } from '../../config/host-name.ts';
import { RunningBroker } from '../../delivery/broker/running-broker.ts';
import { SmtpConnections } from '../../delivery/shaping/smtp-connections.ts';
import { ContentMemory } from '../../delivery/memory/content-memory.ts';
import {
  createDeliver,
  type Deliver,
  type DeliverOptions,
} from '../../delivery/attempt/deliver.ts';
import type { SettledAttempt } from '../../delivery/attempt/settle-outcome.ts';
import { Dispatcher } from '../../delivery/queue/dispatcher.ts';
import type { BrokerMessage, WorkerMessage } from '../../delivery/broker/broker-messages.ts';
import { EarlyRetries } from '../../delivery/queue/early-retries.ts';
import { ProviderBlocks } from '../../delivery/blocks/provider-blocks.ts';
import { createFindRoute, type FindRoute } from '../../delivery/route/route-finding.ts';
import type { ShapingSettings } from '../../delivery/shaping/settings.ts';
import { timeoutsWithin } from '../../net/smtp/client-session.ts';
import { addBlockGauge, addDeliveryGauges } from '../metrics/worker-metrics.ts';
import { ProviderReport } from '../../delivery/shaping/provider-report.ts';
import { createRouting } from './server-routing.ts';
import { systemWorld } from '../machine/system-world.ts';
import type { WorkerContext } from './worker-context.ts';
import { loadMessages } from '../../delivery/message/message-store.ts';
import { SettleStore } from '../../settle/settle-store.ts';
import { RETURN_PATH } from '../../mail/links/return-path.ts';

type Delivering = {
  dispatcher: Dispatcher;
  connections: SmtpConnections;
  findRoute: FindRoute;
  /** Whether the database currently refuses outcomes. */
  isSettlingStalled: () => boolean;
  stop(): Promise<void>;
};

type DeliveryListeners = {
  onWebhooksQueued: () => void;
  /** Number of webhook outcomes that the database refuses, for metrics. */
  unsettledWebhooks: () => number;
  sendToBroker: (messages: readonly WorkerMessage[]) => void;
};

/** Delivery, except its dispatcher. */
type DeliveryContext = {
  settling: SettleStore;
  connections: SmtpConnections;
  routing: ReturnType<typeof createRouting>;
  contents: ContentMemory;
  earlyRetries: EarlyRetries;
  blocks: ProviderBlocks;
};

/**
 * The steps are in the order of construction. Only the dispatcher, which comes last, is called back by the parts above
 * it: when mail is due, when an attempt has ended, and for its leases.
 */
export function createDelivery(context: WorkerContext, listeners: DeliveryListeners): Delivering {
  const settling = createSettling(context, listeners);
  const connections = createConnections(context, listeners.sendToBroker);
  const routing = createRouting(context);
  const contents = createContents(context);
  const deferrals = createDeferrals(context, connections, () => dispatcher.pollSoon());
  const deliveryContext: DeliveryContext = {
    settling,
    connections,
    routing,
    contents,
    ...deferrals,
  };
  const deliver = createDeliver({
    ...deliverOptions(context, deliveryContext),
    onAttemptEnded: (delivery) => dispatcher.endAttempt(delivery),
    isLeased: (delivery) => dispatcher.isLeased(delivery),
  });
  const dispatcher = createDispatcher(context, deliveryContext, deliver);
  addGauges(context, listeners, { ...deliveryContext, dispatcher });
  const { blocks } = deferrals;
  const report = createProviderReport(context, connections);
  blocks.start();
  report.start();
  return {
    dispatcher,
    connections,
    findRoute: createFindRoute(routing),
    isSettlingStalled: () => settling.health.isStalled,
    stop: async () => {
      report.stop();
      blocks.stop();
      await stopDelivering(dispatcher, settling);
      await connections.close();
      await routing.stopTls();
    },
  };
}

function createSettling(
  { db, counters, lease, log, onSettled }: WorkerContext,
  { onWebhooksQueued }: DeliveryListeners,
): SettleStore {
  return new SettleStore(db.settling, {
    leaseId: lease.leaseId,
    onWebhooksQueued,
    onSettled,
    onFailure: (sqlState) => counters.settleFailures.inc({ sqlstate: sqlState }),
    log,
    world: systemWorld,
  });
}

/** The only worker of a machine has a broker of its own. */
function createConnections(
  { config, setup, log }: WorkerContext,
  sendToBroker: DeliveryListeners['sendToBroker'],
): SmtpConnections {
  const { relay, smtpTimeoutMs, shaping } = config;
  const isAlone = setup.workerCount === 1;
  const sendToOwn = isAlone
    ? createOwnBroker({ shaping, log }, (messages) => connections.receive(messages))
    : null;
  const connections = new SmtpConnections({
    world: systemWorld,
    port: relay?.port ?? config.mxPort,
    heloName: config.hostname,
    sources: config.sources,
    shaping,
    send: sendToOwn ?? sendToBroker,
    session: {
      ...(relay ? { auth: relay.auth ?? undefined, implicitTls: relay.implicitTls } : {}),
      ...(smtpTimeoutMs === null ? {} : { timeouts: timeoutsWithin(smtpTimeoutMs) }),
    },
  });
  return connections;
}

const ONLY_WORKER = 0;

function createOwnBroker(
  { shaping: settings, log }: { shaping: ShapingSettings; log: Logger },
  send: (messages: readonly BrokerMessage[]) => void,
): DeliveryListeners['sendToBroker'] {
  const broker = new RunningBroker({
    settings,
    world: systemWorld,
    log,
    send: (_, messages) => send(messages),
  });
  broker.addWorker(ONLY_WORKER);
  return (messages) => broker.receive(ONLY_WORKER, messages);
}

function createContents({ db }: WorkerContext): ContentMemory {
  return new ContentMemory({
    world: systemWorld,
    load: async (head) => {
      const message = (await loadMessages(db.settling, [head])).get(head.id);
      if (!message) throw new Error(`queued email ${head.id} has no content`);
      return message;
    },
  });
}

/** Constructs what defers mail because of our uplink, or because a provider refuses us. */
function createDeferrals(
  context: WorkerContext,
  { uplink }: SmtpConnections,
  onDue: () => void,
): { earlyRetries: EarlyRetries; blocks: ProviderBlocks } {
  const world = systemWorld;
  const { db, log, config } = context;
  const { shaping, sources, hostname } = config;
  const earlyRetries = new EarlyRetries({ db: db.settling, world, log, uplink, onDue });
  const blocks = new ProviderBlocks({
    db: db.settling,
    world,
    log,
    rules: shaping.block,
    sources,
    heloName: hostname,
    onDue,
    onEnded: (provider) => earlyRetries.retryAfterBlock(provider),
  });
  return { earlyRetries, blocks };
}

function deliverOptions(
  context: WorkerContext,
  { settling, connections, routing, contents, earlyRetries, blocks }: DeliveryContext,
): Omit<DeliverOptions, 'onAttemptEnded' | 'isLeased'> {
  const { db, log, lease, builder, config, secrets } = context;
  const { relay, inboundPort, logRecipients, retryWaitsMs } = config;
  const { mailRouting, tls, leastTls } = routing;
  return {
    db,
    world: systemWorld,
    log,
    lease,
    builder,
    contents,
    mailRouting,
    tls,
    leastTls,
    connections,
    blocks,
    earlyRetries,
    settling,
    viaRelay: relay !== null,
    takesReports: inboundPort !== null,
    hasHostName: isUsableHostName(config),
    logRecipients,
    retryWaitsMs,
    returnPathSecret: () => secrets.derive(RETURN_PATH),
    onAttemptSettled: (attempt) => countAttempt(context, attempt),
  };
}

function countAttempt({ activity, counters }: WorkerContext, attempt: SettledAttempt): void {
  activity.attempted(attempt);
  counters.attempts.inc({ status: attempt.status });
  counters.attemptSeconds.observe(attempt.durationMs / 1000);
  if (attempt.firstAfterMs !== null) {
    counters.firstAttemptSeconds.observe(attempt.firstAfterMs / 1000);
  }
}

function createDispatcher(
  { db, log, lease }: WorkerContext,
  { settling, connections, routing, contents, earlyRetries }: DeliveryContext,
  deliver: Deliver,
): Dispatcher {
  return new Dispatcher({
    db: db.settling,
    world: systemWorld,
    log,
    lease,
    deliver,
    contents,
    connections,
    mailRouting: routing.mailRouting,
    earlyRetries,
    unsettled: settling,
  });
}

function addGauges(
  { registry, labels }: WorkerContext,
  { unsettledWebhooks }: DeliveryListeners,
  { dispatcher, settling, connections, blocks }: DeliveryContext & { dispatcher: Dispatcher },
): void {
  addDeliveryGauges(registry, labels, {
    waiting: () => dispatcher.queuedCount,
    runningCount: () => dispatcher.runningCount,
    unsettled: () => ({ delivery: settling.keptCount, webhook: unsettledWebhooks() }),
    isUplinkDown: () => connections.uplink.isDown,
    providers: () => [...connections.providers].map((provider) => provider.describe()),
  });
  addBlockGauge(registry, labels, () => blocks.blocks);
}

function createProviderReport(
  { db, log, lease }: WorkerContext,
  connections: SmtpConnections,
): ProviderReport {
  const { leaseId } = lease;
  return new ProviderReport({ db, world: systemWorld, log, leaseId, connections });
}

/** Time in which a stop tries to write refused outcomes, and its minimum after a slow stop. */
const STOP_SETTLE_WITHIN_MS = 10_000;
const STOP_SETTLE_MIN_MS = 1_000;

async function stopDelivering(dispatcher: Dispatcher, settling: SettleStore): Promise<void> {
  const stoppingSinceMs = systemWorld.monotonicMs();
  await dispatcher.stop();
  const leftMs = STOP_SETTLE_WITHIN_MS - (systemWorld.monotonicMs() - stoppingSinceMs);
  await settling.stop(Math.max(STOP_SETTLE_MIN_MS, leftMs));
}
