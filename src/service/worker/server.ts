/**
 * Constructs one worker: HTTP, accept, delivery and webhooks, with one database.
 *
 * This file, server-delivery.ts and server-mail.ts construct the parts and connect them. Rooms import
 * one another only through their stores and ports. Everything else is passed here as arguments.
 */
import type { Registry } from 'prom-client';
import { createHttpAccounts } from '../../accounts/http-accounts.ts';
import { findNewestBackup } from '../../backup/newest-backup.ts';
import { ReloadedCertificate } from '../machine/certificates.ts';
import type { Unready } from '../../core/readiness.ts';
import type { Scope } from '../../core/scope.ts';
import type { BrokerMessage, WorkerMessage } from '../../delivery/broker/broker-messages.ts';
import type { MessageBuilder, MessageRecipient } from '../../delivery/message/message-builder.ts';
import { RESEND_MOUNT } from '../../compat/resend/mount.ts';
import { createDomainService } from '../../domains/domains.ts';
import { listenOnAdminSocket } from '../../http/socket/admin-socket.ts';
import { buildApp } from '../../http/app.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { ownUrl } from '../machine/own-host.ts';
import { NoticeSender } from '../../notices/notice-sender.ts';
import { OperatorMail } from '../../operator/operator-mail.ts';
import { addWebhookCounter } from '../metrics/activity-metrics.ts';
import { addReadiness } from '../metrics/worker-metrics.ts';
import { Readiness } from '../readiness/readiness.ts';
import type { AcceptEmail } from '../../accept/accept.ts';
import type { DryRun } from '../../accept/dry-run.ts';
import { AttachmentUrls } from '../../accept/content/attachment-urls.ts';
import type { AcceptBatch } from '../../accept/email-batch.ts';
import { createDelivery } from './server-delivery.ts';
import { createInquiries } from './server-inquiries.ts';
import { listenForMail, type SmtpPorts } from './server-mail.ts';
import type { Database } from '../../database/database.ts';
import { SuppressionsMaximum } from '../../accounts/limits/maximum-store.ts';
import { loadMessages, sentSha256 } from '../../delivery/message/message-store.ts';
import { recordVisits } from '../../tracking/tracking-store.ts';
import { systemWorld } from '../machine/system-world.ts';
import { VisitBuffer } from '../../tracking/visits.ts';
import { TemplateService } from '../../templates/templates.ts';
import { WebhookLoop } from '../../webhooks/sending/loop.ts';
import { WebhookService } from '../../webhooks/endpoints.ts';
import { createWorkerContext, type WorkerContext } from './worker-context.ts';
import type { WorkerSetup } from './worker-messages.ts';

export type WorkerServer = {
  /** Null when this worker does not serve HTTP. */
  port: number | null;
  registry: Registry;
  /** Sends mail and webhooks, because the hold has ended. */
  endHold(): void;
  /** true: sends nothing more, and releases work that has not begun. false: sends again. */
  pause(isPaused: boolean): void;
  pollNow(): void;
  reportFailover(): Promise<void>;
  /** Seals with the first of these keys from now on (secrets/secret-box.ts). */
  useSecretKeys(secretKey: string): void;
  receiveFromBroker(messages: readonly BrokerMessage[]): void;
  noteLogIn(client: string): void;
  /** Stops accepting, waits for work in progress, and releases the rest. */
  stop(): Promise<void>;
};

export type SupervisorLink = {
  /** Called when all code is loaded and nothing is open yet. */
  onLoaded: () => void;
  onHolder: (id: string) => void;
  /** The machine's current reasons for accepting no mail. */
  refusals: () => readonly Unready[];
  /** Problems that do not stop mail. */
  warnings: () => readonly string[];
  sendToBroker: (messages: readonly WorkerMessage[]) => void;
  onReadiness: (reasons: readonly Unready[]) => void;
  onSmtpLogIn: (client: string) => void;
  metricsText: () => Promise<string>;
};

