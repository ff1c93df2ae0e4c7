/**
 * Constructs one worker: HTTP, accepting, delivery and webhooks, with one database.
 *
 * Here, in server-delivery.ts and in mail-ports.ts the parts are constructed and connected; features
 * never import one another. An email comes in at http/routes/emails.ts.
 */
import type { Registry } from 'prom-client';
import { ReloadedCertificate } from './certificates.ts';
import { Overloaded } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import type { BrokerMessage, WorkerMessage } from '../delivery/broker-messages.ts';
import type { MessageBuilder, MessageRecipient } from '../delivery/message.ts';
import { createDomainService } from '../domains/service.ts';
import { buildApp } from '../http/app.ts';
import type { App, HttpServices } from '../http/services.ts';
import { ownUrl } from './own-host.ts';
import type { AcceptEmail } from '../sending/accept.ts';
import type { DryRun } from '../sending/dry-run.ts';
import { AttachmentUrls } from '../sending/attachment-urls.ts';
import type { AcceptBatch } from '../sending/email-batch.ts';
import { createDelivery } from './server-delivery.ts';
import { createInquiries } from './server-inquiries.ts';
import { listenForMail, type SmtpPorts } from './mail-ports.ts';
import type { Database } from '../store/postgres/database.ts';
import { SuppressionRoom } from '../store/maxima.ts';
import { loadMessages } from '../store/messages.ts';
import { areAllDomainsUnusable, countUnusable } from '../store/unusable-secrets.ts';
import { recordVisits } from '../store/tracking.ts';
import { DiskFullMemory } from '../store/postgres/capacity.ts';
import { systemWorld } from './system-world.ts';
import { Visits } from '../tracking/visits.ts';
import { createTemplateService } from '../templates/service.ts';
import { createWebhookLoop, type WebhookLoop } from '../webhooks/loop.ts';
import { createWebhookService } from '../webhooks/service.ts';
import { createWorkerContext, type WorkerContext } from './worker-context.ts';
import type { WorkerSetup } from './worker-messages.ts';

export type WorkerServer = {
  /** null when this worker does not serve HTTP. */
  port: number | null;
  registry: Registry;
  /** Why emails are not accepted at present; null when they are. */
  refuseMail(reason: string | null): void;
  /** Polls now for mail and webhooks that wait. */
  look(): void;
  /** After a fail-over of the database: logs which accepted emails it lacks. */
  failedOver(): Promise<void>;
  /** Seals with the first of these from now on (store/secrets.ts). */
  useSecretKeys(secretKey: string): void;
  receiveFromBroker(messages: readonly BrokerMessage[]): void;
  /** A client has logged in by SMTP at another worker. */
  noteLogIn(client: string): void;
  /** Stops accepting, waits for work in progress, and releases the rest. */
  stop(): Promise<void>;
};

/** Functions of the supervisor that a worker calls. */
export type SupervisorLink = {
  /** All code is loaded, nothing is open yet. */
  onBuilt: () => void;
  onHolder: (id: string) => void;
  /** Why the clock of this machine rules out accepting mail; null when it is right. */
  clockRefusal: () => string | null;
  sendToBroker: (messages: readonly WorkerMessage[]) => void;
  /** Notifies the other workers. */
  onSmtpLogIn: (client: string) => void;
  metricsText: () => Promise<string>;
};

export async function createServer(
  setup: WorkerSetup,
  supervisor: SupervisorLink,
): Promise<WorkerServer> {
  const context = createWorkerContext(setup, supervisor.onHolder);
  const { config, db, lease, resolver } = context;
  const { holder, isFresh, checksWanted } = lease;
  const leased = { holder, isFresh, checksWanted };
  const webhooks = createWebhookLoop({ ...context, world: systemWorld, ...leased });
  const { clockRefusal, sendToBroker } = supervisor;
  const delivery = createDelivery(context, {
    onNotified: () => webhooks.wake(),
    unsettledWebhooks: () => webhooks.unsettled,
    sendToBroker,
  });
  const state: State = { refusal: null, isStopping: false };
  const diskFull = new DiskFullMemory(systemWorld);
  const refusal = (): string | null => state.refusal ?? clockRefusal() ?? diskFull.refusal();
  const whileRoom = async <Result>(work: () => Promise<Result>): Promise<Result> => {
    const reason = refusal();
    if (reason !== null) throw new Overloaded(reason);
    return diskFull.guard(work);
  };
  const accept: AcceptEmail = (...request) => whileRoom(() => delivery.accept(...request));
  const acceptBatch: AcceptBatch = (...request) =>
    whileRoom(() => delivery.acceptBatch(...request));
  const domains = createDomainService({ ...context, world: systemWorld });
  const inquiries = createInquiries(context, { ...delivery, domains });
  const dryRun: DryRun = (...request) => whileRoom(() => inquiries.dryRun(...request));
  const { diagnose } = inquiries;
  const visits = createVisits(context, { webhooks, delivery });
  const features = { accept, acceptBatch, dryRun, diagnose, domains, visits };
  const app = createApp(context, { state, features, supervisor });

  await app.ready();
  supervisor.onBuilt();
  await Promise.all([db.reserve(), lease.start()]);
  const { parts } = setup;
  if (parts.includes('delivery')) delivery.dispatcher.start();
  if (parts.includes('webhooks')) webhooks.start();
  const isServing = parts.includes('api');
  if (isServing) await app.listen({ host: config.host, port: config.port, backlog: 4096 });
  const smtp = await listenForMail(context, {
    accept,
    onNotified: () => webhooks.wake(),
    refusal,
    diskFull,
    onLogIn: supervisor.onSmtpLogIn,
  });

  return {
    port: isServing ? config.port : null,
    registry: delivery.metrics.registry,
    refuseMail: (reason) => (state.refusal = reason),
    look: () => {
      delivery.dispatcher.look();
      webhooks.wake();
    },
    failedOver: () => delivery.sayWhatIsLost(),
    useSecretKeys: (secretKey) => context.secrets.use(secretKey),
    receiveFromBroker: (messages) => delivery.connections.receive(messages),
    noteLogIn: (client) => smtp.noteLogIn(client),
    stop: async () => {
      state.isStopping = true;
      await stopTaking({ app, smtp, delivery, webhooks, visits });
      await lease.stop();
      await Promise.all([context.reputation.flush(), context.operatorEvents.flush()]);
      resolver.close();
      await db.close();
    },
  };
}

