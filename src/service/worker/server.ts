/**
 * Constructs one worker: HTTP, accept, delivery and webhooks, with one database.
 *
 * This file and the server-*.ts files beside it construct the components and connect them. Rooms import one another
 * only through their stores and ports. Everything else is passed here as arguments.
 */
import type { Registry } from 'prom-client';
import { createHttpAccounts } from '../../accounts/http-accounts.ts';
import { findNewestBackup } from '../../backup/newest-backup.ts';
import type { Certificate } from '../../http/services.ts';
import { ReloadedCertificate } from '../machine/certificates.ts';
import type { Unready } from '../../core/unready.ts';
import type { Scope } from '../../core/scope.ts';
import type { BrokerMessage, WorkerMessage } from '../../delivery/broker/broker-messages.ts';
import type { MessageBuilder, MessageRecipient } from '../../delivery/message/message-builder.ts';
import { RESEND_MOUNT } from '../../compat/resend/mount.ts';
import { RESEND_FORMATS } from '../../compat/resend/wire/webhook-payload.ts';
import { DomainService } from '../../domains/domains.ts';
import { listenOnAdminSocket } from '../../http/socket/admin-requests.ts';
import { buildApp } from '../../http/app.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { ownUrl } from '../machine/own-host.ts';
import { NoticeSender } from '../../notices/notice-sender.ts';
import { OperatorMail } from '../../operator/operator-mail.ts';
import { addWebhookCounter } from '../metrics/activity-metrics.ts';
import { addReadiness } from '../metrics/worker-metrics.ts';
import { Readiness } from '../readiness/readiness.ts';
import type { AcceptEmail } from '../../accept/accept.ts';
import type { DryRun } from '../../accept/dry-run/dry-run.ts';
import { AttachmentUrls } from '../../accept/content/attachment-urls.ts';
import type { AcceptBatch } from '../../accept/email-batch.ts';
import { type Accepting, createAccepting } from './server-accept.ts';
import { createDelivery } from './server-delivery.ts';
import { createInquiries } from './server-inquiries.ts';
import type { Diagnose } from '../../emails/diagnosis/diagnosis.ts';
import {
  createSendingControl,
  type MailLoop,
  type SendingControl,
  stopMailing,
} from './sending-control.ts';
import type { SmtpPorts } from './server-mail.ts';
import type { Database } from '../../database/database.ts';
import { SuppressionsMaximum } from '../../accounts/limits/maximum-store.ts';
import { isConcealed } from '../../emails/email-store.ts';
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
  onLeased: (id: string) => void;
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
  const context = createWorkerContext(setup, supervisor.onLeased);
  const components = createComponents(context, supervisor);
  const { readiness, delivery, accepting, webhooks, sending } = components;
  const app = createApp(context, components, supervisor);

  const [mail] = await Promise.all([loadMail(setup), app.ready()]);
  supervisor.onLoaded();
  await Promise.all([context.db.reserve(), context.lease.start()]);
  readiness.start();
  sending.startUnlessOnHold();
  const closeAdmin = await listenForRequests(app, setup);
  const smtp = await mail?.listenForMail(context, {
    accept: components.accept,
    onWebhooksQueued: () => webhooks.wake(),
    refusal: () => readiness.refusal(),
    diskFull: readiness.diskFull,
    onLogIn: supervisor.onSmtpLogIn,
  });
  return {
    port: setup.parts.includes('api') ? context.config.port : null,
    registry: context.registry,
    endHold: () => sending.endHold(),
    pause: (isPaused) => sending.pause(isPaused),
    pollNow: () => {
      delivery.dispatcher.pollSoon();
      webhooks.wake();
    },
    reportFailover: () => accepting.logLost(),
    useSecretKeys: (secretKey) => context.secrets.replaceKeys(secretKey),
    receiveFromBroker: (messages) => delivery.connections.receive(messages),
    noteLogIn: (client) => smtp?.noteLogIn(client),
    stop: () => stopInOrder(context, { ...components, app, closeAdmin, smtp }),
  };
}

/** Loads the code of SMTP before `onLoaded`, which keeps compiled code. Without ports for mail, none is loaded. */
async function loadMail({ certificate }: WorkerSetup) {
  return certificate === null ? null : import('./server-mail.ts');
}

