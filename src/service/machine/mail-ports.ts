/**
 * Constructs the SMTP half of a worker: the ports for submission and for reports, with their certificate. All workers
 * of a machine share the ports.
 */
import { AuthLimiter } from '../../accounts/keys/auth-limiter.ts';
import { KeyCache } from '../../accounts/keys/key-cache.ts';
import { KeyUsage } from '../../accounts/keys/key-usage.ts';
import { createReceive, KEPT_BYTES_MAX } from '../../inbound/receive-message.ts';
import { UNMATCHED_LIMITS, UnmatchedRate } from '../../inbound/unmatched-rate.ts';
import { plainAddress } from '../../net/ip-addresses.ts';
import { KnownClients } from '../../net/smtp/server/server-limits.ts';
import {
  type SmtpLogIn,
  SmtpServer,
  type SmtpServerLimits,
  type SmtpServerOptions,
} from '../../net/smtp/server/smtp-server.ts';
import type { AcceptEmail } from '../../accept/accept.ts';
import { MESSAGE_MAX_BYTES } from '../../accept/draft.ts';
import { ENVELOPE_RECIPIENTS_MAX } from '../../accept/submitted-message.ts';
import { ReloadedCertificate } from './certificates.ts';
import { ownUrl } from './own-host.ts';
import { systemWorld } from './system-world.ts';
import type { WorkerContext } from '../worker/worker-context.ts';
import { createInboundHandlers, INBOUND_LIMITS } from '../../inbound/smtp-inbound.ts';
import {
  createLogIn,
  createSubmission,
  type SubmissionOptions,
} from '../../accept/smtp-submission.ts';
import { ReportStore } from '../../inbound/report-store.ts';
import type { DiskFullMemory } from '../../database/server/capacity.ts';
import { addSuppressionIn, countFullMailbox } from '../../suppressions/suppression-store.ts';
import { InboundMessageStore } from '../../inbound/inbound-message-store.ts';
import { RETURN_PATH } from '../../mail/links/return-path.ts';

export type SmtpPorts = {
  noteLogIn(client: string): void;
  close(): Promise<void>;
};

/** The same time as for HTTP requests when the service stops. */
const CLOSE_WITHIN_MS = 10_000;

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

function notedLogIn<User>(
  logIn: SmtpLogIn<User>,
  { activity, refusedLogIns }: Pick<WorkerContext, 'activity' | 'refusedLogIns'>,
): SmtpLogIn<User> {
  return async (session, credentials) => {
    const outcome = await logIn(session, credentials);
    const result = 'refused' in outcome ? LOG_IN_RESULTS[outcome.refused.code] : 'ok';
    if (result !== undefined) activity.loggedIn('smtp', result);
    if (result === 'refused' || result === 'limited') {
      const client = plainAddress(session.remoteAddress);
      refusedLogIns.note({ way: 'smtp', result, client, ids: { session_id: session.id } });
    }
    return outcome;
  };
}

/** 535: no valid key; 421: too many attempts without one. Other codes do not concern the key. */
const LOG_IN_RESULTS: Readonly<Record<number, 'refused' | 'limited'>> = {
  535: 'refused',
  421: 'limited',
};

/** Allows one application many sessions, and all its mail on one of them. */
const SUBMISSION_LIMITS: Partial<SmtpServerLimits> = {
  recipientsPerMessage: ENVELOPE_RECIPIENTS_MAX,
  connectionsPerClient: 500,
  messagesPerSession: Infinity,
};

/** Limit per machine, whose workers accept connections in turn. */
const ANONYMOUS_PER_CLIENT = 20;
/** Minimum per worker, because connections are not always spread evenly. */
const ANONYMOUS_PER_CLIENT_MIN = 4;
const NEW_SUBMISSIONS_PER_MINUTE = 120;
const NEW_INBOUND_PER_MINUTE = 1_200;

function perClient(workerCount: number, newPerMinute: number) {
  const share = Math.ceil(ANONYMOUS_PER_CLIENT / workerCount);
  return {
    anonymousPerClient: Math.max(ANONYMOUS_PER_CLIENT_MIN, share),
    newPerClientAndMinute: Math.ceil(newPerMinute / workerCount),
  };
}