export async function createServer(
  setup: WorkerSetup,
  supervisor: SupervisorLink,
): Promise<WorkerServer> {
  const context = createWorkerContext(setup, supervisor.onHolder);
  const { config, db, lease, resolver } = context;
  const { holder, isFresh, checksRequested } = lease;
  const leased = { holder, isFresh, checksRequested };
  const webhooks = new WebhookLoop({ ...context, world: systemWorld, ...leased });
  const delivery = createDelivery(context, {
    onWebhooksQueued: () => webhooks.wake(),
    unsettledWebhooks: () => webhooks.unsettled,
    sendToBroker: supervisor.sendToBroker,
  });
  const unready = () => readiness.reasons();
  const operatorMail = createOperatorMail(context, { accept: delivery.accept, unready });
  const { isOverloaded } = delivery;
  const readiness = createReadiness(context, { isOverloaded }, supervisor);
  const unlessRefused: Readiness['runUnlessRefused'] = (work) => readiness.runUnlessRefused(work);
  const accept: AcceptEmail = (...request) => unlessRefused(() => delivery.accept(...request));
  const acceptBatch: AcceptBatch = (...request) =>
    unlessRefused(() => delivery.acceptBatch(...request));
  const notices = new NoticeSender({ ...context, world: systemWorld, accept });
  const mailing = operatorMail === null ? [notices] : [notices, operatorMail];
  const sending = createSending(setup, { delivery, webhooks, mailing });
  const domains = createDomainService({ ...context, world: systemWorld });
  const inquiries = createInquiries(context, { ...delivery, domains });
  const dryRun: DryRun = (...request) => unlessRefused(() => inquiries.dryRun(...request));
  const visits = createVisits(context, { webhooks, delivery });
  const features = { accept, acceptBatch, dryRun, diagnose: inquiries.diagnose, domains, visits };
  addMetrics(context, { webhooks, readiness });
  const app = createApp(context, { readiness, sending, features, supervisor });

  await app.ready();
  supervisor.onLoaded();
  await Promise.all([db.reserve(), lease.start()]);
  readiness.start();
  sending.startUnlessOnHold();
  const closeAdmin = await listenForRequests(app, setup);
  const smtp = await listenForMail(context, {
    accept,
    onWebhooksQueued: () => webhooks.wake(),
    refusal: () => readiness.refusal(),
    diskFull: readiness.diskFull,
    onLogIn: supervisor.onSmtpLogIn,
  });

  const stop = async (): Promise<void> => {
    readiness.stop();
    await stopInOrder({ app, closeAdmin, smtp, delivery, webhooks, visits, mailing });
    await lease.stop();
    await flushCounts(context);
    resolver.close();
    await db.close();
  };
  return {
    port: setup.parts.includes('api') ? config.port : null,
    registry: context.registry,
    endHold: () => sending.endHold(),
    pause: (isPaused) => sending.pause(isPaused),
    pollNow: () => {
      delivery.dispatcher.pollSoon();
      webhooks.wake();
    },
    reportFailover: () => delivery.logLost(),
    useSecretKeys: (secretKey) => context.secrets.replaceKeys(secretKey),
    receiveFromBroker: (messages) => delivery.connections.receive(messages),
    noteLogIn: (client) => smtp.noteLogIn(client),
    stop,
  };
}

/** Workers without the API also answer the command line. @returns a function that stops answering it */
async function listenForRequests(
  app: App,
  { parts, config: { host, port }, adminSocket }: WorkerSetup,
): Promise<() => Promise<void>> {
  if (parts.includes('api')) await app.listen({ host, port, backlog: 4096 });
  return listenOnAdminSocket(app, adminSocket);
}

function addMetrics(
  { registry, lease }: WorkerContext,
  { webhooks, readiness }: { webhooks: WebhookLoop; readiness: Readiness },
): void {
  addWebhookCounter(registry, () => webhooks.stats);
  addReadiness(registry, () => ({
    codes: readiness.reasons().map(({ code }) => code),
    unwrittenS: lease.heartbeatAgeMs() / 1_000,
  }));
}

/** Writes counts that are still in memory. */
async function flushCounts(context: WorkerContext): Promise<void> {
  const { reputation, operatorEvents } = context;
  context.stopWatching();
  await Promise.all([reputation.flush(), operatorEvents.flush()]);
}

function createReadiness(
  context: WorkerContext,
  { isOverloaded }: Pick<ReturnType<typeof createDelivery>, 'isOverloaded'>,
  { refusals, onReadiness: onChange }: SupervisorLink,
): Readiness {
  return new Readiness({ ...context, world: systemWorld, refusals, isOverloaded, onChange });
}

type SendingControl = {
  readonly isOnHold: boolean;
  /** Sends mail and webhooks, unless the installation is on hold. */
  startUnlessOnHold(): void;
  endHold(): void;
  /** Stops or resumes sending while the database is moved (move/move-watch.ts). */
  pause(isPaused: boolean): void;
};