/** A worker constructs these between its context and its listeners. */
type ServerComponents = {
  webhooks: WebhookLoop;
  delivery: ReturnType<typeof createDelivery>;
  accepting: Accepting;
  readiness: Readiness;
  /** Accepts unless the readiness has a refusal. */
  accept: AcceptEmail;
  acceptBatch: AcceptBatch;
  dryRun: DryRun;
  diagnose: Diagnose;
  domains: DomainService;
  visits: VisitBuffer;
  mailing: readonly MailLoop[];
  sending: SendingControl;
};

function createComponents(context: WorkerContext, supervisor: SupervisorLink): ServerComponents {
  const { setup, lease, registry, db, config, log, secrets, resolver } = context;
  const world = systemWorld;
  const webhooks = createWebhookLoop(context);
  const onWebhooksQueued = (): void => webhooks.wake();
  const delivery = createDelivery(context, {
    onWebhooksQueued,
    unsettledWebhooks: () => webhooks.keptCount,
    sendToBroker: supervisor.sendToBroker,
  });
  const { dispatcher } = delivery;
  const accepting = createAccepting(context, { dispatcher, onWebhooksQueued });
  const readiness = createReadiness(context, accepting, supervisor);
  const unlessRefused: Readiness['runUnlessRefused'] = (work) => readiness.runUnlessRefused(work);
  const accept: AcceptEmail = (...request) => unlessRefused(() => accepting.accept(...request));
  const acceptBatch: AcceptBatch = (...request) =>
    unlessRefused(() => accepting.acceptBatch(...request));
  const domains = new DomainService({ db, config, log, secrets, resolver, world });
  const inquiries = createInquiries(context, { ...delivery, domains });
  const dryRun: DryRun = (...request) => unlessRefused(() => inquiries.dryRun(...request));
  const mailing = createMailing(context, { accepting, accept, readiness });
  addMetrics(registry, { lease, webhooks, readiness });
  return {
    webhooks,
    delivery,
    accepting,
    readiness,
    accept,
    acceptBatch,
    dryRun,
    diagnose: inquiries.diagnose,
    domains,
    visits: createVisits(context, onWebhooksQueued),
    mailing,
    sending: createSendingControl(setup, { dispatcher, webhooks, mailing }),
  };
}

function createWebhookLoop(context: WorkerContext): WebhookLoop {
  const { db, log, lease } = context;
  const { leaseId, isFresh, checksRequested } = lease;
  return new WebhookLoop({
    ...webhookRequests(context),
    db,
    log,
    leaseId,
    isFresh,
    checksRequested,
  });
}

/** Returns the parts that sign and send a request to a webhook. The loop and test events share them. */
function webhookRequests({ secrets, resolver, guard }: WorkerContext) {
  return { world: systemWorld, secrets, resolver, guard, otherFormats: RESEND_FORMATS };
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
  registry: Registry,
  {
    lease,
    webhooks,
    readiness,
  }: Pick<WorkerContext, 'lease'> & Pick<ServerComponents, 'webhooks' | 'readiness'>,
): void {
  addWebhookCounter(registry, () => webhooks.stats);
  addReadiness(registry, () => ({
    codes: readiness.reasons().map(({ code }) => code),
    unwrittenS: lease.heartbeatAgeMs() / 1_000,
  }));
}

function createReadiness(
  { db, lease }: WorkerContext,
  { isOverloaded }: Pick<Accepting, 'isOverloaded'>,
  { refusals, onReadiness: onChange }: SupervisorLink,
): Readiness {
  return new Readiness({ db, lease, world: systemWorld, refusals, isOverloaded, onChange });
}

/** Constructs what sends mail of the service itself: notices to senders, and mail to the operator. */
function createMailing(
  { db, config, log, operatorEvents }: WorkerContext,
  { accepting, accept, readiness }: Pick<ServerComponents, 'accepting' | 'accept' | 'readiness'>,
): MailLoop[] {
  const world = systemWorld;
  const notices = new NoticeSender({ db, config, log, world, accept });
  const { operatorAddress: to, operatorFrom: from } = config;
  if (to === null) return [notices];
  const unready = () => readiness.reasons();
  const operatorMail = new OperatorMail({
    db,
    config,
    log,
    operatorEvents,
    world,
    // Mail to the operator is accepted even while other mail is refused.
    accept: accepting.accept,
    unready,
    to,
    from,
  });
  return [notices, operatorMail];
}

