/** Constructs the delivery half of a worker, from the accept statement to the settle statement. */
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { Broker, BrokerTimer } from '../../delivery/broker/broker.ts';
import { SmtpConnections } from '../../delivery/shaping/smtp-connections.ts';
import { ContentMemory } from '../../delivery/memory/content-memory.ts';
import { createDeliver, type DeliverOptions } from '../../delivery/attempt/deliver.ts';
import type { SettledAttempt } from '../../delivery/attempt/settle-outcome.ts';
import { Dispatcher } from '../../delivery/queue/dispatcher.ts';
import type { BrokerMessage, WorkerMessage } from '../../delivery/broker/broker-messages.ts';
import { EarlyRetries } from '../../delivery/queue/early-retries.ts';
import { ProviderBlocks } from '../../delivery/blocks/provider-blocks.ts';
import { createFindRoute, type FindRoute } from '../../delivery/route/route-finding.ts';
import type { ShapingSettings } from '../../delivery/shaping/settings.ts';
import { timeoutsWithin } from '../../net/smtp/client-session.ts';
import {
  type AcceptEmail,
  type AcceptOptions,
  type AcceptResult,
  createAccept,
} from '../../accept/accept.ts';
import { type AcceptBatch, createAcceptBatch } from '../../accept/email-batch.ts';
import { StorageAccount } from '../../accounts/storage/storage-account.ts';
import { createMetrics, type ServiceMetrics } from '../metrics/worker-metrics.ts';
import { addBlockGauge } from '../metrics/block-metrics.ts';
import { ProviderLog } from '../../delivery/shaping/provider-log.ts';
import { ProviderReport } from '../../delivery/shaping/provider-report.ts';
import { createRouting } from './server-routing.ts';
import { logUplink } from '../../delivery/outage/uplink-log.ts';
import { systemWorld } from '../machine/system-world.ts';
import type { WorkerContext } from './worker-context.ts';
import { AcceptStore } from '../../accept/store/accept-store.ts';
import { RecentlyAccepted } from '../../database/server/failover.ts';
import { logLostEmails } from './lost-emails.ts';
import { loadMessages } from '../../delivery/message/message-store.ts';
import { SettleStore } from '../../settle/settle-store.ts';
import { RETURN_PATH } from '../../mail/links/return-path.ts';

type Accepting = {
  accept: AcceptEmail;
  acceptBatch: AcceptBatch;
  /** Whether emails are refused because too many wait to be stored. */
  isOverloaded: () => boolean;
};

type Delivering = Accepting & {
  dispatcher: Dispatcher;
  connections: SmtpConnections;
  findRoute: FindRoute;
  /** Whether the database currently refuses outcomes. */
  isDatabaseStuck: () => boolean;
  metrics: ServiceMetrics;
  /** Logs the accepted emails that a fail-over of the database lost. */
  logLost(): Promise<void>;
  stop(): Promise<void>;
};

type DeliveryListeners = {
  onWebhooksQueued: () => void;
  /** Number of webhook outcomes that the database refuses, for metrics. */
  unsettledWebhooks: () => number;
  sendToBroker: (messages: readonly WorkerMessage[]) => void;
};

export function createDelivery(context: WorkerContext, listeners: DeliveryListeners): Delivering {
  const { onWebhooksQueued } = listeners;
  const { config, db, lease, log } = context;
  const world = systemWorld;
  const settling = new SettleStore(db.settling, {
    holder: lease.holder,
    onWebhooksQueued,
    onSettled: context.onSettled,
    onFailure: (sqlState) => metrics.settleFailures.inc({ sqlstate: sqlState }),
    log,
    world,
  });
  const connections = createConnections(context, listeners.sendToBroker);
  const { mailRouting, tls, leastTls, stopTls } = createRouting(context);
  const contents = createContents(context);
  const onDue = () => dispatcher.pollSoon();
  const { earlyRetries, blocks } = createDeferrals(context, connections, onDue);
  const deliver = createDeliver({
    ...context,
    blocks,
    world,
    contents,
    earlyRetries,
    onAttemptEnded: (delivery) => dispatcher.endAttempt(delivery),
    isLeased: (delivery) => dispatcher.isLeased(delivery),
    connections,
    mailRouting,
    ...environmentOptions(config),
    logRecipients: config.logRecipients,
    leastTls,
    retryWaitsMs: config.retryWaitsMs,
    tls,
    settling,
    returnPathSecret: () => context.secrets.derive(RETURN_PATH),
    onAttemptSettled: (attempt) => countAttempt(metrics, context, attempt),
  });
  const dispatcher = new Dispatcher({
    db: db.settling,
    world,
    log,
    lease,
    deliver,
    contents,
    connections,
    mailRouting,
    earlyRetries,
    unsettled: settling,
  });
  const metrics = createDeliveryMetrics(context, listeners, { dispatcher, settling, connections });
  const report = startProviderReport(context, connections);
  const stop = async (): Promise<void> => {
    report.stop();
    blocks.stop();
    const released = storage.stop();
    const stoppingSinceMs = world.monotonicMs();
    await dispatcher.stop();
    const leftMs = STOP_SETTLE_WITHIN_MS - (world.monotonicMs() - stoppingSinceMs);
    await settling.stop(Math.max(STOP_SETTLE_MIN_MS, leftMs));
    await connections.close();
    await Promise.all([stopTls(), released]);
  };
  const recent = new RecentlyAccepted();
  const storage = new StorageAccount(db.checking, { world, log });
  const acceptingParts = { metrics, onWebhooksQueued, recent, storage };
  const accepting = createAccepting(dispatcher, context, acceptingParts);
  const logLost = () => logLostEmails(recent, { db, log, metrics });
  const findRoute = createFindRoute({ mailRouting, tls, leastTls });
  const inquiryParts = { findRoute, isDatabaseStuck: () => settling.health.isStuck };
  return { ...accepting, ...inquiryParts, dispatcher, connections, metrics, logLost, stop };
}

