/**
 * Constructs the SMTP servers of a worker: the ports for submission and for reports, with their certificate. All
 * workers of a machine share the ports. Loaded only where there are such ports.
 */
import { AuthLimiter } from '../../accounts/keys/auth-limiter.ts';
import { KeyCache } from '../../accounts/keys/key-cache.ts';
import { KeyUsage } from '../../accounts/keys/key-usage.ts';
import { createReceive, STORED_BYTES_MAX } from '../../inbound/receive-message.ts';
import { UNMATCHED_LIMITS, UnmatchedRate } from '../../inbound/unmatched-rate.ts';
import type { Caller } from '../../core/scope.ts';
import { plainAddress } from '../../net/ip-addresses.ts';
import { KnownClients } from '../../net/smtp/server/server-limits.ts';
import { SmtpServer, type SmtpServerOptions } from '../../net/smtp/server/smtp-server.ts';
import type { AcceptEmail } from '../../accept/accept.ts';
import { MESSAGE_MAX_BYTES } from '../../accept/draft.ts';
import { type CertificateFiles, ReloadedCertificate } from '../machine/certificates.ts';
import { ownUrl } from '../machine/own-host.ts';
import { systemWorld } from '../machine/system-world.ts';
import type { WorkerContext } from './worker-context.ts';
import { createInboundHandlers, INBOUND_LIMITS } from '../../inbound/smtp-inbound.ts';
import {
  createLogIn,
  createSubmission,
  SUBMISSION_LIMITS,
  type SubmissionOptions,
} from '../../accept/smtp-submission.ts';
import { ReportStore } from '../../inbound/report-store.ts';
import type { DiskFullMemory } from '../../database/server/capacity.ts';
import { countFullMailbox } from '../../suppressions/suppression-store.ts';
import { InboundMessageStore } from '../../inbound/inbound-message-store.ts';
import { RETURN_PATH } from '../../mail/links/return-path.ts';

export type SmtpPorts = {
  noteLogIn(client: string): void;
  close(): Promise<void>;
};

type MailListeners = {
  accept: AcceptEmail;
  /** Called when webhook deliveries were queued. */
  onWebhooksQueued: () => void;
  /** Returns why no mail is accepted; null when it is. */
  refusal: () => string | null;
  diskFull: DiskFullMemory;
  /** Called when a client logged in, for the other workers. */
  onLogIn: (client: string) => void;
};

/** The same time as for HTTP requests when the service stops. */
const CLOSE_WITHIN_MS = 10_000;

/** Limit per machine, whose workers accept connections in turn. */
const ANONYMOUS_PER_CLIENT = 20;
/** Minimum per worker, because connections are not always spread evenly. */
const ANONYMOUS_PER_CLIENT_MIN = 4;
const NEW_SUBMISSIONS_PER_MINUTE = 120;
const NEW_INBOUND_PER_MINUTE = 1_200;

export async function listenForMail(
  context: WorkerContext,
  listeners: MailListeners,
): Promise<SmtpPorts> {
  const { config, setup, db } = context;
  if (setup.certificate === null) throw new Error('ports for mail need a certificate');
  const common = commonOptions(context, setup.certificate);
  const keyUsage = new KeyUsage(db);
  const known = new KnownClients(systemWorld, listeners.onLogIn);
  const servers: { close(graceMs: number): Promise<void> }[] = [];
  if (config.inboundPort !== null) {
    const options = inboundOptions(context, listeners);
    servers.push(await startPort(context, config.inboundPort, { ...common, ...options }));
  }
  const submission = submissionOptions(context, { accept: listeners.accept, keyUsage });
  for (const { port, implicitTls } of config.submissionPorts) {
    const tls = { ...common.tls, mode: implicitTls ? 'implicit' : 'starttls' } as const;
    servers.push(await startPort(context, port, { ...common, ...submission, known, tls }));
  }
  return {
    noteLogIn: (client) => known.addKnown(client),
    close: async () => {
      await Promise.all(servers.map((server) => server.close(CLOSE_WITHIN_MS)));
      await keyUsage.close();
    },
  };
}