function createSending(
  { parts, isOnHold }: WorkerSetup,
  {
    delivery,
    webhooks,
    mailing,
  }: {
    delivery: ReturnType<typeof createDelivery>;
    webhooks: WebhookLoop;
    mailing: readonly MailLoop[];
  },
): SendingControl {
  let isHolding = isOnHold;
  let isPaused = false;
  let isBegun = false;
  /** Runs one change after the other, because a pause takes seconds. */
  let changing: Promise<void> = Promise.resolve();
  const start = (): void => {
    isBegun = true;
    if (isPaused) return;
    if (parts.includes('delivery')) {
      delivery.dispatcher.start();
      for (const one of mailing) one.start();
    }
    if (parts.includes('webhooks')) webhooks.start();
  };
  const pause = async (): Promise<void> => {
    if (!isBegun) return;
    await stopMailing(mailing);
    await Promise.all([delivery.dispatcher.pause(), webhooks.pause()]);
  };
  const resume = (): void => {
    if (isBegun) start();
  };
  return {
    get isOnHold() {
      return isHolding;
    },
    startUnlessOnHold: () => {
      if (!isHolding) start();
    },
    endHold: () => {
      if (isHolding) start();
      isHolding = false;
    },
    pause: (wanted) => {
      if (wanted === isPaused) return;
      isPaused = wanted;
      changing = changing.then(wanted ? pause : resume);
    },
  };
}

function createOperatorMail(
  context: WorkerContext,
  mail: Pick<ConstructorParameters<typeof OperatorMail>[0], 'accept' | 'unready'>,
): OperatorMail | null {
  const { operatorAddress: to, operatorFrom: from } = context.config;
  return to === null
    ? null
    : new OperatorMail({ ...context, ...mail, world: systemWorld, to, from });
}

function createVisits(
  context: WorkerContext,
  { webhooks, delivery }: { webhooks: WebhookLoop; delivery: ReturnType<typeof createDelivery> },
): VisitBuffer {
  return new VisitBuffer({
    ...context,
    world: systemWorld,
    write: (batch) => recordVisits(context.db, batch),
    onWebhooksQueued: () => webhooks.wake(),
    onResult: (result, count) => delivery.metrics.visits.inc({ result }, count),
  });
}

function createApp(
  context: WorkerContext,
  parts: {
    readiness: Readiness;
    sending: SendingControl;
    features: Pick<
      HttpServices,
      'accept' | 'acceptBatch' | 'dryRun' | 'diagnose' | 'domains' | 'visits'
    >;
    supervisor: SupervisorLink;
  },
): App {
  const { db, builder } = context;
  const { readiness, sending, features, supervisor } = parts;
  const world = systemWorld;
  const localUrl = ownUrl(context.config);
  const services: HttpServices = {
    ...context,
    ...features,
    world,
    accounts: createHttpAccounts({ ...context, world, localUrl }),
    templates: new TemplateService(context),
    suppressionsMaximum: new SuppressionsMaximum(world, context.config.suppressionsMax),
    attachmentUrls: new AttachmentUrls({ ...context, world }),
    webhooks: new WebhookService({ ...context, world }),
    localUrl,
    contentOf: (wanted) => composeContent(db, builder, wanted),
    unready: () => readiness.reasons(),
    readyWarnings: supervisor.warnings,
    onResponseSent: context.activity.recordResponse,
    onLogInRefused: (logIn) => context.refusedLogIns.note(logIn),
    onDatabaseFailure: () => readiness.probeDatabase(),
    isStopping: () => readiness.isStopping,
    isOnHold: () => sending.isOnHold,
    newestBackup: () => findNewestBackup(context.config.backup, world),
    certificate: apiCertificate(context),
    metricsText: supervisor.metricsText,
  };
  return buildApp(services, { rootMount: RESEND_MOUNT });
}

function apiCertificate({ config, log }: WorkerContext): ReloadedCertificate | null {
  if (config.apiTlsFiles === null) return null;
  return new ReloadedCertificate(config.apiTlsFiles, { of: 'the API', world: systemWorld, log });
}

/** Returns the exact bytes of an email, composed again from the stored content. */
async function composeContent(
  db: Database,
  builder: MessageBuilder,
  wanted: Scope & { id: string; recipient: MessageRecipient },
): Promise<Buffer | null> {
  const message = (await loadMessages(db, [wanted])).get(wanted.id);
  if (!message) return null;
  const sha256 = await sentSha256(db, { ...wanted, position: wanted.recipient.position });
  return Buffer.concat((await builder.buildSent(message, wanted.recipient, sha256)).parts);
}

type MailLoop = { start(): void; stop(): Promise<void> };

async function stopMailing(mailing: readonly MailLoop[]): Promise<void> {
  await Promise.all(mailing.map((one) => one.stop()));
}

async function stopInOrder(parts: {
  app: App;
  closeAdmin: () => Promise<void>;
  smtp: SmtpPorts;
  delivery: ReturnType<typeof createDelivery>;
  webhooks: WebhookLoop;
  visits: VisitBuffer;
  mailing: readonly MailLoop[];
}): Promise<void> {
  // The dispatcher stops last, because it releases emails that are accepted while requests end.
  const { app, closeAdmin, smtp, mailing } = parts;
  await Promise.all([app.close(), closeAdmin(), smtp.close(), stopMailing(mailing)]);
  await Promise.all([parts.delivery.stop(), parts.webhooks.stop(), parts.visits.stop()]);
}