type MeasuredParts = {
  dispatcher: Dispatcher;
  settling: SettleStore;
  connections: SmtpConnections;
};

function createDeliveryMetrics(
  { registry, labels }: WorkerContext,
  { unsettledWebhooks }: DeliveryListeners,
  { dispatcher, settling, connections }: MeasuredParts,
): ServiceMetrics {
  return createMetrics(registry, labels, {
    waiting: () => dispatcher.queuedCount,
    runningCount: () => dispatcher.runningCount,
    unsettled: () => ({ delivery: settling.keptCount, webhook: unsettledWebhooks() }),
    isUplinkDown: () => connections.uplink.isDown,
    providers: () => [...connections.providers].map((provider) => provider.describe()),
  });
}

function startProviderReport(
  { db, log, lease }: WorkerContext,
  connections: SmtpConnections,
): ProviderReport {
  const report = new ProviderReport({
    db,
    world: systemWorld,
    log,
    holder: lease.holder,
    connections,
  });
  report.start();
  return report;
}

/** Constructs the parts that defer mail because of our uplink, or because a provider refuses us. */
function createDeferrals(
  context: WorkerContext,
  { uplink }: SmtpConnections,
  onDue: () => void,
): { earlyRetries: EarlyRetries; blocks: ProviderBlocks } {
  const world = systemWorld;
  const { db, log, registry, labels, config } = context;
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
  addBlockGauge(registry, labels, () => blocks.blocks);
  blocks.start();
  return { earlyRetries, blocks };
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

function createAccepting(
  dispatcher: Dispatcher,
  context: WorkerContext,
  {
    metrics,
    onWebhooksQueued,
    recent,
    storage,
  }: {
    metrics: ServiceMetrics;
    onWebhooksQueued: () => void;
    recent: RecentlyAccepted;
    storage: StorageAccount;
  },
): Accepting {
  const { db, config, lease } = context;
  const store = new AcceptStore(db.accepting, {
    limit: config.limits.sending,
    recipientLimit: config.limits.recipients,
    holder: lease.holder,
    onWebhooksQueued,
    onUnknown: (emails) => dispatcher.releaseWhenStored(emails),
  });
  const options: AcceptOptions = {
    store,
    world: systemWorld,
    handOver: dispatcher,
    storage,
    db: db.checking,
    onAccepted: ({ projectId, environment, id }) => {
      recent.add(projectId, id);
      metrics.accepted.inc({ environment });
    },
  };
  const measure = async (work: () => Promise<AcceptResult>): Promise<AcceptResult> => {
    const startedMs = systemWorld.monotonicMs();
    const result = await work();
    if (result.kind === 'accepted') {
      metrics.acceptSeconds.observe((systemWorld.monotonicMs() - startedMs) / 1000);
    }
    return result;
  };
  const accept = createAccept(options);
  const acceptBatch = createAcceptBatch(options);
  return {
    accept: (...request) => measure(() => accept(...request)),
    acceptBatch: (...request) => measure(() => acceptBatch(...request)),
    isOverloaded: () => store.isOverloaded(),
  };
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

/** Time in which a stop tries to write refused outcomes, and its minimum after a slow stop. */
const STOP_SETTLE_WITHIN_MS = 10_000;
const STOP_SETTLE_MIN_MS = 1_000;
const ONLY_WORKER = 0;

function createOwnBroker(
  { shaping: settings, log }: { shaping: ShapingSettings; log: Logger },
  send: (messages: readonly BrokerMessage[]) => void,
): DeliveryListeners['sendToBroker'] {
  const providerLog = new ProviderLog({ log, world: systemWorld });
  const broker = new Broker({
    settings,
    world: systemWorld,
    send: (_, messages) => send(messages),
    onUplink: (change) => logUplink(log, change),
    onProvider: (change) => providerLog.noteChange(change),
  });
  const timer = new BrokerTimer(broker);
  broker.addWorker(ONLY_WORKER);
  return (messages) => {
    broker.receive(ONLY_WORKER, messages);
    timer.schedule();
  };
}

function environmentOptions(
  config: Config,
): Pick<DeliverOptions, 'viaRelay' | 'takesReports' | 'hasHostName'> {
  return {
    viaRelay: config.relay !== null,
    takesReports: config.inboundPort !== null,
    hasHostName: hasUsableHostName(config),
  };
}

/** A relay identifies this host by password or address, and private networks often have no full names. */
function hasUsableHostName({ hostname, relay, allowPrivateNetworks }: Config): boolean {
  return hostname.includes('.') || relay !== null || allowPrivateNetworks;
}

function countAttempt(
  metrics: ServiceMetrics,
  { activity }: WorkerContext,
  attempt: SettledAttempt,
): void {
  activity.attempted(attempt);
  metrics.attempts.inc({ status: attempt.status });
  metrics.attemptSeconds.observe(attempt.durationMs / 1000);
  if (attempt.firstAfterMs !== null) {
    metrics.firstAttemptSeconds.observe(attempt.firstAfterMs / 1000);
  }
}