export async function listenForMail(
  context: WorkerContext,
  {
    accept,
    onLogIn,
    ...listeners
  }: {
    accept: AcceptEmail;
    onWebhooksQueued: () => void;
    refusal: () => string | null;
    diskFull: DiskFullMemory;
    onLogIn: (client: string) => void;
  },
): Promise<SmtpPorts> {
  const { config, setup, log } = context;
  if (setup.certificate === null) return { noteLogIn: () => {}, close: () => Promise.resolve() };
  const certificate = new ReloadedCertificate(setup.certificate, {
    of: 'the mail ports',
    world: systemWorld,
    log,
  });
  const common = {
    hostname: config.hostname,
    sizeBytesMax: MESSAGE_MAX_BYTES,
    world: systemWorld,
    onBug: (error: unknown) => log.error({ err: error }, 'an SMTP session failed because of a bug'),
  };
  const tlsContext = () => certificate.context();
  const servers: { close(graceMs: number): Promise<void> }[] = [];
  const listen = async <User>(port: number, options: SmtpServerOptions<User>): Promise<void> => {
    servers.push(await startPort(context, port, options));
  };
  if (config.inboundPort !== null) {
    const tls = { mode: 'starttls' as const, context: tlsContext };
    const inbound = inboundOptions(context, listeners);
    await listen(config.inboundPort, {
      ...common,
      ...inbound,
      tls,
      limits: { ...inbound.limits, ...perClient(setup.workerCount, NEW_INBOUND_PER_MINUTE) },
    });
  }
  const use = new KeyUsage(context.db);
  const submission = submissionOptions(context, { accept, use });
  const known = new KnownClients(systemWorld, onLogIn);
  for (const { port, implicitTls } of config.submissionPorts) {
    await listen(port, {
      ...common,
      tls: { mode: implicitTls ? 'implicit' : 'starttls', context: tlsContext },
      limits: {
        ...SUBMISSION_LIMITS,
        ...perClient(setup.workerCount, NEW_SUBMISSIONS_PER_MINUTE),
        ...(config.smtpClientTimeoutMs && { logInTimeoutMs: config.smtpClientTimeoutMs }),
      },
      known,
      offersDsn: true,
      logIn: notedLogIn(createLogIn(submission), context),
      handlers: createSubmission(submission),
    });
  }
  return {
    noteLogIn: (client) => known.addKnown(client),
    close: async () => {
      await Promise.all(servers.map((server) => server.close(CLOSE_WITHIN_MS)));
      await use.close();
    },
  };
}

function submissionOptions(
  context: WorkerContext,
  { accept, use }: { accept: AcceptEmail; use: KeyUsage },
): SubmissionOptions {
  const { db, config, secrets, log } = context;
  return {
    accept,
    use,
    secrets,
    keys: new KeyCache(db.checking, systemWorld),
    limiter: new AuthLimiter(db, systemWorld, config.limits.auth),
    config,
    localUrl: ownUrl(config),
    world: systemWorld,
    log,
  };
}

/**
 * @param options.onWebhooksQueued called when webhook deliveries were queued
 * @param options.refusal why no mail is accepted; null when it is
 */
function inboundOptions(
  { config, db, secrets, log, onSettled }: WorkerContext,
  {
    onWebhooksQueued,
    refusal,
    diskFull,
  }: { onWebhooksQueued: () => void; refusal: () => string | null; diskFull: DiskFullMemory },
): Pick<SmtpServerOptions<null>, 'handlers' | 'limits' | 'keptBytesMax'> {
  const book = { db: db.receiving, secrets: () => secrets.deriveAll(RETURN_PATH) };
  const store = new ReportStore(db.receiving, {
    onWebhooksQueued,
    onSettled,
  });
  const receive = createReceive({
    book,
    store,
    unmatched: new InboundMessageStore(db.receiving, { ringBytesMax: config.unmatchedBytesMax }),
    rate: new UnmatchedRate(systemWorld, UNMATCHED_LIMITS),
    refusal,
    world: systemWorld,
    unsubscribe: async ({ projectId, environment, address, email }) => {
      const entry = {
        address,
        reason: 'unsubscribe',
        sourceEmailId: email.id,
        expiresAt: null,
        by: 'recipient',
      } as const;
      const { isNew } = await db.receiving.transaction((tx) =>
        addSuppressionIn(tx, { projectId, environment }, entry),
      );
      if (isNew) onWebhooksQueued();
      return isNew;
    },
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
    },
    keptBytesMax: KEPT_BYTES_MAX,
  };
}