function createVisits(
  { db, log, counters }: WorkerContext,
  onWebhooksQueued: () => void,
): VisitBuffer {
  return new VisitBuffer({
    world: systemWorld,
    log,
    write: (batch) => recordVisits(db, batch),
    onWebhooksQueued,
    onResult: (result, count) => counters.visits.inc({ result }, count),
  });
}

function createApp(
  context: WorkerContext,
  components: ServerComponents,
  supervisor: SupervisorLink,
): App {
  const { db, log, config, secrets, operatorEvents, resolver, guard } = context;
  const { builder, activity, refusedLogIns } = context;
  const { accept, acceptBatch, dryRun, diagnose, domains, visits, readiness, sending } = components;
  const world = systemWorld;
  const localUrl = ownUrl(config);
  const services: HttpServices = {
    db,
    world,
    log,
    config,
    secrets,
    operatorEvents,
    accept,
    acceptBatch,
    dryRun,
    diagnose,
    domains,
    visits,
    accounts: createHttpAccounts({ db, config, secrets, world, log, localUrl }),
    templates: new TemplateService({ db }),
    suppressionsMaximum: new SuppressionsMaximum(world, config.suppressionsMax),
    attachmentUrls: new AttachmentUrls({ guard, resolver, world }),
    webhooks: new WebhookService({ ...webhookRequests(context), db, log }),
    localUrl,
    contentOf: (wanted) => composeContent(db, builder, wanted),
    unready: () => readiness.reasons(),
    readyWarnings: supervisor.warnings,
    onResponseSent: activity.recordResponse,
    onLogInRefused: (logIn) => refusedLogIns.note(logIn),
    onDatabaseFailure: () => readiness.probeDatabase(),
    isStopping: () => readiness.isStopping,
    isOnHold: () => sending.isOnHold,
    newestBackup: () => findNewestBackup(config.backup, world),
    certificate: apiCertificate(context),
    metricsText: supervisor.metricsText,
  };
  return buildApp(services, { rootMount: RESEND_MOUNT });
}

function apiCertificate({ config, setup, log }: WorkerContext): Certificate | null {
  if (config.apiTlsFiles === null) return null;
  const options = { world: systemWorld, log };
  const api = new ReloadedCertificate(config.apiTlsFiles, { ...options, of: 'the API' });
  const { trackingCertificate: tracking } = setup;
  if (tracking === null) return api;
  const links = new ReloadedCertificate(tracking.files, { ...options, of: 'tracked links' });
  return {
    pems: () => api.pems(),
    contextFor: (name) => (name.toLowerCase() === tracking.name ? links.context() : null),
  };
}

/** Returns the exact bytes of an email, composed again from the stored content; null when nobody may read it. */
async function composeContent(
  db: Database,
  builder: MessageBuilder,
  wanted: Scope & { id: string; recipient: MessageRecipient },
): Promise<Buffer | null> {
  if (await isConcealed(db, wanted)) return null;
  const message = (await loadMessages(db, [wanted])).get(wanted.id);
  if (!message) return null;
  const sha256 = await sentSha256(db, { ...wanted, position: wanted.recipient.position });
  return Buffer.concat((await builder.buildSent(message, wanted.recipient, sha256)).parts);
}

type Listeners = { app: App; closeAdmin: () => Promise<void>; smtp: SmtpPorts | undefined };

async function stopInOrder(
  context: WorkerContext,
  components: ServerComponents & Listeners,
): Promise<void> {
  const { app, closeAdmin, smtp, mailing, delivery, accepting, webhooks, visits } = components;
  components.readiness.stop();
  await Promise.all([app.close(), closeAdmin(), smtp?.close(), stopMailing(mailing)]);
  // The dispatcher stops last, because it releases emails that are accepted while requests end.
  await Promise.all([delivery.stop(), accepting.stop(), webhooks.stop(), visits.stop()]);
  await context.lease.stop();
  await flushCounts(context);
  context.resolver.close();
  await context.db.close();
}

/** Writes counts that are still in memory. */
async function flushCounts(context: WorkerContext): Promise<void> {
  const { reputation, operatorEvents } = context;
  context.stopWatching();
  await Promise.all([reputation.flush(), operatorEvents.flush()]);
}