async function startPort<User>(
  { activity, config }: WorkerContext,
  port: number,
  options: SmtpServerOptions<User>,
): Promise<SmtpServer<User>> {
  const name = options.logIn ? 'submission' : 'inbound';
  const onReply = (code: number): void => activity.repliedTo(name, code);
  const server = new SmtpServer({ ...options, onReply });
  await server.listen({ port, ...(config.smtpHost === null ? {} : { host: config.smtpHost }) });
  return server;
}

function commonOptions({ config, log }: WorkerContext, files: CertificateFiles) {
  const certificate = new ReloadedCertificate(files, {
    of: 'the mail ports',
    world: systemWorld,
    log,
  });
  return {
    hostname: config.hostname,
    sizeBytesMax: MESSAGE_MAX_BYTES,
    tls: { mode: 'starttls' as const, context: () => certificate.context() },
    world: systemWorld,
    onBug: (error: unknown) => log.error({ err: error }, 'an SMTP session failed because of a bug'),
  };
}

function submissionOptions(
  context: WorkerContext,
  { accept, keyUsage }: { accept: AcceptEmail; keyUsage: KeyUsage },
): Pick<SmtpServerOptions<Caller>, 'handlers' | 'limits' | 'logIn' | 'offersDsn'> {
  const { activity, config, db, log, refusedLogIns, secrets, setup } = context;
  const submission: SubmissionOptions = {
    config,
    secrets,
    log,
    accept,
    keyUsage,
    keys: new KeyCache(db.checking, systemWorld),
    limiter: new AuthLimiter(db, systemWorld, config.limits.auth),
    onLogIn: (result, { id, remoteAddress }) => {
      activity.loggedIn('smtp', result);
      if (result === 'ok') return;
      const client = plainAddress(remoteAddress);
      refusedLogIns.note({ way: 'smtp', result, client, ids: { session_id: id } });
    },
    localUrl: ownUrl(config),
    world: systemWorld,
  };
  return {
    limits: {
      ...SUBMISSION_LIMITS,
      ...limitsPerClient(setup.workerCount, NEW_SUBMISSIONS_PER_MINUTE),
      ...(config.smtpClientTimeoutMs && { logInTimeoutMs: config.smtpClientTimeoutMs }),
    },
    offersDsn: true,
    logIn: createLogIn(submission),
    handlers: createSubmission(submission),
  };
}

function inboundOptions(
  { config, db, secrets, log, onSettled, setup }: WorkerContext,
  { onWebhooksQueued, refusal, diskFull }: MailListeners,
): Pick<SmtpServerOptions<null>, 'handlers' | 'limits' | 'keptBytesMax'> {
  const book = { db: db.inbound, secrets: () => secrets.deriveAll(RETURN_PATH) };
  const receive = createReceive({
    book,
    store: new ReportStore(db.inbound, { onWebhooksQueued, onSettled }),
    unmatched: new InboundMessageStore(db.inbound, { ringBytesMax: config.unmatchedBytesMax }),
    rate: new UnmatchedRate(systemWorld, UNMATCHED_LIMITS),
    refusal,
    world: systemWorld,
    db: db.inbound,
    onWebhooksQueued,
    onMailboxFull: (failure) => void countFullMailbox({ db, log }, failure),
  });
  const { smtpClientTimeoutMs } = config;
  return {
    handlers: createInboundHandlers({
      book,
      receive: (arrival) => diskFull.guard(() => receive(arrival)),
      log,
      world: systemWorld,
    }),
    limits: {
      ...INBOUND_LIMITS,
      ...(smtpClientTimeoutMs && { commandTimeoutMs: smtpClientTimeoutMs }),
      ...limitsPerClient(setup.workerCount, NEW_INBOUND_PER_MINUTE),
    },
    keptBytesMax: STORED_BYTES_MAX,
  };
}

function limitsPerClient(workerCount: number, newPerMinute: number) {
  const share = Math.ceil(ANONYMOUS_PER_CLIENT / workerCount);
  return {
    anonymousPerClient: Math.max(ANONYMOUS_PER_CLIENT_MIN, share),
    newPerClientAndMinute: Math.ceil(newPerMinute / workerCount),
  };
}