function createVisits(
  context: WorkerContext,
  { webhooks, delivery }: { webhooks: WebhookLoop; delivery: ReturnType<typeof createDelivery> },
): Visits {
  return new Visits({
    ...context,
    world: systemWorld,
    write: (batch) => recordVisits(context.db, batch),
    onNotified: () => webhooks.wake(),
    onResult: (result, count) => delivery.metrics.visits.inc({ result }, count),
  });
}

/** How long a result of /readyz is kept. */
const READY_FRESH_MS = 1_000;

type State = { refusal: string | null; isStopping: boolean };

function createApp(
  context: WorkerContext,
  parts: {
    state: State;
    features: Pick<
      HttpServices,
      'accept' | 'acceptBatch' | 'dryRun' | 'diagnose' | 'domains' | 'visits'
    >;
    supervisor: SupervisorLink;
  },
): App {
  const { db, builder } = context;
  const { state, features, supervisor } = parts;
  const world = systemWorld;
  return buildApp({
    ...context,
    ...features,
    world,
    templates: createTemplateService(context),
    suppressionRoom: new SuppressionRoom(world, context.config.suppressionsMax),
    attachmentUrls: new AttachmentUrls({ ...context, world }),
    webhooks: createWebhookService({ ...context, world }),
    localUrl: ownUrl(context.config),
    contentOf: (wanted) => contentOf(db, builder, wanted),
    isReady: readiness(db, supervisor.clockRefusal),
    readyWarnings: oftenAsked(() => warningsOf(db).catch(() => [])),
    isStopping: () => state.isStopping,
    certificate: apiCertificate(context),
    metricsText: supervisor.metricsText,
  });
}

function apiCertificate({ config, log }: WorkerContext): ReloadedCertificate | null {
  if (config.apiTlsFiles === null) return null;
  return new ReloadedCertificate(config.apiTlsFiles, { of: 'the API', world: systemWorld, log });
}

/** Null: requests can be served. */
function readiness(db: Database, clockRefusal: () => string | null): () => Promise<string | null> {
  return oftenAsked(() =>
    db.query('select 1').then(
      async () => notReady(clockRefusal()) ?? signingProblem(db),
      () => 'The database does not answer.',
    ),
  );
}

/** Looks at most once a second. */
function oftenAsked<Found>(look: () => Promise<Found>): () => Promise<Found> {
  let looking: Promise<Found> | null = null;
  return () => {
    looking ??= look().finally(() => {
      setTimeout(() => (looking = null), READY_FRESH_MS).unref();
    });
    return looking;
  };
}

/** Null while a live domain can be signed for, and while there is none. */
async function signingProblem(db: Database): Promise<string | null> {
  const { domain } = await countUnusable(db);
  if (domain === 0 || !(await areAllDomainsUnusable(db))) return null;
  return 'Nothing can be sent: the secret key does not open the DKIM key of any live domain.';
}

/** Without names: /readyz needs no key. */
async function warningsOf(db: Database): Promise<string[]> {
  const { domain, webhook, member } = await countUnusable(db);
  const counts = { 'sending domains': domain, webhooks: webhook, 'second factors': member };
  const some = Object.entries(counts).flatMap(([what, count]) =>
    count > 0 ? [`${count} ${what}`] : [],
  );
  return some.length === 0
    ? []
    : [`The secret key does not open the secrets of: ${some.join(', ')}.`];
}

function notReady(reason: string | null): string | null {
  return reason === null ? null : `No mail is accepted: ${reason}.`;
}

/** The exact bytes of an email, composed again from the stored content. */
async function contentOf(
  db: Database,
  builder: MessageBuilder,
  wanted: Scope & { id: string; recipient: MessageRecipient },
): Promise<Buffer | null> {
  const message = (await loadMessages(db, [wanted])).get(wanted.id);
  return message ? Buffer.concat((await builder.build(message, wanted.recipient)).parts) : null;
}

async function stopTaking(parts: {
  app: App;
  smtp: SmtpPorts;
  delivery: ReturnType<typeof createDelivery>;
  webhooks: WebhookLoop;
  visits: Visits;
}): Promise<void> {
  // The dispatcher stops last, because it releases emails that are accepted while requests end.
  await Promise.all([parts.app.close(), parts.smtp.close()]);
  await Promise.all([parts.delivery.stop(), parts.webhooks.stop(), parts.visits.stop()]);
}
